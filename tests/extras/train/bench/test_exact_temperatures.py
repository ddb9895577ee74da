"""Exact success equals that of every episode, listed token by token, at any temperature and truncation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.tiny_language import tiny_agent

import creditflow
from creditflow.agents.backends.base import Completion, Sampling
from creditflow.agents.base import View
from creditflow.agents.language_model.agent import LanguageModelAgent, decide
from creditflow.envs.core import AgentEnv
from creditflow.train.bench.language_model.evaluate import TableValues, evaluate_exactly

LEVEL, TURNS, TOKENS = "#####\n#@$.#\n#   #\n#####", 3, ("right", "down", "up", "U", "Ġ")
OPTIONS: dict[str, Any] = {"level": LEVEL, "max_steps": TURNS, "separator": ""}
CASES = [
    Sampling(temperature=1e-3),
    Sampling(temperature=0.3),
    Sampling(temperature=5.0),
    Sampling(temperature=100.0),
    Sampling(temperature=100.0, top_k=3),
    Sampling(temperature=5.0, top_p=0.5),
    Sampling(temperature=0.3, top_k=4, top_p=0.9),
    Sampling(temperature=5.0, top_k=10_000, top_p=1e-9),
]
IDS = [f"{case.temperature:g}-{case.top_k}-{case.top_p:g}" for case in CASES]


@pytest.fixture(scope="module")
def player() -> tuple[LanguageModelAgent, Any, AgentEnv[Any, Any, Any]]:
    """A random model in double precision, so that low temperatures magnify no rounding; its tokenizer and environment."""
    agent, tokenizer = tiny_agent(
        21, 2, tokens=TOKENS, init=0.12
    )  # solves the task sometimes, at every temperature from 0.3 on
    backend: Any = agent.backend
    backend.model.double()
    env: Any = creditflow.make("sokoban", **OPTIONS).unwrapped
    return agent, tokenizer, env


def next_probabilities(logits: torch.Tensor, sampling: Sampling) -> np.ndarray[Any, Any]:
    """The distribution of one token, float64 (V,), by sorting in NumPy."""
    scaled = logits.double().numpy()
    weights = np.exp((scaled - scaled.max()) / sampling.temperature)
    weights /= weights.sum()
    allowed, before = np.zeros(len(weights), bool), 0.0
    for rank, token in enumerate(np.argsort(-weights, kind="stable")):
        allowed[token] = (not sampling.top_k or rank < sampling.top_k) and before < sampling.top_p
        before += weights[token]
    probabilities: np.ndarray[Any, Any] = np.where(allowed, weights, 0.0) / weights[allowed].sum()
    return probabilities


def episodes_listed(agent: LanguageModelAgent, env: AgentEnv[Any, Any, Any], sampling: Sampling) -> TableValues:
    """Values by following every completion of every turn, with the real prompts, parser and environment."""
    backend: Any = agent.backend
    chat, model = agent.conversations.chat, backend.model
    completions: dict[bytes, dict[tuple[int, ...], float]] = {}

    def after(prompt: list[int]) -> np.ndarray[Any, Any]:
        return next_probabilities(model(input_ids=torch.tensor([prompt])).logits[0, -1], sampling)

    def written(prompt: list[int]) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        first = after(prompt)
        for token in np.flatnonzero(first).tolist():
            if token in chat.end_ids:
                found[token,] = first[token]
                continue
            second = after([*prompt, token])
            found |= {(token, other): first[token] * second[other] for other in np.flatnonzero(second).tolist()}
        return found

    def values(state: str, observation: Any, info: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Success, turns and invalid turns from here on."""
        pending = agent.conversations.build_prompt(View(observation, info, (), env, np.random.default_rng(0)))
        key = pending.ids.tobytes()
        if key not in completions:
            completions[key] = written(pending.ids.tolist())
        actions: dict[str, float] = {}  # "" for all that the environment does not read
        for ids, probability in completions[key].items():
            done = decide(agent.conversations, agent.dialect, pending,
                          Completion(np.array(ids, np.int32), np.zeros(len(ids), np.float32)))  # fmt: skip
            read = "" if done.invalid_reason or env.parse_text(done.action) is None else done.action
            actions[read] = actions.get(read, 0.0) + probability
        total = np.zeros(3)
        for action, probability in actions.items():
            env.set_state(state)
            observed, _, terminated, truncated, then = env.step(action)
            result = np.array([float(then["success"]), 1.0, float(not then["action_valid"])])
            if not terminated and not truncated:
                result += values(env.get_state(), observed, then)
            total += probability * result
        return total

    with torch.inference_mode():
        observation, info = env.reset()
        success, turns, invalid = values(env.get_state(), observation, info).tolist()
    return TableValues(success, success, turns, invalid)


def exactly(player: Any, sampling: Sampling) -> TableValues:
    agent, tokenizer, env = player
    tasks = [env.tasks.get(task_id) for task_id in env.tasks.task_ids()]
    sampling = replace(sampling, max_new_tokens=2)
    found = evaluate_exactly(agent.with_sampling(sampling), tokenizer, env, tasks, temperature=sampling.temperature)
    assert found.unresolved <= 1e-5
    [values] = found.sampled
    return values


@pytest.mark.parametrize("sampling", CASES, ids=IDS)
def test_exact_values_are_those_of_every_episode(player: Any, sampling: Sampling) -> None:
    agent, _, env = player
    expected = episodes_listed(agent, env, sampling)
    found = exactly(player, sampling)
    for name in ("success", "score", "turns", "invalid"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=2e-5), name
