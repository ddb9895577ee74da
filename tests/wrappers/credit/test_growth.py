"""Work of schemes is linear in their input: operations are counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from helpers.episodes.complete_groups import complete_group, needed_annotations

from creditflow import credit
from creditflow.wrappers.credit.annotations.gae import gae_ragged
from creditflow.wrappers.credit.entities import stepsearch
from creditflow.wrappers.credit.entities.stepsearch import redundancies
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.trajectory import Group

SEMANTICS: tuple[credit.Semantics, ...] = ("paper", "release")
CASES = [
    (name, semantics)
    for name in credit.names()
    for semantics in SEMANTICS
    if semantics in lookup(name).presets
]  # fmt: skip


def searches(size: int, turns: int) -> Group:
    """Rollouts through states, entities and documents that are all new, with everything that any scheme reads."""
    keys = [[f"{t}" if 2 * t < turns else f"{t}.{i}" for t in range(turns + 1)] for i in range(size)]
    numbers = np.random.default_rng(0).random((len(needed_annotations()), turns + 1))
    won = [i % 2 == 0 for i in range(size)]
    return complete_group(keys, [range(turns + 1)] * size, np.array([numbers] * size), won, known=turns)


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

    monkeypatch.setattr(stepsearch, "set", Counted, raising=False)
    for repeats in ("earlier", "anywhere"):
        redundancies([[f"d{t}"] for t in range(300)], repeats=repeats)
    assert copied <= 2 * 300


def test_a_penalty_of_zero_stays_zero_in_long_episodes():
    group = searches(2, 3000)
    scored = credit.make("pica", penalty=0.0).assign(group)
    assert not scored.diagnostics["penalty"].any()
