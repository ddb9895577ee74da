"""Metrics in the policy's own parameters."""

import numpy as np
import pytest

from creditflow.train.bench.exact.values import policy_gradient, success
from creditflow.train.bench.learning.batch import Sampling
from creditflow.train.bench.learning.policy import LinearPolicy, make_features, policy_with_success
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.shared.cells import measure_shared
from creditflow.train.bench.shared.tasks import viewed_tasks

NAMES = ("grpo", "grouptd", "oracle_adv", "flipped(oracle_adv)", "stateless")


def table_policy(kind="open", count=1):
    tasks = viewed_tasks(kind, 5, 0, count)
    features = make_features("table", [task.parts for task in tasks])
    theta = 0.5 * np.random.default_rng(0).standard_normal((features.size + 1, 4))
    theta[: features.size] += 1.5 * np.concatenate([task.mdp.optimal for task in tasks])[: features.size]
    theta[-1] = 0.0
    return LinearPolicy(theta, features), [task.mdp for task in tasks]


def test_a_step_on_a_table_changes_no_other_task():
    policy, mdps = table_policy("pits", 4)
    sampling = Sampling(2, 8)
    measured = measure_shared(
        policy, mdps, [0, 1], [2, 3], NAMES, np.random.default_rng(0), sampling=sampling, batches=4
    )
    assert all(found["held_out_gain"] == 0.0 for found in measured.methods.values())


def test_the_exact_gradient_is_that_of_mean_success():
    tasks = viewed_tasks("slip", 1, 0, 5)
    stack = StackedTasks([task.mdp for task in tasks])
    policy = policy_with_success(stack, make_features("local", [task.parts for task in tasks]), range(5), 0.4)
    table = np.concatenate(policy.probabilities(range(5)))
    gradient = policy.gradient(range(5), stack.split(policy_gradient(stack, table) / 5))

    def rate(theta):
        return success(stack, np.concatenate(LinearPolicy(theta, policy.features).probabilities(range(5)))).mean()

    rng = np.random.default_rng(0)
    for _ in range(5):
        aside = rng.standard_normal(policy.theta.shape)
        aside[-1] = 0.0
        slope = (rate(policy.theta + 1e-5 * aside) - rate(policy.theta - 1e-5 * aside)) / 2e-5
        assert gradient @ aside.ravel() == pytest.approx(slope, rel=1e-5)


def test_other_methods_change_nothing():
    policy, mdps = table_policy("pits", 3)

    def measured(names):
        sampling = Sampling(2, 4)
        rng = np.random.default_rng(1)
        return measure_shared(policy, mdps, [0, 1], [2], names, rng, sampling=sampling, batches=3).methods

    alone, together = measured(["shuffled(grouptd)"]), measured(["grpo", "shuffled(oracle_adv)", "shuffled(grouptd)"])
    assert alone["shuffled(grouptd)"] == together["shuffled(grouptd)"]


def test_a_scheme_that_cannot_score_the_groups_is_named_with_its_reason():
    policy, mdps = table_policy("pits", 2)
    sampling = Sampling(2, 4)
    measured = measure_shared(
        policy, mdps, [0, 1], [], ["prm", "grpo"], np.random.default_rng(0), sampling=sampling, batches=2
    )
    assert list(measured.methods) == ["grpo"]
    assert "judge.score" in measured.undefined["prm"]


def test_annotations_are_fitted_on_other_rollouts():
    policy, mdps = table_policy("pits", 2)
    sampling, names = Sampling(2, 4), ["prm[fitted]", "prm[exact]", "grpo"]
    measured = measure_shared(policy, mdps, [0, 1], [], names, np.random.default_rng(0), sampling=sampling, batches=2)
    assert list(measured.methods) == names
    alone = measure_shared(policy, mdps, [0, 1], [], ["grpo"], np.random.default_rng(0), sampling=sampling, batches=2)
    assert measured.methods["grpo"]["gain"] == alone.methods["grpo"]["gain"]


def test_fresh_keys_change_nothing_for_credit_that_reads_no_states():
    policy, mdps = table_policy("pits", 2)
    plain, fresh = (
        measure_shared(
            policy, mdps, [0], [1], ["grpo", "stateless", "grouptd"], np.random.default_rng(0),
            sampling=Sampling(1, 6, fresh=fresh), batches=3,
        ).methods
        for fresh in (False, True)
    )  # fmt: skip
    assert plain["grpo"] == pytest.approx(fresh["grpo"], rel=0, abs=0, nan_ok=True)
    assert plain["stateless"] == pytest.approx(fresh["stateless"], rel=0, abs=0, nan_ok=True)
    assert plain["grouptd"] != fresh["grouptd"]
