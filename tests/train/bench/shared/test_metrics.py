"""Metrics in the policy's own parameters, against those of a single table."""

import numpy as np
import pytest

from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.exact.metrics import bias_variance, direction, gains, sampled_gradient
from creditflow.train.bench.methods import make_methods
from creditflow.train.bench.shared.batch import Sampling, draw_tasks, sample_batches
from creditflow.train.bench.shared.features import make_features
from creditflow.train.bench.shared.metrics import KLS, GradientMoments, measure_shared
from creditflow.train.bench.shared.policy import LinearPolicy, policy_with_success
from creditflow.train.bench.shared.stack import StackedTasks
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.train.settings.update import LossConfig

NAMES = ("grpo", "grouptd", "oracle_adv", "flipped(oracle_adv)", "stateless")
BATCHES = 12


def table_policy(kind="open", count=1):
    tasks = viewed_tasks(kind, 5, 0, count)
    features = make_features("table", [task.parts for task in tasks])
    theta = 0.5 * np.random.default_rng(0).standard_normal((features.size + 1, 4))
    theta[: features.size] += 1.5 * np.concatenate([task.mdp.optimal for task in tasks])[: features.size]
    theta[-1] = 0.0
    return LinearPolicy(theta, features), [task.mdp for task in tasks]


def test_one_task_with_a_table_is_measured_as_in_the_exact_suites():
    policy, (mdp,) = table_policy()
    sampling = Sampling(1, 8, LossConfig(aggregation="token_mean"))
    measured = measure_shared(
        policy, [mdp], [0], [], NAMES, np.random.default_rng(7), sampling=sampling, batches=BATCHES
    )
    table = policy.probabilities([0])[0]
    evaluator, rng = ExactEvaluator(mdp, table), np.random.default_rng(7)
    rng.spawn(1)
    batches = []
    for number in range(BATCHES):
        draw_tasks([0], 1, rng)
        rng.integers(2**63)
        batches += sample_batches([mdp], [0], [policy], sampling, rng, name=f"{number}")
    logits = policy.theta[: mdp.size]
    best = gains(evaluator, logits, evaluator.gradient[None], 0.01)[0]
    for name, method in make_methods(NAMES, evaluator, [0]).items():
        gradients = np.stack(
            [
                # Σ / G of the exact suites, mean over turns here
                sampled_gradient(evaluator, batch.groups[0], method(batch.groups[0])) * 8 / len(batch.groups[0].number)
                for batch in batches
            ]
        )
        found = measured.methods[name]
        cosine, error = direction(gradients, evaluator.gradient), bias_variance(gradients, evaluator.gradient)
        assert found.cos_mean == pytest.approx(cosine.of_mean)
        assert found.cos_batch == pytest.approx(cosine.one_batch)
        assert found.bias2 == pytest.approx(error.bias2, abs=1e-9)
        assert found.variance == pytest.approx(error.variance)
        assert found.gain == pytest.approx(gains(evaluator, logits, gradients, KLS[1]).mean() / best, rel=1e-4)
        assert np.isnan(found.held_out_gain)


def test_a_step_on_a_table_changes_no_other_task():
    policy, mdps = table_policy("pits", 4)
    sampling = Sampling(2, 8)
    measured = measure_shared(
        policy, mdps, [0, 1], [2, 3], NAMES, np.random.default_rng(0), sampling=sampling, batches=4
    )
    assert all(found.held_out_gain == 0.0 for found in measured.methods.values())


def test_the_exact_gradient_is_that_of_mean_success():
    tasks = viewed_tasks("slip", 1, 0, 5)
    stack = StackedTasks([task.mdp for task in tasks])
    policy = policy_with_success(stack, make_features("local", [task.parts for task in tasks]), range(5), 0.4)
    table = np.concatenate(policy.probabilities(range(5)))
    gradient = policy.gradient(range(5), stack.split(stack.gradient_weights(table) / 5))

    def rate(theta):
        return stack.success(np.concatenate(LinearPolicy(theta, policy.features).probabilities(range(5)))[None]).mean()

    rng = np.random.default_rng(0)
    for _ in range(5):
        aside = rng.standard_normal(policy.theta.shape)
        aside[-1] = 0.0
        slope = (rate(policy.theta + 1e-5 * aside) - rate(policy.theta - 1e-5 * aside)) / 2e-5
        assert gradient @ aside.ravel() == pytest.approx(slope, rel=1e-5)


def test_moments_of_a_stream_are_those_of_all_gradients():
    rng = np.random.default_rng(0)
    exact, gradients = rng.standard_normal(6), rng.standard_normal((20, 6)) + 0.4
    gradients[3] = 0.0
    moments = GradientMoments(exact)
    for gradient in gradients:
        moments.add(gradient)
    found = moments.values()
    cosine, error = (of(gradients[:, :, None], exact[:, None]) for of in (direction, bias_variance))
    assert (found["cos_mean"], found["cos_batch"]) == pytest.approx(tuple(cosine))
    assert (found["bias2"], found["variance"]) == pytest.approx(tuple(error))


def test_no_credit_at_all_has_no_direction():
    moments = GradientMoments(np.ones(3))
    moments.add(np.zeros(3))
    assert moments.values() == {"cos_mean": 0.0, "cos_batch": 0.0, "bias2": 1.0, "variance": float("inf")}


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
    assert measured.methods["grpo"].gain == alone.methods["grpo"].gain


def test_fresh_keys_change_nothing_for_credit_that_reads_no_states():
    policy, mdps = table_policy("pits", 2)
    plain, fresh = (
        measure_shared(
            policy, mdps, [0], [1], ["grpo", "stateless", "grouptd"], np.random.default_rng(0),
            sampling=Sampling(1, 6, fresh=fresh), batches=3,
        ).methods
        for fresh in (False, True)
    )  # fmt: skip
    assert plain["grpo"] == fresh["grpo"]
    assert plain["stateless"] == fresh["stateless"]
    assert plain["grouptd"] != fresh["grouptd"]
