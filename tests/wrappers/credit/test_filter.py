"""Which groups dynamic sampling keeps; that dead groups go as in the released code is a conformance test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from helpers.episodes.builders import group, walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.records.group import Group


def scored(*returns: float) -> Group:
    """A group whose rollouts have these returns."""
    played = group(*(walk("s g", reward=x) for x in returns))
    return replace(played, trajectories=tuple(replace(m, group_id=str(returns)) for m in played.trajectories))


# standard deviations √½, √2, 0 and √½: half of their sum is reached by the second alone, three quarters by it and the first
GROUPS = [scored(0.0, 1.0), scored(0.0, 2.0), scored(1.0, 1.0), scored(1.0, 2.0)]


@pytest.mark.parametrize(
    ("top_p", "expected"), [(1.0, [0, 1, 3]), (0.5, [1]), (0.51, [0, 1]), (0.75, [0, 1]), (0.76, [0, 1, 3])]
)
def test_the_groups_that_vary_most_are_kept_until_they_have_their_share(top_p: float, expected: list[int]) -> None:
    assert credit.filter_groups(GROUPS, top_p=top_p) == [GROUPS[i] for i in expected]


@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=4), max_size=5), st.floats(0.01, 1.0))
def test_a_smaller_share_keeps_a_subset_in_the_same_order_and_never_nothing(
    returns: Sequence[Sequence[int]], top_p: float
) -> None:
    groups = [scored(*map(float, row)) for row in returns]
    alive, varied = credit.filter_groups(groups), credit.filter_groups(groups, top_p=top_p)
    assert [g for g in alive if any(g is k for k in varied)] == varied
    assert bool(varied) == bool(alive)


def test_keep_all_keeps_dead_groups_whatever_the_share() -> None:
    assert credit.filter_groups(GROUPS, top_p=0.1, keep_all=True) == GROUPS


@pytest.mark.parametrize("top_p", [0.0, -0.5, 1.01])
def test_a_share_outside_its_range_is_refused(top_p: float) -> None:
    with pytest.raises(ConfigError, match=r"top_p must lie in \(0, 1\]"):
        credit.filter_groups(GROUPS, top_p=top_p)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_the_unit_of_rewards_decides_nothing(unit: float) -> None:
    groups = [
        group(walk("s a", reward=unit, name="x"), walk("s b", "failed", reward=-unit)),
        group(walk("s a", reward=unit / 8, name="x"), walk("s b", "failed")),
    ]
    assert len(credit.filter_groups(groups)) == 2
    assert credit.filter_groups(groups, top_p=0.5) == groups[:1]


def test_a_tolerance_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="tolerance must be ≥ 0, got nan"):
        credit.filter_groups([], tolerance=float("nan"))
