"""Features of logs, on logs small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow.envs.errors import DataError
from creditflow.train.cards.reads import with_fresh_keys
from creditflow.train.choice.features import MEANING, LogFeatures, log_features, mean_features
from creditflow.wrappers.trajectory import Group, Trajectory


def test_features_of_a_log_by_hand() -> None:
    found = log_features([group(walk("s a g"), walk("s b", "failed", name="two"), walk("s c", "failed", name="three"))])
    assert found.repeated == pytest.approx(3 / 4)  # three turns in s, one in a
    assert found.conflicted == 0.0
    assert (found.size, found.batch) == (3.0, 1.0)
    assert found.success == pytest.approx(1 / 3)
    assert found.all_failed == 0.0
    assert (found.graded, found.step_rewards) == (0.0, 0.0)
    assert found.length == pytest.approx(4 / 3)
    assert set(found.to_json()) == set(MEANING)


def test_features_of_unequal_groups_by_hand() -> None:
    lost = walk("s b", "failed", name="lost")
    one, two, three = (
        group(walk("s a b g")),
        group(lost, walk("s c x", "failed")),
        group(lost, walk("s g"), walk("s h")),
    )
    found = log_features([one, two, three])
    assert (found.size, found.batch) == (2.0, 3.0)
    assert found.success == pytest.approx(3 / 6)  # of the trajectories
    assert found.all_failed == pytest.approx(1 / 3)  # of the groups
    assert found.length == pytest.approx(9 / 6)
    assert found.length_spread == pytest.approx(np.std([3, 1, 2, 1, 1, 1]) / 1.5)


def test_keys_that_never_repeat_repeat_in_the_first_state_only() -> None:
    fresh = with_fresh_keys(group(walk("s a g"), walk("s a g", name="two")))
    assert log_features([fresh]).repeated == pytest.approx(2 / 4)


def test_one_action_with_two_results_is_a_conflict() -> None:
    one, two = walk("s a g", actions=["go", "on"]), walk("s b g", name="two", actions=["go", "on"])
    assert log_features([group(one, two)]).conflicted == pytest.approx(2 / 4)


def test_graded_scores_and_rewards_before_the_end() -> None:
    half = replace(walk("s a b", "failed", rewards=[0.5, 0.0]), score=0.5)
    found = log_features([group(half, walk("s a g"))])
    assert found.graded == 0.5
    assert found.step_rewards == pytest.approx(1 / 4)


def test_the_batch_can_be_given() -> None:
    assert log_features([group(walk("s a g"))], batch=16).batch == 16.0


def test_means_of_several_logs() -> None:
    one = log_features([group(walk("s a g"))])
    other = replace(one, success=0.0, length=4.0)
    assert mean_features([one, other]) == replace(one, success=0.5, length=3.0)
    assert isinstance(mean_features([one]), LogFeatures)


def test_a_log_without_turns_is_an_error() -> None:
    empty = Trajectory("w0", "g", "task", (), False, 0.0, "env_limit", "a")
    with pytest.raises(DataError, match="no turns"):
        log_features([Group((empty,))])
