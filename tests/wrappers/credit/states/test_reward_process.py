"""A group as a Markov reward process: its parts on groups small enough to read them off."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow.wrappers.credit.states.reward_process import RewardProcess, together
from creditflow.wrappers.records.group import Group


def process_of(played: Group, horizon: int, *, stationary: bool = False) -> RewardProcess:
    states, outcome = played.states("state"), played.arrays.success.astype(np.float64)
    return RewardProcess.of(played, states, outcome, horizon, stationary=stationary)


@pytest.mark.parametrize(
    ("end", "stationary", "conflict"),
    [
        ("failed", False, True),  # once the episode ends, once it goes on
        ("success", False, True),
        ("env_limit", False, False),  # cut off, it says nothing of the state
        ("env_limit", True, False),
    ],
)
def test_one_action_that_ends_or_goes_on_in_one_key_is_a_conflict(end: str, stationary: bool, conflict: bool) -> None:
    actions = ["go", "on"]
    played = group(walk("s m", end, actions=actions[:1]), walk("s m x", "failed", actions=actions))  # type: ignore[arg-type]  # all are stop reasons
    process = process_of(played, 4, stationary=stationary)
    pair = process.pairs(played.arrays.action)
    keys = played.states("state").keys
    assert {key for key, bad in zip(keys, process.conflicted(pair), strict=True) if bad} == (
        {"s"} if conflict else set()
    )


def test_hops_follow_the_kept_turns_alone() -> None:
    played = group(walk("s a b g"), walk("s b x", "failed"))
    keys = list(played.states("state").keys)

    def hops(kept: slice | np.ndarray = slice(None)) -> dict[str, float]:
        found = process_of(played, 4).hops(kept)
        return {key: float(found[keys.index(key)]) for key in "sab"}

    assert hops() == {"s": 2.0, "a": 2.0, "b": 1.0}
    assert hops(np.array([True, True, True, False, False])) == {"s": 3.0, "a": 2.0, "b": 1.0}
    assert hops(np.array([True, True, False, True, True])) == dict.fromkeys("sab", np.inf)


def test_groups_are_joined_up_to_a_number_of_turns_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("creditflow.wrappers.credit.states.reward_process._MAX_TURNS", 4)
    groups = [group(walk([f"{n}.{t}" for t in range(n + 1)])) for n in (1, 2, 1, 5, 1)]
    processes = [process_of(one, 5) for one in groups]
    assert [part for part, _ in together(processes)] == [slice(0, 3), slice(3, 4), slice(4, 5)]
    assert [part for part, _ in together(processes, alone=True)] == [slice(i, i + 1) for i in range(5)]
    for part, joined in together(processes):
        assert joined.size == sum(one.size for one in processes[part])
        assert joined.turns_left.tolist() == [n for one in processes[part] for n in one.turns_left.tolist()]
