"""Direction, gain, bias and variance in the policy's own parameters, against their definitions and against tasks with known answers."""

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import LOGITS, chain, policy, simulate, table_policy

from creditflow import credit
from creditflow.train.bench.controls import ExactEvaluator, oracle_adv
from creditflow.train.bench.exact.values import policy_gradient, softmax, success
from creditflow.train.bench.learning.batch import ascent_weights, loss_turns
from creditflow.train.bench.learning.one_step import GradientMoments, Start
from creditflow.train.bench.learning.policy import matched_step
from creditflow.train.settings.update import LossConfig

SUM_OVER_TURNS = LossConfig(aggregation="constant", normaliser=1)


def evaluator_and_groups(n=200, size=8, seed=0):
    evaluator = ExactEvaluator(chain(), policy())
    rng = np.random.default_rng(seed)
    return evaluator, [simulate(evaluator.mdp, evaluator.policy[None], size, rng)[0] for _ in range(n)]


def sampled_gradient(evaluator, group, given):
    """(1/G) Σ_i Σ_t m_it c_it ∇ log π(a_it | s_it) as a table (S, A)."""
    weights = ascent_weights(loss_turns([group], [given], SUM_OVER_TURNS), evaluator.policy)
    flat = table_policy(np.log(evaluator.policy)).gradient([0], [weights])
    return flat.reshape(-1, len(evaluator.mdp.actions))[:-1]


def moments(gradients, exact):
    stream = GradientMoments(exact.ravel())
    for gradient in gradients:
        stream.add(gradient.ravel())
    return stream.values()


def test_a_sampled_gradient_is_the_sum_over_turns_divided_by_the_rollouts():
    evaluator, (group,) = evaluator_and_groups(n=1)
    given = credit.Credit.of(group, outcome=group.arrays.score)
    expected = np.zeros_like(evaluator.policy)
    for turn, (state, action) in enumerate(zip(group.number, group.chosen, strict=True)):
        score = -evaluator.policy[state]
        score[action] += 1.0
        expected[state] += given.flat_advantages[turn] * score / len(group)
    np.testing.assert_allclose(sampled_gradient(evaluator, group, given), expected, atol=1e-15)


def test_the_sampled_gradient_of_exact_advantage_is_unbiased():
    evaluator, groups = evaluator_and_groups(n=3000)
    method = oracle_adv(evaluator)
    gradients = np.stack([sampled_gradient(evaluator, g, method(g)) for g in groups])
    error = gradients.std(axis=0) / np.sqrt(len(groups))
    assert (
        np.abs(gradients.mean(axis=0) - policy_gradient(evaluator.mdp, evaluator.policy)) <= 4 * error + 1e-12
    ).all()
    measured = moments(gradients, policy_gradient(evaluator.mdp, evaluator.policy))
    assert measured["cos_mean"] == pytest.approx(1.0, abs=0.01)
    assert measured["bias2"] < 0.02


def test_moments_of_a_stream_are_those_of_all_gradients():
    rng = np.random.default_rng(0)
    exact, gradients = rng.standard_normal(6), rng.standard_normal((20, 6)) + 0.4
    gradients[3] = 0.0
    mean, norm = gradients.mean(axis=0), np.linalg.norm(exact)
    noise = ((gradients - mean) ** 2).sum() / 19
    norm2, along = mean @ mean - noise / 20, mean @ exact / norm
    cosines = [0.0 if not g.any() else g @ exact / np.linalg.norm(g) / norm for g in gradients]
    expected = {
        "cos_mean": along / np.sqrt(norm2), "cos_batch": np.mean(cosines),
        "bias2": 1.0 - along**2 / norm2, "variance": (along / norm2) ** 2 * noise,
    }  # fmt: skip
    assert moments(gradients, exact) == pytest.approx(expected)


def test_no_credit_at_all_has_no_direction():
    measured = moments(np.zeros((1, 3)), np.ones(3))
    assert measured == {"cos_mean": 0.0, "cos_batch": 0.0, "bias2": 1.0, "variance": float("inf")}


def test_gains_are_gains_of_exact_success():
    evaluator, table = ExactEvaluator(chain(), policy()), table_policy(LOGITS)
    start = Start(table, [chain()], [0], [], kls=(1e-4,))
    exact = policy_gradient(evaluator.mdp, evaluator.policy)
    np.testing.assert_allclose(start.exact.reshape(-1, 2)[:-1], exact, atol=1e-15)

    def gain(gradient):
        return start.gains(list(start.step(gradient).values()))[0]

    scale = gain(start.exact) / float((exact * exact).sum())  # first order: gain = η ‖g‖²
    again = float(success(evaluator.mdp, softmax(LOGITS + scale * exact)) - evaluator.success)
    assert gain(start.exact) == pytest.approx(again, rel=0.05)
    assert start.relative_gains(list(start.step(start.exact).values()), 1e-4)[0] == 1.0
    assert gain(-start.exact) < 0.0
    assert gain(0.0 * start.exact) == 0.0


def test_a_step_that_changes_a_deterministic_policy_ends():
    certain = table_policy(np.array([[60.0, 0.0]] * 3))
    direction = np.array([[1.0, 0.0]] * 3 + [[0.0, 0.0]]).ravel()
    moved, size = matched_step(certain, [0], direction, np.full(3, 1.0 / 3.0), 0.01)
    assert np.isfinite(size)
    np.testing.assert_array_equal(moved.probabilities([0])[0], certain.probabilities([0])[0] > 0.5)


def test_masked_turns_have_no_gradient():
    evaluator, groups = evaluator_and_groups(n=1)
    n = len(groups[0].arrays.reward)
    given = credit.Credit.of(groups[0], outcome=np.ones(len(groups[0])), loss_mask=np.zeros(n, np.bool_))
    assert not sampled_gradient(evaluator, groups[0], given).any()
