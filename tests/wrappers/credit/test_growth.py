"""Work of schemes is linear in their input: operations are counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pytest

from creditflow import credit
from creditflow.wrappers.credit.annotations.gae import gae_ragged
from creditflow.wrappers.credit.entities import information_gain
from creditflow.wrappers.credit.entities.information_gain import redundancies
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

SEMANTICS: tuple[credit.Semantics, ...] = ("paper", "release")
CASES = [
    (name, semantics)
    for name in credit.names()
    for semantics in SEMANTICS
    if semantics in lookup(name).presets
]  # fmt: skip
VALUES = (
    "value.pica", "value.critic", "judge.score", "rubric.passed", "rubric.failed",
    "logp.answer", "logp.answer.mean", "logp.hindsight", "logp.teacher.gap",
)  # fmt: skip


def searches(size: int, turns: int) -> Group:
    """Rollouts through states, entities and documents that are all new, with everything that any scheme reads."""
    numbers = np.random.default_rng(0).random(turns + 1).tolist()
    members = []
    for i in range(size):
        keys = [f"{t}" if 2 * t < turns else f"{t}.{i}" for t in range(turns + 1)]
        history = tuple(
            Turn(
                keys[t], "search", keys[t + 1], text_key=keys[t], observation=f"saw entity {t}", thought=f"entity {t - 1}",
                queries=(f"word{t}",), doc_ids=(f"d{t}",),
                values={n: _signed(n, numbers[t]) for n in VALUES} | {f"{n}.next": _signed(n, numbers[t + 1]) for n in VALUES},
            )
            for t in range(turns)
        )  # fmt: skip
        tokens = Tokens(
            ids=np.zeros(2 * turns, np.int32),
            mask=np.tile([False, True], turns),
            logprobs=np.zeros(2 * turns, np.float32),
            turn_offsets=np.arange(0, 2 * turns + 1, 2, dtype=np.int32),
            values={"value.critic": np.zeros(2 * turns + 1, np.float32)},
        )
        won = i % 2 == 0
        members.append(
            Trajectory(
                f"{i}", "g", "t", history, won, float(won), "success" if won else "failed", keys[-1],
                final_text_key=keys[-1], tokens=tokens,
            )
        )  # fmt: skip
    names = [f"entity {t}" for t in range(turns)]
    task = {
        "entities": names,
        "edges": [[a, "to", b] for a, b in pairwise(names)],
        "answer_node": names[0],
        "search_keys": [["word1"]],
        "supporting": ["d0"],
        "documents": {f"d{t}": {"title": f"{t}", "text": f"word{t}"} for t in range(turns)},
    }
    return Group(tuple(members), task)


def _signed(name: str, number: float) -> float:
    return number if name.startswith(("value", "judge", "rubric")) else -number


def lines_run(work: Callable[[], Any]) -> int:
    """Count the lines of Python that run, without those inside NumPy."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(("name", "semantics"), CASES)
@pytest.mark.parametrize("shape", ["chain", "group"])
def test_work_is_linear_in_the_number_of_turns(name, semantics, shape):
    scheme = credit.make(name, semantics=semantics, **({"penalty": 0.0} if name == "pica" else {}))
    small, large = (searches(2, n) if shape == "chain" else searches(n // 10, 10) for n in (50, 400))
    for group in (small, large):
        scheme.assign(group)  # what is computed once per group, or once per process
    steps = [lines_run(lambda group=group: scheme.assign(group)) for group in (small, large)]  # type: ignore[misc]  # binds the loop's value
    assert steps[1] < 10 * steps[0] + 1000


def test_episodes_of_unequal_length_are_not_padded_to_the_longest():
    lengths = [2000, *[1] * 2000]  # a padded table of them is 32 MB
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rewards, values = np.ones(offsets[-1]), np.zeros(offsets[-1])
    tracemalloc.start()
    try:
        out = gae_ragged(rewards, values, offsets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out[[0, 1999, 2000]].tolist() == [2000.0, 1.0, 1.0]
    assert peak < 4e6


def test_retrieved_passages_are_not_copied_at_every_turn(monkeypatch):
    copied = 0

    class Counted(set[str]):
        """A set that counts the items that it was made from."""

        def __init__(self, items=()):
            nonlocal copied
            super().__init__(items)
            copied += len(self)

    monkeypatch.setattr(information_gain, "set", Counted, raising=False)
    for repeats in ("earlier", "anywhere"):
        redundancies([[f"d{t}"] for t in range(300)], repeats=repeats)
    assert copied <= 2 * 300


def test_a_penalty_of_zero_stays_zero_in_long_episodes():
    group = searches(2, 3000)
    scored = credit.make("pica", penalty=0.0).assign(group)
    assert not scored.diagnostics["penalty"].any()
