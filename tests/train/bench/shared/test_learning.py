"""Learning curves of shared policies."""

import numpy as np
import pytest

from creditflow.train.bench.learning.batch import Sampling, draw_tasks
from creditflow.train.bench.learning.learner import KLUpdate
from creditflow.train.bench.learning.policy import make_features, policy_with_success
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.shared.cells import learn_shared
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.train.settings.update import LossConfig

TASKS = viewed_tasks("pits", 0, 0, 10)
MDPS = [task.mdp for task in TASKS]
POLICY = policy_with_success(StackedTasks(MDPS), make_features("local", [task.parts for task in TASKS]), range(8), 0.3)


STEP = KLUpdate(0.01)


def learned(names, updates=8):
    sampling, rng = Sampling(4, 4, LossConfig()), np.random.default_rng(0)
    return learn_shared(
        POLICY, MDPS, range(8), [8, 9], names, rng, sampling=sampling, update=STEP, updates=updates, every=4
    )


def test_the_exact_advantage_raises_success_and_its_negative_lowers_it():
    curves = learned(["oracle_adv", "flipped(oracle_adv)"]).curves
    up, down = curves["oracle_adv"], curves["flipped(oracle_adv)"]
    assert up.train[-1] > 0.4 > 0.3 > down.train[-1]
    assert up.train[0] == down.train[0] == pytest.approx(0.3, abs=0.01)
    assert len(up.train) == len(up.held_out) == 3


def test_a_curve_does_not_depend_on_the_other_methods():
    alone = learned(["grouptd"]).curves["grouptd"]
    together = learned(["grpo", "shuffled(grouptd)", "grouptd"]).curves["grouptd"]
    np.testing.assert_array_equal(alone.train, together.train)
    np.testing.assert_array_equal(alone.held_out, together.held_out)


@pytest.mark.parametrize("updates", [8, 10])
def test_the_last_update_is_measured(updates):
    assert len(learned(["grpo"], updates=updates).curves["grpo"].train) == (3 if updates == 8 else 4)


def test_a_scheme_that_cannot_score_an_update_is_left_out():
    found = learned(["prm", "grpo"])
    assert list(found.curves) == ["grpo"]
    assert "judge.score" in found.undefined["prm"]


def test_tasks_are_sampled_evenly():
    rng = np.random.default_rng(0)
    assert sorted(draw_tasks([3, 5, 7], 3, rng)) == [3, 5, 7]
    assert len(set(draw_tasks(range(8), 4, rng))) == 4
    counts = np.bincount(draw_tasks(range(8), 20, rng), minlength=8)
    assert set(counts.tolist()) == {2, 3}
