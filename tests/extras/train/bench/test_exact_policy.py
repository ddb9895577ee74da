"""Exact action probabilities equal those from listing all completions, for any tokenizer, temperature and truncation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.tiny_language import tiny_agent
from helpers.worlds.gridworlds import register_grids
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.agents.backends.base import Completion, Sampling
from creditflow.agents.backends.token_sampling import token_probabilities
from creditflow.agents.base import View
from creditflow.agents.language_model.agent import LanguageModelAgent, decide
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.language_model import completion_trie
from creditflow.train.bench.language_model.policy import ExactPolicy
from creditflow.train.bench.language_model.tables import PromptTable, prompt_table

register_grids()

LEVEL = "######\n#@ $.#\n######"


def sokoban(**options: Any) -> AgentEnv[Any, Any, Any]:
    env: AgentEnv[Any, Any, Any] = creditflow.make(
        "sokoban", level=LEVEL, max_steps=2, separator="", **options
    ).unwrapped  # type: ignore[assignment]  # gymnasium's own type
    return env


def first_table(agent: LanguageModelAgent, env: AgentEnv[Any, Any, Any]) -> PromptTable:
    return prompt_table(agent, env, env.tasks.get(env.tasks.task_ids()[0]))


def listed(agent: LanguageModelAgent, env: AgentEnv[Any, Any, Any], table: PromptTable, sampling: Sampling) -> Any:
    """Action probabilities by listing every token sequence, read by the real agent and executed by the environment."""
    chat = agent.conversations.chat
    model: Any = agent.backend.model  # type: ignore[attr-defined]  # of the backend in use
    vocabulary, longest = model.config.vocab_size, agent.sampling.max_new_tokens
    others = [token for token in range(vocabulary) if token not in chat.end_ids]
    result = np.zeros((table.mdp.size, len(table.mdp.actions)))

    def action_of(ids: tuple[int, ...]) -> int:
        observation, info = env.reset()
        view = View(observation, info, (), env, np.random.default_rng(0))
        pending = agent.conversations.build_prompt(view)
        done = decide(
            agent.conversations,
            agent.dialect,
            pending,
            Completion(np.array(ids, np.int32), np.zeros(len(ids), np.float32)),
        )
        read = env.parse_text(done.action)
        valid = not done.invalid_reason and env.step(done.action)[4]["action_valid"]
        assert valid == (read is not None)
        return [env.parse_text(a) for a in table.actions].index(read) if valid else len(table.actions)

    with torch.inference_mode():
        for length in range(longest):
            for start in product(others, repeat=length):
                reads = {token: action_of((*start, token)) for token in range(vocabulary)
                         if token in chat.end_ids or length + 1 == longest}  # fmt: skip
                for s, prompt in enumerate(table.prompts):
                    ids = torch.tensor([[*prompt.tolist(), *start]])
                    logits = model(input_ids=ids).logits[0, len(prompt) - 1 :].float()
                    p = token_probabilities(logits, sampling).numpy()
                    before = np.prod([p[i, token] for i, token in enumerate(start)])
                    for token, action in reads.items():
                        result[s, action] += before * p[-1, token]
    return result


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=0.5), Sampling(temperature=0.0), Sampling(top_k=5), Sampling(top_p=0.7)],
    ids=["plain", "cold", "greedy", "top_k", "top_p"],
)
def test_probabilities_equal_those_from_listing_all_completions(sampling: Sampling) -> None:
    sampling = replace(sampling, max_new_tokens=2)
    agent, tokenizer = tiny_agent(0, 2)
    env = sokoban()
    table = first_table(agent, env)
    found = ExactPolicy.of_agent(agent.with_sampling(sampling), tokenizer, env, table.actions, tolerance=0.0)
    [exact] = found.probabilities([table], sampling.temperature)
    np.testing.assert_allclose(exact, listed(agent, env, table, sampling), atol=2e-6)
    assert found.unresolved == 0.0


@pytest.mark.parametrize("seed", [1, 2])
def test_every_tokenization_and_any_white_space_counts(seed: int) -> None:
    tokens = ("up", "u", "p", "Ġ", "Â", "ł", "ġ")  # a no-break space in two tokens, one byte that begins no character
    agent, tokenizer = tiny_agent(seed, 3, tokens=tokens)
    env = sokoban()
    table = first_table(agent, env)
    policy = ExactPolicy.of_agent(agent, tokenizer, env, table.actions, tolerance=0.0)
    [exact] = policy.probabilities([table])
    np.testing.assert_allclose(exact, listed(agent, env, table, Sampling()), atol=2e-6)
    texts = {tokenizer.decode(list(node.path)) for node in policy.trie.nodes if node.action == 0}
    assert {"up", " up", "up ", "\xa0up", "up\xa0"} <= texts


@settings(max_examples=20)
@given(seed=st.integers(0, 999), temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]), tokens=st.integers(1, 4))
def test_rows_are_distributions_and_the_tolerance_bounds_the_error(seed: int, temperature: float, tokens: int) -> None:
    agent, tokenizer = tiny_agent(seed, tokens)
    env: Any = creditflow.make("grid-pits", seed=seed, count=1).unwrapped
    table = first_table(agent, env)
    whole, part = (ExactPolicy.of_agent(agent, tokenizer, env, table.actions, tolerance=t) for t in (0.0, 1e-2))
    [exact], [near] = whole.probabilities([table], temperature), part.probabilities([table], temperature)
    assert exact.shape == (table.mdp.size, 5)
    assert exact.min() >= 0.0
    np.testing.assert_allclose(exact.sum(axis=1), 1.0, atol=1e-12)
    assert part.unresolved <= 1e-2
    assert np.abs(exact - near).max() <= 1e-2 + 1e-6
    assert (near[:, :-1] <= exact[:, :-1] + 1e-6).all()  # what is pruned counts as invalid
    if not temperature:
        assert set(np.unique(exact)) <= {0.0, 1.0}


def test_a_tolerance_prunes_prefixes() -> None:
    agent, tokenizer = tiny_agent(0, 4)
    env = sokoban()
    table = first_table(agent, env)
    whole, part = (ExactPolicy.of_agent(agent, tokenizer, env, table.actions, tolerance=t) for t in (0.0, 0.1))
    for policy in (whole, part):
        policy.probabilities([table])
    assert 0.0 == whole.unresolved < part.unresolved <= 0.1
    assert len(part.trie.nodes) < len(whole.trie.nodes)


def test_neither_the_size_of_batches_nor_other_prompts_change_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, tokenizer = tiny_agent(1, 3)
    env = sokoban()
    table = first_table(agent, env)
    policy = ExactPolicy.of_agent(agent, tokenizer, env, table.actions, tolerance=0.0)
    prompts = [ids[cut:] for ids in table.prompts[:2] for cut in (0, 1, 0, 2)]  # of three lengths, some of them twice
    together = policy.rows(prompts)
    np.testing.assert_allclose(together, [policy.rows([ids])[0] for ids in prompts], atol=2e-6)
    monkeypatch.setattr(completion_trie, "PROMPT_ROWS", 2)
    monkeypatch.setattr(completion_trie, "STEP_ROWS", 3)
    np.testing.assert_allclose(policy.rows(prompts), together, atol=2e-6)


def test_other_actions_and_dialects_with_thoughts_are_rejected() -> None:
    agent, tokenizer = tiny_agent(0, 2)
    env = sokoban()
    table = first_table(agent, env)
    policy = ExactPolicy.of_agent(agent, tokenizer, env, ("up", "down"))
    with pytest.raises(ConfigError, match="other actions"):
        policy.probabilities([table])
    with pytest.raises(ConfigError, match="rejects the text of its own action 'fly'"):
        ExactPolicy.of_agent(agent, tokenizer, env, ("fly",))
    thinking, tokenizer = tiny_agent(0, 2, dialect="think")
    with pytest.raises(ConfigError, match=r"'tagged' has no finite set .* prompting.dialect: bare"):
        ExactPolicy.of_agent(thinking, tokenizer, env, table.actions)
