"""Metrics and controls on tasks with known answers."""

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import chain, policy

from creditflow import credit
from creditflow.envs.errors import DataError
from creditflow.train.bench.controls import ExactEvaluator, IndexedTurns, flipped, oracle_adv, oracle_progress, shuffled
from creditflow.train.bench.exact.grid_layouts import generate_layout, grid_mdp
from creditflow.train.bench.exact.offline import centered_within_states, hidden_value, pairwise_concordance
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.exact.values import policy_gradient
from creditflow.train.bench.methods import make_methods
from creditflow.wrappers.trajectory import Group


def evaluator_and_groups(n=200, size=8, seed=0):
    evaluator = ExactEvaluator(chain(), policy())
    rng = np.random.default_rng(seed)
    return evaluator, [simulate(evaluator.mdp, evaluator.policy[None], size, rng)[0] for _ in range(n)]


@pytest.mark.parametrize("name", ["gigpo", "graphgpo", "grouptd", "grpo", "rewardflow"])
def test_simulated_groups_equal_groups_of_their_trajectories(name):
    layout = generate_layout("alias", np.random.Generator(np.random.PCG64(0)))
    mdp = grid_mdp(layout, 20)
    uniform = np.full((1, mdp.size, 4), 0.25)
    for seed in range(5):
        group = simulate(mdp, uniform, 6, np.random.default_rng(seed))[0]
        written = Group(group.trajectories)
        for attribute in ("action", "reward", "trajectory", "last", "offsets", "end", "success", "score", "returns"):
            np.testing.assert_array_equal(getattr(group.arrays, attribute), getattr(written.arrays, attribute))
        assert group.arrays.states.keys == written.arrays.states.keys
        assert len(group) == len(written)
        scheme = credit.make(name) if name == "grpo" else credit.make(name, key="text")
        np.testing.assert_array_equal(scheme.assign(group).flat_advantages, scheme.assign(written).flat_advantages)


def test_simulated_success_is_the_exact_one():
    evaluator, groups = evaluator_and_groups(n=500)
    rate = np.mean([group.arrays.success.mean() for group in groups])
    assert rate == pytest.approx(evaluator.success, abs=0.02)


def test_policies_share_their_random_numbers():
    mdp = chain()
    a, b = simulate(mdp, np.stack([policy(), policy()]), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(a.arrays.action, b.arrays.action)


def test_recorded_groups_are_indexed_like_simulated_ones():
    evaluator, groups = evaluator_and_groups(n=3)
    for group in groups:
        for ours, theirs in zip(
            evaluator.index_turns(group), evaluator.index_turns(Group(group.trajectories)), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_a_log_of_another_task_is_rejected():
    evaluator, groups = evaluator_and_groups(n=1)
    other = grid_mdp(generate_layout("open", np.random.Generator(np.random.PCG64(0))), 20)
    with pytest.raises(DataError, match=r"is not an? (action|state) of task"):
        ExactEvaluator(other, np.full((other.size, 4), 0.25)).index_turns(groups[0])
    assert evaluator.index_turns(groups[0]).left[0] == 3


def indexed(state, action, left):
    return IndexedTurns(np.array(state), np.array(state), np.array(action), np.array(left))


def test_concordance_weighs_pairs_by_their_difference_in_value():
    q = np.zeros((2, 2, 3))
    q[1, 0] = [1.0, 0.4, 0.0]
    turns = indexed([0, 0, 0, 1], [0, 1, 2, 0], [1, 1, 1, 1])
    agreeing, opposed, tied, partly = pairwise_concordance(
        turns, np.array([[3.0, 2, 1, 9], [1, 2, 3, 9], [0, 0, 0, 9], [3.0, 1, 2, 9]]), q
    )
    assert (agreeing.fraction, opposed.fraction, tied.fraction) == (1.0, 0.0, 0.5)
    assert partly.fraction == pytest.approx((0.6 + 1.0) / 2.0)  # pairs 0-1 and 0-2 agree, 1-2 (weight .4) does not


def test_concordance_compares_actions_and_not_times():
    # the same two actions, taken with 1 and 2 turns left; every value is higher with 2 left
    q = np.zeros((3, 1, 2))
    q[1, 0], q[2, 0] = [0.2, 0.1], [0.9, 0.8]
    (c,) = pairwise_concordance(indexed([0, 0], [0, 1], [1, 2]), np.array([[1.0, 0.0]]), q)
    assert c.fraction == 1.0
    assert c.total == pytest.approx(0.1)


def test_equal_actions_form_no_pair():
    (c,) = pairwise_concordance(indexed([0, 0], [1, 1], [1, 2]), np.array([[1.0, 0.0]]), np.ones((3, 1, 2)))
    assert np.isnan(c.fraction)


def test_hidden_value_is_measured_separately_in_failed_and_successful_rollouts():
    advantage = np.array([0.5, -0.5, 0.5, -0.5, 0.0])
    won = np.array([False, False, True, True, True])
    got = hidden_value(advantage, np.array([1.0, 0.0, 0.0, 1.0, 5.0]), advantage, won)
    assert (got.failed, got.succeeded, got.failed_raw, got.succeeded_raw) == (1.0, 0.0, 1.0, 1.0)
    assert (got.failed_base, got.succeeded_base) == (0.5, 0.5)


def test_centered_credit_has_mean_zero_within_each_state():
    centred = centered_within_states(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 4]))
    np.testing.assert_allclose(centred, [-1, 1, 0])


def test_progress_is_positive_towards_the_goal_and_most_negative_into_dead_states():
    evaluator = ExactEvaluator(chain(), policy())
    group = simulate(evaluator.mdp, evaluator.policy[None], 50, np.random.default_rng(0))[0]
    got = oracle_progress(evaluator)(group).flat_advantages
    state, action = evaluator.index_turns(group).state, evaluator.index_turns(group).action
    assert set(got[(action == 0) & (state < 2)]) == {1.0}
    assert set(got[(action == 1) & (state == 0)]) == {-1.0}  # dead: one beyond the farthest live distance, 2
    assert set(got[state == 2]) == {0.0}


def test_shuffling_keeps_the_multiset_of_credit_in_each_rollout():
    _, groups = evaluator_and_groups(n=1, size=30)
    method = oracle_adv(ExactEvaluator(chain(), policy()))
    plain, mixed = method(groups[0]), shuffled(method, np.random.default_rng(0))(groups[0])
    for a, b in zip(plain.advantages, mixed.advantages, strict=True):
        np.testing.assert_allclose(np.sort(a), np.sort(b))
    assert not np.array_equal(plain.flat_advantages, mixed.flat_advantages)


def test_no_two_shuffled_controls_use_the_same_random_numbers():
    evaluator, groups = evaluator_and_groups(n=1, size=30)
    names = ("shuffled(oracle_adv)", "shuffled(flipped(oracle_adv))")
    one, other = (method(groups[0]).flat_advantages for method in make_methods(names, evaluator, [0]).values())
    assert not np.array_equal(one, -other)


def test_a_flipped_control_is_the_negative():
    _, groups = evaluator_and_groups(n=1)
    method = oracle_adv(ExactEvaluator(chain(), policy()))
    np.testing.assert_array_equal(flipped(method)(groups[0]).flat_advantages, -method(groups[0]).flat_advantages)


def test_the_evaluators_gradient_is_the_exact_one():
    evaluator = ExactEvaluator(chain(), policy())
    np.testing.assert_array_equal(evaluator.gradient, policy_gradient(chain(), policy()))
