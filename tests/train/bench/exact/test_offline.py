"""Simulated groups and controls on tasks with known answers."""

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import chain, policy, simulate

from creditflow import credit
from creditflow.envs.errors import DataError
from creditflow.train.bench.controls import ExactEvaluator, flipped, oracle_adv, shuffled
from creditflow.train.bench.exact.grid_layouts import generate_layout, grid_mdp
from creditflow.train.bench.methods import Generators, with_corruption
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
    methods = [with_corruption(name, lambda _: oracle_adv(evaluator), Generators([0])) for name in names]
    one, other = (method(groups[0]).flat_advantages for method in methods)
    assert not np.array_equal(one, -other)


def test_a_flipped_control_is_the_negative():
    _, groups = evaluator_and_groups(n=1)
    method = oracle_adv(ExactEvaluator(chain(), policy()))
    np.testing.assert_array_equal(flipped(method)(groups[0]).flat_advantages, -method(groups[0]).flat_advantages)
