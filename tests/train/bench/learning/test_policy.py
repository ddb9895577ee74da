"""The shared policy: its gradient, its start, and steps of a given divergence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.bench.exact.values import success as exact_success
from creditflow.train.bench.learning.policy import (
    MAPS,
    LinearPolicy,
    make_features,
    matched_step,
    policy_divergence,
    policy_with_success,
)
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.shared.tasks import viewed_tasks

TASKS = viewed_tasks("pits", 1, 0, 4)


def policy(kind, seed=0):
    features = make_features(kind, [task.parts for task in TASKS])
    theta = np.random.default_rng(seed).standard_normal((features.size + 1, 4))
    theta[-1] = 0.0
    return LinearPolicy(theta, features)


@pytest.mark.parametrize("kind", MAPS)
def test_the_gradient_is_that_of_finite_differences(kind):
    rng = np.random.default_rng(1)
    chosen, made = [2, 0, 2], policy(kind)
    weights = [rng.standard_normal(table.shape) for table in made.probabilities(chosen)]

    def objective(theta):
        moved = LinearPolicy(theta, made.features).probabilities(chosen)
        return sum((weight * np.log(table)).sum() for weight, table in zip(weights, moved, strict=True))

    gradient = made.gradient(chosen, weights).reshape(made.theta.shape)
    for f, a in rng.integers((made.features.size, 4), size=(12, 2)).tolist():
        nudge = np.zeros_like(made.theta)
        nudge[f, a] = 1e-5
        slope = (objective(made.theta + nudge) - objective(made.theta - nudge)) / 2e-5
        assert gradient[f, a] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("kind", MAPS)
def test_a_state_without_features_keeps_its_uniform_policy(kind):
    made = policy(kind)
    tables = made.probabilities(range(4))
    pits = [np.flatnonzero(task.parts[:, 0] < 0) for task in TASKS]
    assert sum(map(len, pits)) > 0
    moved = made.moved(made.gradient(range(4), [np.ones_like(t) * [1, 2, 3, 4] for t in tables]), 2.0)
    for table, rows in zip(moved.probabilities(range(4)), pits, strict=True):
        np.testing.assert_allclose(table[rows], 0.25)


def test_states_with_equal_parts_share_their_policy_over_tasks():
    rows: dict[tuple[int, ...], list[float]] = {}
    tables = policy("local").probabilities(range(4))
    for task, table in zip(TASKS, tables, strict=True):
        for part, row in zip(task.parts.tolist(), table.tolist(), strict=True):
            assert rows.setdefault(tuple(part), row) == row
    assert len(rows) < sum(task.mdp.size for task in TASKS)


def test_a_table_shares_nothing():
    made = policy("table")
    used = [set(made.features.of([i]).indices.ravel().tolist()) - {made.features.size} for i in range(4)]
    assert sum(map(len, used)) == len(set.union(*used)) == made.features.size


def test_an_unknown_feature_map_is_answered_with_the_near_one():
    with pytest.raises(ConfigError, match="additive"):
        make_features("aditive", [task.parts for task in TASKS])


@pytest.mark.parametrize("kind", ["local", "additive", "table"])
@pytest.mark.parametrize("success", [0.25, 0.6])
def test_the_start_has_the_given_success_on_the_training_tasks(kind, success):
    tasks = viewed_tasks("pits", 0, 0, 24)
    stack = StackedTasks([task.mdp for task in tasks])
    made = policy_with_success(stack, make_features(kind, [task.parts for task in tasks]), range(16), success)
    rates = exact_success(stack, np.concatenate(made.probabilities(range(24))))
    assert rates[:16].mean() == pytest.approx(success, abs=0.01)


@given(seed=st.integers(0, 10**6), target=st.sampled_from([1e-4, 0.003, 0.05]), scale=st.sampled_from([1e-6, 1.0, 1e6]))
@settings(max_examples=30, deadline=None)
def test_a_step_has_the_divergence_that_it_was_asked_for(seed, target, scale):
    rng = np.random.default_rng(seed)
    made, chosen = policy("local", seed), [1, 3]
    old = np.concatenate(made.probabilities(chosen))
    visits = rng.random(len(old))
    visits /= visits.sum()
    direction = made.gradient(chosen, np.split(scale * rng.standard_normal(old.shape), [len(TASKS[1].parts)]))
    moved, size = matched_step(made, chosen, direction, visits, target)
    new = np.concatenate(moved.probabilities(chosen))
    assert size > 0.0
    np.testing.assert_allclose((visits * (old * np.log(old / new)).sum(axis=1)).sum(), target, rtol=2e-6)
    assert policy_divergence(old, new, visits) == pytest.approx(target, rel=2e-6)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("size", [0.01, 0.7, 3.0])
def test_the_divergence_along_a_direction_is_that_of_the_two_policies(kind, size):
    made, chosen = policy(kind), [3, 1]
    old = np.concatenate(made.probabilities(chosen))
    rng = np.random.default_rng(2)
    visits = rng.dirichlet(np.ones(len(old)))
    direction = made.gradient(chosen, np.split(rng.standard_normal(old.shape), [len(TASKS[3].parts)]))
    new = np.concatenate(made.moved(direction, size).probabilities(chosen))
    expected = float(visits @ (old * np.log(old / new)).sum(axis=1))
    assert made.divergence_along(chosen, direction, visits)(size) == pytest.approx(expected, rel=1e-7)


def test_no_direction_is_no_step():
    made = policy("local")
    assert matched_step(made, [0], np.zeros(made.theta.size), np.ones(TASKS[0].mdp.size), 0.01) == (made, 0.0)


def test_a_success_rate_that_no_bias_reaches_is_rejected():
    tasks = viewed_tasks("sokoban", 0, 0, 24)
    with pytest.raises(DataError, match="the nearest has"):
        policy_with_success(
            StackedTasks([task.mdp for task in tasks]),
            make_features("additive", [task.parts for task in tasks]),
            range(24),
            0.99,
        )
