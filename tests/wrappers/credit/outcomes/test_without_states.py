"""Schemes that read no states: nothing but rewards, outcomes and lengths matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.worked import flat
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

SEEDS = st.integers(0, 10**6)
SCHEMES: list[tuple[str, dict[str, Any]]] = [
    ("stateless", {}),
    ("step_to_go", {"discount": 0.9}),
    ("step_to_go", {"centre_over": "turn"}),
    ("turn_loo", {}),
    ("mt_grpo", {}),
    ("mt_grpo", {"form": "unbiased", "turn_weight": 0.5}),
]
every_scheme = pytest.mark.parametrize(("name", "options"), SCHEMES)


@every_scheme
def test_rollouts_without_turns_and_groups_without_reward_get_no_credit(name: str, options: dict[str, Any]) -> None:
    empty = Trajectory("none", "g", "task", (), False, 0.0, "env_error", "s")
    assert flat(name, Group((empty,)), **options) == []
    failed = Group((*group(walk("s x", "failed"), walk("s a x", "env_limit")).trajectories, empty))
    assert not any(flat(name, failed, **options))


@every_scheme
@settings(max_examples=30)
@given(SEEDS)
def test_states_actions_and_texts_change_nothing(name: str, options: dict[str, Any], seed: int) -> None:
    played = random_group(np.random.default_rng(seed), dense=True)
    members = tuple(
        replace(
            m,
            turns=tuple(
                replace(turn, state_key=f"{t}", action="other", action_key="", next_state_key=f"{t + 1}", text_key="", parsed=True)
                for t, turn in enumerate(m.turns)
            ),
            final_state_key=f"{len(m.turns)}",
        )
        for m in played.trajectories
    )  # fmt: skip
    assert flat(name, played, **options) == flat(name, Group(members, played.task), **options)


@every_scheme
@settings(max_examples=30)
@given(SEEDS)
def test_a_branch_gets_the_credit_of_its_full_episode(name: str, options: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored, full = random_fork(rng, random_group(rng, dense=True))
    scheme, fork = credit.make(name, **options), stored.trajectories[-1].fork_turn
    got, expected = scheme.assign(stored).advantages[-1], scheme.assign(full).advantages[-1][fork:]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
