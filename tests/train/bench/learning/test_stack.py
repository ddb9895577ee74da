"""Values of many tasks computed together are those of each task alone."""

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.exact.values import evaluate, policy_gradient, softmax, state_occupancy, success
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.wrappers.records.group import Group


def mixed(kinds=("pits", "slip", "open", "alias")):
    return [task.mdp for kind in kinds for task in viewed_tasks(kind, 3, 0, 2)]


def tables(stack, count=3):
    return softmax(np.random.default_rng(0).standard_normal((count, stack.size, 4)))


@pytest.mark.parametrize("kinds", [("pits", "slip", "open"), ("sokoban",)])
def test_values_gradients_and_visits_are_those_of_each_task(kinds):
    stack = StackedTasks(mixed(kinds))
    policies = tables(stack)
    together, turns = success(stack, policies), state_occupancy(stack, policies[1]).sum(axis=0)
    advantage, weights = evaluate(stack, policies[0]).advantage, policy_gradient(stack, policies[0])
    for i, mdp in enumerate(stack.mdps):
        own = slice(stack.offsets[i], stack.offsets[i + 1])
        np.testing.assert_allclose(together[:, i], success(mdp, policies[:, own]), atol=1e-12)
        np.testing.assert_allclose(advantage[1:, own], evaluate(mdp, policies[0, own]).advantage[1:], atol=1e-12)
        np.testing.assert_allclose(turns[own], state_occupancy(mdp, policies[1, own]).sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(weights[own], policy_gradient(mdp, policies[0, own]), atol=1e-12)


def test_a_task_may_occur_twice():
    mdp = mixed()[0]
    stack = StackedTasks([mdp, mdp])
    policy = softmax(np.random.default_rng(0).standard_normal((1, mdp.size, 4)))
    np.testing.assert_allclose(success(stack, np.tile(policy, (1, 2, 1)))[0], success(mdp, policy)[0], atol=1e-12)


def test_tasks_of_other_turn_limits_are_rejected():
    with pytest.raises(ConfigError, match="the same turn limit"):
        StackedTasks(mixed(("pits", "sokoban")))


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kinds", [("pits", "alias"), ("slip", "pits")])
def test_sampled_groups_are_possible_and_equal_the_groups_of_their_trajectories(kinds, fresh):
    stack = StackedTasks(mixed(kinds))
    for groups in sample_groups(stack, tables(stack), 5, np.random.default_rng(1), fresh=fresh):
        for mdp, group in zip(stack.mdps, groups, strict=True):
            ways = mdp.next_states[group.number, group.chosen] == group.next_number[:, None]
            assert (ways & (mdp.transition_probs[group.number, group.chosen] > 0.0)).any(axis=1).all()
            assert (group.number[group.arrays.offsets[:-1]] == mdp.start).all()
            again = Group(group.trajectories)
            for key in ("state", "text"):
                one, other = group.states(key), again.states(key)
                assert one.keys == other.keys
                np.testing.assert_array_equal(one.state, other.state)
                np.testing.assert_array_equal(one.next_state, other.next_state)
            for name in ("success", "end", "returns", "action", "offsets", "last"):
                np.testing.assert_array_equal(getattr(group.arrays, name), getattr(again.arrays, name))


def test_equal_policies_have_equal_rollouts():
    stack = StackedTasks(mixed())
    policy = tables(stack, 1)[0]
    one, other = sample_groups(stack, np.stack([policy, policy]), 6, np.random.default_rng(1))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.number, b.number)
        np.testing.assert_array_equal(a.chosen, b.chosen)


def test_sampled_success_is_exact_success():
    stack = StackedTasks(mixed(("open", "slip")))
    policy = tables(stack, 1)
    (groups,) = sample_groups(stack, policy, 4000, np.random.default_rng(2))
    rates = [group.arrays.success.mean() for group in groups]
    np.testing.assert_allclose(rates, success(stack, policy)[0], atol=4 * 0.5 / np.sqrt(4000))


def test_fresh_keys_never_repeat_but_at_the_start():
    stack = StackedTasks(mixed(("pits",)))
    (groups,) = sample_groups(stack, tables(stack, 1), 8, np.random.default_rng(1), name="u", fresh=True)
    assert len({key for group in groups for key in group.states().keys}) == sum(
        len(group.number) + 1 for group in groups
    )
    for group in groups:
        states = group.states()
        np.testing.assert_array_equal(np.flatnonzero(states.state == 0), group.arrays.offsets[:-1])
        assert len(set(states.next_state.tolist())) == len(group.number)
