"""Tasks and rollouts that this study has beyond the benchmark's: kinds of task, changes, wrong reports, dynamic sampling."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.cells import LONG_HORIZON, Changes, StudyCell, StudySampling, misreported

from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.exact.values import success as exact_success
from creditflow.train.bench.learning.batch import Draw
from creditflow.train.bench.learning.policy import LinearPolicy, make_features, policy_with_success
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.shared.cells import run_unit, start_of
from creditflow.train.bench.shared.tasks import viewed_tasks

WORK = SharedWork(1, 8, 4, 8, 2, 2, ("pits",))


@pytest.fixture(scope="module")
def mdp():
    return viewed_tasks("pits", 3, 0, 1)[0].mdp


def test_half_of_the_states_share_a_text_key_with_one_other_state(mdp):
    keys = Changes(merged=True).of(mdp).text_keys[: mdp.size]
    counts = [keys.count(key) for key in keys]
    assert set(counts) == {1, 2}
    assert counts.count(2) == 2 * int(mdp.size / 4)
    assert Changes(merged=True).of(mdp).text_keys == Changes(merged=True).of(mdp).text_keys


def test_a_slip_is_a_random_action(mdp):
    slippery = Changes(slip=0.2).of(mdp)
    value = np.random.default_rng(0).random(len(mdp.keys))
    plain = (mdp.transition_probs * value[mdp.next_states]).sum(axis=2)
    mixed = (slippery.transition_probs * value[slippery.next_states]).sum(axis=2)
    np.testing.assert_allclose(mixed, 0.8 * plain + 0.2 * plain.mean(axis=1, keepdims=True))


def test_an_invalid_action_does_not_slip(mdp):
    invalid = replace(mdp, invalid=3)
    slippery = Changes(slip=0.2).of(invalid)
    value = np.random.default_rng(0).random(len(mdp.keys))
    after = (slippery.transition_probs * value[slippery.next_states]).sum(axis=2)
    np.testing.assert_allclose(after[:, 3], value[mdp.next_states[:, 3, 0]])


def test_a_partial_score_is_half_of_the_share_of_the_way(mdp):
    graded = Changes(graded=True).of(mdp)
    distance = mdp.distance[: mdp.size]
    near = distance == distance[mdp.start] - 1
    assert graded.limit_score[mdp.start] == 0.0
    np.testing.assert_allclose(graded.limit_score[near], 0.5 / distance[mdp.start])
    assert (graded.limit_score[np.isinf(distance)] == 0.0).all()


def test_a_wrong_report_turns_the_outcome_and_nothing_else(mdp):
    (group,) = simulate(mdp, np.full((1, mdp.size, 4), 0.25), 6, np.random.default_rng(0))
    wrong = np.array([True, False, True, False, False, True])
    reported = misreported(group, wrong)
    np.testing.assert_array_equal(reported.arrays.success, group.arrays.success ^ wrong)
    np.testing.assert_allclose(reported.arrays.score, np.where(wrong, 1.0 - group.arrays.score, group.arrays.score))
    np.testing.assert_array_equal(reported.arrays.states.state, group.arrays.states.state)
    for trajectory, success, score in zip(
        reported.trajectories, reported.arrays.success, reported.arrays.score, strict=True
    ):
        assert (trajectory.success, trajectory.score) == (success, score)
        assert trajectory.turns[-1].reward == score


def test_all_policies_have_the_same_wrong_reports_and_success_is_measured_by_the_right_ones():
    tasks, policy = start_of(StudyCell("pits"), WORK, 0, 0)
    sampling = StudySampling(4, 8, wrong=0.5)
    draw = Draw.of(range(4), np.random.default_rng(1), "a")
    first, second = sampling.batches([task.mdp for task in tasks], draw, [policy, policy])
    for a, b in zip(first.groups, second.groups, strict=True):
        np.testing.assert_array_equal(a.arrays.score, b.arrays.score)
    cell = StudyCell("pits", batch=4, size=4)
    right, wrong = (
        run_unit(one, WORK, (), ["grpo"], 0, 0)["curves"]["grpo"][0] for one in (cell, replace(cell, wrong=0.4))
    )
    assert right[0] == wrong[0]  # the start has the success that the cell asks for
    assert right[-1] > wrong[-1]


def test_dynamic_sampling_leaves_no_group_of_equal_outcomes():
    tasks, policy = start_of(StudyCell("pits"), WORK, 0, 0)
    mdps = [task.mdp for task in tasks]

    def batch(*, dynamic):
        draw = Draw.of(range(8), np.random.default_rng(1), "a", pool=range(8))
        return StudySampling(8, 2, dynamic=dynamic).batches(mdps, draw, [policy])[0]

    different = [bool(np.ptp(group.arrays.score)) for group in batch(dynamic=False).groups]
    assert not all(different)
    chosen = batch(dynamic=True)
    assert all(np.ptp(group.arrays.score) for group in chosen.groups)
    assert sum(different) < len(chosen.groups) <= 8
    assert set(chosen.tasks) <= set(range(8))  # never the held-out ones


@pytest.mark.parametrize(
    ("cell", "keys"),
    [
        (StudyCell("pits", state_keys="merged"), "text"),
        (StudyCell("sokoban", state_keys="hidden"), "text"),
        (StudyCell("key", state_keys="hidden"), "text"),
        (StudyCell("key"), "state"),
    ],
)
def test_merged_and_hidden_keys_are_text_keys(cell, keys):
    assert cell.sampling.key == keys


def test_a_longer_turn_limit_is_that_of_all_tables():
    tasks, _ = start_of(StudyCell("sokoban", horizon=60), WORK, 0, 0)
    assert {task.mdp.horizon for task in tasks} == {60}


def best_scores(mdp):
    """Largest expected score from every state, within the turn limit."""
    value = np.concatenate([mdp.limit_score, mdp.terminal_score])
    for _ in range(mdp.horizon):
        value[: mdp.size] = (mdp.transition_probs * value[mdp.next_states]).sum(axis=2).max(axis=1)
    return value


@pytest.mark.parametrize("kind", ["long", "key", "pits", "sokoban"])
def test_tasks_repeat_exactly_and_differ_between_units(kind):
    first, again, other = (StudyCell(kind).tasks(3, unit, 6) for unit in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        assert a.mdp.keys == b.mdp.keys
        np.testing.assert_array_equal(a.parts, b.parts)
    assert [a.mdp.name for a in first] != [a.mdp.name for a in other]


def test_long_ways_have_as_many_turns_as_they_say():
    for mdp, _ in StudyCell("long").tasks(3, 0, 10):
        assert mdp.horizon == LONG_HORIZON
        assert 12 <= mdp.distance[mdp.start] <= 24


def test_a_key_of_boxes_alone_changes_with_a_push_only():
    plain = {task.mdp.name: task.mdp for task in viewed_tasks("sokoban", 3, 0, 8)}
    for mdp, _ in StudyCell("sokoban", state_keys="hidden").tasks(3, 0, 8):
        assert mdp.keys == plain[mdp.name].keys
        assert len(set(mdp.text_keys[: mdp.size])) < mdp.size
        assert len(set(mdp.text_keys[mdp.size :]) & set(mdp.text_keys[: mdp.size])) == 0
        back = np.zeros((mdp.size, 4), bool)  # moves that the opposite move takes back push nothing
        for action, opposite in enumerate((1, 0, 3, 2)):
            after = mdp.next_states[:, action, 0]
            inner = after < mdp.size
            back[inner, action] = mdp.next_states[after[inner], opposite, 0] == np.arange(mdp.size)[inner]
            back[:, action] &= after != np.arange(mdp.size)
        states, actions = back.nonzero()
        after = mdp.next_states[states, actions, 0]
        assert all(mdp.text_keys[a] == mdp.text_keys[b] for a, b in zip(states.tolist(), after.tolist(), strict=True))


def test_the_goal_opens_with_the_key_alone_and_the_text_key_hides_it():
    for mdp, parts in StudyCell("key").tasks(3, 0, 12):
        has_key = np.array([key.endswith(":key") for key in mdp.keys[: mdp.size]])
        ends = (mdp.next_states[:, :, 0] >= mdp.size).any(axis=1)
        assert not (ends & ~has_key).any()
        assert (ends & has_key).any()
        alive = parts[:, 0] >= 0
        np.testing.assert_array_equal(parts[alive, 0], has_key[alive])
        cells = [key.rsplit(":", 1)[0] for key in mdp.keys[: mdp.size]]
        assert list(mdp.text_keys[: mdp.size]) == cells
        assert len(set(cells)) < mdp.size
        assert best_scores(mdp)[mdp.start] == 1.0


def test_a_start_is_found_where_too_much_bias_gets_stuck():
    tasks = StudyCell("long").tasks(7, 0, 48)
    stack = StackedTasks([task.mdp for task in tasks])
    features = make_features("local", [task.parts for task in tasks])
    start = policy_with_success(stack, features, range(48), 0.25)
    greedy = LinearPolicy(1e6 * start.theta, features)
    rates = [exact_success(stack, np.concatenate(one.probabilities(range(48)))).mean() for one in (start, greedy)]
    assert rates[0] == pytest.approx(0.25, abs=0.01)
    assert rates[1] < 0.2
