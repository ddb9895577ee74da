"""Work grows with the number of turns, counted and not timed: Python instructions, and NumPy elements touched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import PUBLISHED

from creditflow import credit
from creditflow.wrappers.trajectory import Group, StateIndex

ALLOWED = 4.5  # for four times the turns; 16 would be quadratic


class Counted(np.ndarray):
    """An array that counts the elements of all arrays it is computed with; the results count as well."""

    touched = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        Counted.touched += sum(size(x) for x in inputs)
        if out:
            kwargs["out"] = tuple(map(plain, out))
        return counted(getattr(ufunc, method)(*map(plain, inputs), **{k: plain(v) for k, v in kwargs.items()}))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        Counted.touched += sum(size(x) for x in (*args, *kwargs.values()) if isinstance(x, np.ndarray | list | tuple))
        return counted(func(*plain(args), **{k: plain(v) for k, v in kwargs.items()}))

    def __getitem__(self, index: Any) -> Any:
        result = plain(self)[plain(index)]
        Counted.touched += size(result)
        return counted(result)


def size(x: Any) -> int:
    return int(x.size) if isinstance(x, np.ndarray) else len(x) if isinstance(x, tuple | list) else 1


def plain(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(map(plain, x)) if not hasattr(x, "_fields") else x
    return x.view(np.ndarray) if isinstance(x, Counted) else x


def counted(x: Any) -> Any:
    if type(x) is tuple:
        return tuple(map(counted, x))
    return x.view(Counted) if isinstance(x, np.ndarray) else x


def watched(g: Group) -> Group:
    """The group with arrays that count elements."""
    arrays = g.arrays
    columns = {f.name: getattr(arrays, f.name) for f in fields(arrays)}
    states = arrays.states
    columns |= {"states": StateIndex(states.keys, counted(states.state), counted(states.next_state))}
    g.__dict__["arrays"] = replace(
        arrays, **{n: counted(c) if isinstance(c, np.ndarray) else c for n, c in columns.items()}
    )
    return g


@contextmanager
def instructions() -> Iterator[Callable[[], int]]:
    """Count the instructions that our own Python code executes."""
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        if "creditflow" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lambda: count
    finally:
        sys.settrace(before)


def wandering(size: int, turns: int) -> Group:
    """Random walks on a graph that grows with the turns; half of them succeed; costs differ."""
    rng = np.random.default_rng(0)
    n = max(size * turns // 8, 2)
    rollouts = []
    for i in range(size):
        steps = rng.integers(0, n, turns)
        path = [f"s{k}" for k in steps] + ["end"]
        rollouts.append(walk(path, "success" if i % 2 else "failed", name=f"t{i}", costs=rng.choice([1, 2.5], turns).tolist(),
                             invalid=[t for t in range(turns) if t % 7 == 3]))  # fmt: skip
    return group(*rollouts)


def long_ways(size: int, turns: int) -> Group:
    """Every trajectory in a long corridor of its own with reward 0.1 per turn; only the first succeeds."""
    return group(
        *[
            walk([f"{i}.{t}" for t in range(turns + 1)], "failed" if i else "success", name=f"t{i}",
                 rewards=[-0.1] * turns)
            for i in range(size)
        ]
    )  # fmt: skip


def cost(name: str, options: dict[str, Any], build: Callable[[int, int], Group], size: int, turns: int) -> np.ndarray:
    scheme = credit.make(name, **options)
    padding = Group((walk([f"p{t}" for t in range(turns + 2)], "failed"),))  # a longer episode elsewhere in the batch
    g = build(size, turns)
    with instructions() as executed:
        scheme.assign_batch([g, padding])
        python = executed()
    again, before = watched(build(size, turns)), Counted.touched
    scheme.assign_batch([again, padding])
    return np.array([python, Counted.touched - before], float)


CASES = [
    (
        name,
        {"semantics": semantics}
        | ({"key": "state"} if name in ("gigpo", "graphgpo", "hgpo", "g2po", "rewardflow") else {}),
    )
    for name in PUBLISHED
    for semantics in ("paper", "release")
]
CASES += [("rewardflow", {"semantics": "release", "key": "state", "pruning": "alfworld"})]


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda x: x if isinstance(x, str) else "-".join(x.values()))
@pytest.mark.parametrize("build", [wandering, long_ways])
def test_four_times_the_turns_take_about_four_times_the_work(name, options, build):
    small = cost(name, options, build, 4, 40)
    assert (small > 400).all(), "the counters count nothing"
    for size, turns in ((16, 40), (4, 160)):
        assert (cost(name, options, build, size, turns) / small <= ALLOWED).all()
