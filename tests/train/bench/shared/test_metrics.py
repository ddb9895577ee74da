"""Metrics in the policy's own parameters."""

import numpy as np
import pytest

from creditflow.train.bench.learning.batch import Sampling
from creditflow.train.bench.learning.policy import LinearPolicy, make_features
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


def test_other_methods_change_nothing():
    policy, mdps = table_policy("pits", 3)

    def measured(names):
        sampling = Sampling(2, 4)
        rng = np.random.default_rng(1)
        return measure_shared(policy, mdps, [0, 1], [2], names, rng, sampling=sampling, batches=3).methods

    alone, together = measured(["shuffled(grouptd)"]), measured(["grpo", "shuffled(oracle_adv)", "shuffled(grouptd)"])
    assert alone["shuffled(grouptd)"] == together["shuffled(grouptd)"]


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
