"""``audit --replay`` of a language model's log: its continuations begin with the prompts of the record, of every kind of history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.pretrained import pretrained_folder

import creditflow
from creditflow.agents.backends.base import Completion, GenerationRequest
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.base import RecordedHistory, View
from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.chat import PlainChat
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.agents.prompts import make_prompt
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups
from creditflow.wrappers.records.trajectory import Trajectory, Turn

K = 3
ENV = (
    "--env",
    "sokoban",
    "--env-set",
    "symbols=ascii",
    "--panel",
    "small-v1:train",
    "--max-turns",
    "4",
    "--limit",
    "2",
    "--group-size",
    "2",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(pretrained_folder(tmp_path_factory.mktemp("model")))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Every prompt that a model is asked to continue."""
    prompts: list[list[int]] = []
    generate = TransformersBackend.generate

    def spy(backend: TransformersBackend, requests: Sequence[GenerationRequest], *rest: Any) -> list[Completion]:
        prompts.extend(request.ids.tolist() for request in requests)
        return generate(backend, requests, *rest)

    monkeypatch.setattr(TransformersBackend, "generate", spy)
    return prompts


def played(model: str, log: Path, *more: str) -> Path:
    agent = ("--agent", f"hf:{model}", "--prompt", "action-v1", "--dialect", "bare", "--max-new-tokens", "4")
    assert main(["rollout", *ENV, *agent, *more, "--out", str(log)]) == 0
    return log


def members(log: Path) -> list[Trajectory]:
    return [member for group in read_groups(log) for member in group.trajectories]


def recorded_prompts(member: Trajectory) -> list[list[int]]:
    """What the model read before its completion in each turn."""
    tokens = member.tokens
    assert tokens is not None
    if tokens.prompts:
        return [prompt.tolist() for prompt in tokens.prompts]
    spans = pairwise(tokens.turn_offsets.tolist())
    return [tokens.ids[: start + int(tokens.mask[start:stop].argmax())].tolist() for start, stop in spans]


@pytest.mark.parametrize("history", [("append",), ("window", "--window", "2")], ids=lambda history: history[0])
def test_a_continuation_begins_with_the_prompt_of_its_turn(
    history: tuple[str, ...], model: str, seen: list[list[int]], tmp_path: Path
) -> None:
    log = played(model, tmp_path / "log.jsonl", "--history", *history)
    expected = [prompt for member in members(log) for prompt in recorded_prompts(member)]
    assert len(expected) >= 8 and len({tuple(prompt) for prompt in expected}) > 2
    seen.clear()
    out = tmp_path / "replayed.jsonl"
    assert main(["audit", str(log), "--replay", str(K), "--out", str(out)]) == 0
    for prompt in expected:  # continuations are played in the order of the turns
        start = seen.index(prompt)
        assert seen[start : start + K] == [prompt] * K
    for member in members(out):
        assert [turn.values["fork.q"] for turn in member.turns][-1] == member.score
        assert member.values["fork.tokens"] > 0


def test_a_log_without_token_ids_is_continued_from_its_texts(model: str, seen: list[list[int]], tmp_path: Path) -> None:
    log, texts = played(model, tmp_path / "log.jsonl"), tmp_path / "texts.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    texts.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "tokens"}) + "\n" for line in lines))
    expected = [recorded_prompts(member)[0] for member in members(log)]
    seen.clear()
    assert main(["audit", str(texts), "--replay", str(K), "--out", str(tmp_path / "out.jsonl")]) == 0
    assert all(prompt in seen for prompt in expected)
    lengths = {len(prompt) for prompt in seen}
    assert max(lengths) > max(map(len, expected))  # later turns have a history


@pytest.mark.parametrize("agent", ["hf", "react:hf"])
def test_a_model_continues_the_episodes_of_another_policy_and_its_alternatives(
    agent: str, model: str, seen: list[list[int]], tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    assert main(["rollout", *ENV, "--agent", "noisy:0.5", "--out", str(log)]) == 0
    command = [
        "audit",
        str(log),
        "--replay",
        "2",
        "--alternatives",
        "--agent",
        f"{agent}:{model}",
        "--out",
        str(tmp_path / "out.jsonl"),
    ]
    assert main(command) == 0
    replayed = members(tmp_path / "out.jsonl")
    assert all(
        turn.values.keys() >= {"fork.q", "fork.mean", "fork.best"} for member in replayed for turn in member.turns
    )
    assert seen and any(len(member.turns) > 1 for member in replayed)


def test_ids_of_another_vocabulary_are_not_used(model: str, seen: list[list[int]], tmp_path: Path) -> None:
    log = played(model, tmp_path / "log.jsonl")
    other = tmp_path / "other.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["tokens"]["ids"] = [2**31 - 1 - number for number in line["tokens"]["ids"]]
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["audit", str(other), "--replay", str(K), "--out", str(tmp_path / "out.jsonl")]) == 0
    assert max(map(max, seen)) < 2**16
    assert np.isfinite(
        [turn.values["fork.q"] for member in members(tmp_path / "out.jsonl") for turn in member.turns]
    ).all()


@pytest.mark.parametrize("known", [True, False])
def test_an_empty_completion_is_kept_and_an_unrecorded_one_is_written(known: bool, model: str) -> None:
    env: Any = creditflow.make("sokoban", symbols="ascii").unwrapped
    observation, info = env.reset(seed=0)
    chat, dialect = PlainChat(open_tokenizer(model)), make_dialect("think")
    conversations = Conversations(make_prompt("action-v1"), chat)
    view = View(observation, info, (), env, np.random.default_rng(0))
    turn = Turn(info["state_key"], "up", info["state_key"])
    empty = chat.encode_completion("")
    conversations.resume(dialect, RecordedHistory([view], [turn], [empty if known else None]), [env])
    later = conversations.build_prompt(replace(view, turns=(turn,)))
    history = later.ids[: len(later.ids) - len(later.new)]
    completion = empty if known else chat.encode_completion(dialect.write("up"))
    assert history.tolist() == [*conversations.build_prompt(view).ids, *completion]
