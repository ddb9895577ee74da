"""A policy that ignores what was added to its tasks does as well as before, and what was written is no action."""

import numpy as np
import pytest
from evidence.language_models.tables import with_history, with_plans

from creditflow.train.bench.exact.grid_layouts import generate_layout, grid_mdp
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.exact.values import softmax, success
from creditflow.train.bench.language_model.tables import with_action

HORIZON = 12


@pytest.fixture(params=range(3))
def task(request):
    mdp = grid_mdp(generate_layout("pits", np.random.default_rng([7, request.param])), HORIZON)
    return with_action(mdp, "", np.arange(mdp.size, dtype=np.int32)), np.random.default_rng(request.param)


@pytest.mark.parametrize("window", [1, 2])
def test_a_policy_that_ignores_its_history_has_the_same_success(task, window):
    mdp, rng = task
    policy = softmax(rng.standard_normal((mdp.size, len(mdp.actions))))
    expanded, states = with_history(mdp, window)
    assert success(expanded, policy[[state for state, _ in states]]) == pytest.approx(success(mdp, policy))
    assert len(set(states)) == len(states) == expanded.size
    assert max(len(history) for _, history in states) == window
    assert [expanded.keys[i] for i in range(expanded.size)] == [mdp.keys[state] for state, _ in states]


def test_the_history_of_a_state_is_what_led_to_it(task):
    mdp, rng = task
    expanded, states = with_history(mdp, 2)
    uniform = np.full((1, expanded.size, len(mdp.actions)), 1.0 / len(mdp.actions))
    (group,) = simulate(expanded, uniform, 4, rng)
    first = 0
    for length in np.diff(group.arrays.offsets).tolist():
        actions = group.chosen[first : first + length].tolist()
        for turn in range(length):
            assert list(states[group.number[first + turn]][1]) == actions[:turn][-2:]
        first += length
    assert group.states().keys[0] == mdp.keys[0]
    assert len(group.states().keys) <= len(mdp.keys)  # schemes see the boards, whatever came before


def test_a_plan_changes_neither_success_nor_the_recorded_actions(task):
    mdp, rng = task
    planned, moves = with_plans(mdp, 2), len(mdp.actions) - 1
    policy = softmax(rng.standard_normal((mdp.size, len(planned.actions))))
    acting = policy[:, :-1].reshape(mdp.size, -1, moves).sum(axis=1)
    assert success(planned, policy) == pytest.approx(success(mdp, np.append(acting, policy[:, -1:], axis=1)))
    (group,) = simulate(planned, policy[None], 4, rng)
    assert set(group.arrays.actions) <= set(mdp.actions)
    written = [planned.actions[action] for action in group.chosen.tolist()]
    assert [group.arrays.actions[action] for action in group.arrays.action.tolist()] == written
    assert len(set(group.chosen.tolist())) > len(group.arrays.actions)
