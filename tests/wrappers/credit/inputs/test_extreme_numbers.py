"""Rewards and costs that are huge, tiny or not finite."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import both_semantics, every_scheme, make

from creditflow import credit
from creditflow.envs.errors import CreditflowError, TrajectoryError
from creditflow.wrappers.trajectory import Trajectory, Turn


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), pytest.param(10**400, id="huge integer")])
def test_rewards_that_are_not_finite_are_rejected_on_construction(bad):
    with pytest.raises(TrajectoryError, match="turn 0: reward must be finite"):
        Trajectory("t", "g", "task", (Turn("a", "x", "b", reward=bad),), False, 0.0, "failed", "b")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0, -1.0])
def test_costs_must_be_positive_and_finite(bad):
    with pytest.raises(TrajectoryError, match="turn 0: cost must be positive"):
        Trajectory("t", "g", "task", (Turn("a", "x", "b", cost=bad),), False, 0.0, "failed", "b")


@every_scheme
@both_semantics
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_huge_and_tiny_rewards_score_like_rewards_of_ordinary_size(name, semantics, size):
    def scored(unit):
        g = group(*[walk("s a b", "failed", rewards=[0.0, r * unit], name=str(r)) for r in (1.0, 2.0, 4.0)])
        c = make(name, semantics, std_eps=0.0, invalid_penalty=0.0, outcome="return").assign(g)
        return c.outcome_advantages

    scheme = make(name, semantics)
    centred_only = "none" in (getattr(scheme, "outcome_scale", "std"), getattr(scheme, "scale", "std"))
    scale = size if name == "rloo" or centred_only else 1.0
    np.testing.assert_allclose(scored(size) / scale, scored(1.0), rtol=1e-9)


@every_scheme
def test_returns_beyond_float64_are_rejected_by_name(name):
    g = group(walk("s a b", "failed", rewards=[1.7e308, 1.7e308], name="rich"), walk("s a b", "failed"))
    with pytest.raises(CreditflowError, match="rich"):
        make(name).assign(g)


@pytest.mark.parametrize("name", ["rloo", "gigpo", "graphgpo"])
def test_differences_beyond_float64_are_rejected_by_name(name):
    g = group(walk("s a", "failed", reward=1.7e308), walk("s a", "failed", reward=-1.7e308))
    scheme = make(name) if name == "rloo" else make(name, outcome_scale="none", step_scale="none", step_weight=3.0)
    with pytest.raises(credit.CreditError, match=r"float64|not finite"):
        scheme.assign(group(*g.trajectories, walk("s a", "failed", reward=1.7e308, name="third")))


@pytest.mark.parametrize("arrays", [([1.0], [np.nan]), ([np.inf], [1.0]), ([1.0],), ([1.0], [1.0], [1.0])])
@pytest.mark.parametrize("field", ["token_advantages", "targets", "values"])
def test_numbers_of_tokens_and_for_the_critic_are_finite_in_one_array_per_trajectory(field, arrays):
    played, good = group(walk("s a"), walk("s b", name="other")), (np.ones(1), np.ones(1))

    def scored(**changed):
        given = {"token_advantages": good, "targets": good, "values": good} | changed
        targets = credit.ValueTargets("value.critic", "token", given["targets"], given["values"])
        of_tokens = given["token_advantages"]
        return credit.Credit.of(played, outcome=np.zeros(2), token_advantages=of_tokens, value_targets=targets)

    assert scored().token_advantages == good
    with pytest.raises(credit.CreditError, match="must be finite, in one array for each trajectory"):
        scored(**{field: tuple(map(np.array, arrays))})
