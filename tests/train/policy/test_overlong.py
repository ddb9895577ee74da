"""DAPO's soft penalty on long responses: its equation, and what it changes in a group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate.scheme import make_scheme
from creditflow.train.policy.overlong import overlong_penalty, subtract_overlong
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import OverlongConfig, TrainConfig
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group


def dapo(length: int, longest: int, cache: int) -> float:
    """R_length of DAPO eq. 13."""
    if length <= longest - cache:
        return 0.0
    if length <= longest:
        return ((longest - cache) - length) / cache
    return -1.0


@given(st.lists(st.integers(0, 400), min_size=1, max_size=20), st.integers(1, 300), st.data())
def test_the_penalty_is_that_of_the_equation(lengths: list[int], longest: int, data: st.DataObject) -> None:
    cache = data.draw(st.integers(1, longest))
    expected = [-dapo(length, longest, cache) for length in lengths]
    assert overlong_penalty(np.array(lengths), longest, cache).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("unit", ["turn", "trajectory"])
def test_it_is_subtracted_from_the_turn_that_is_long_or_from_the_last_of_a_long_trajectory(
    unit: Literal["turn", "trajectory"],
) -> None:
    group = GROUPS["unequal turn counts"]
    config = OverlongConfig(max_tokens=4, margin=3, weight=2.0, unit=unit)
    [changed], metrics = subtract_overlong([group], config)
    penalties = []
    for before, after in zip(group.trajectories, changed.trajectories, strict=True):
        tokens = before.tokens
        assert tokens is not None
        spans = list(zip(tokens.turn_offsets[:-1], tokens.turn_offsets[1:], strict=True))
        lengths = [int(tokens.mask[a:b].sum()) for a, b in spans]
        expected = [-2.0 * dapo(n, 4, 3) for n in lengths]
        if unit == "trajectory":
            expected = [0.0] * (len(lengths) - 1) + [-2.0 * dapo(sum(lengths), 4, 3)]
            penalties.append(expected[-1])
        else:
            penalties += expected
        found = [a.reward - b.reward for a, b in zip(before.turns, after.turns, strict=True)]
        assert found == pytest.approx(expected)
        assert after == replace(before, turns=after.turns)
    assert 0.0 < metrics["overlong_fraction"] < 1.0 or unit == "trajectory"
    assert metrics["overlong_fraction"] == np.mean(np.array(penalties) > 0)


def test_trajectories_without_tokens_have_no_length() -> None:
    [long, *others] = GROUPS["unequal turn counts"].trajectories
    bare = Group(tuple(replace(one, tokens=None) for one in others))
    config = OverlongConfig(max_tokens=1, margin=1, unit="trajectory")
    [changed, alone], metrics = subtract_overlong([bare, Group((long,))], config)
    assert changed == bare
    assert [turn.reward for turn in alone.turns] == [turn.reward - 1.0 for turn in long.turns]  # it has one turn
    assert metrics == {"overlong_fraction": 1.0}
    assert subtract_overlong([bare], config) == ([bare], {"overlong_fraction": 0.0})


def test_without_a_longest_response_nothing_changes() -> None:
    groups = list(GROUPS.values())
    assert subtract_overlong(groups, OverlongConfig()) == (groups, {})


def test_a_group_in_which_all_fail_learns_to_fail_shorter() -> None:
    [changed], _ = subtract_overlong([GROUPS["all failed"]], OverlongConfig(max_tokens=3, margin=2, unit="trajectory"))
    assert not credit.make("grpo").assign(GROUPS["all failed"]).outcome_advantages.any()
    lengths = [int(one.tokens.mask.sum()) for one in changed.trajectories if one.tokens is not None]
    advantages = credit.make("grpo").assign(changed).outcome_advantages
    assert advantages[np.argmin(lengths)] == advantages.max() and (advantages.any() or len(set(lengths)) == 1)


def test_a_scheme_that_does_not_read_rewards_is_rejected() -> None:
    section: dict[str, Any] = {"scheme": "grpo", "overlong": {"max_tokens": 8, "margin": 4}}
    make_scheme(read_dataclass(TrainConfig, {"out": "run", "credit": section}))
    section["parameters"] = {"outcome": "success"}
    with pytest.raises(ConfigError, match="use outcome=return"):
        make_scheme(read_dataclass(TrainConfig, {"out": "run", "credit": section}))


@pytest.mark.parametrize("wrong", [{"max_tokens": 8}, {"max_tokens": 8, "margin": 9}, {"max_tokens": -1, "margin": 1}])
def test_bounds_that_define_no_penalty_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"(margin|max_tokens) must be"):
        OverlongConfig(**wrong)
