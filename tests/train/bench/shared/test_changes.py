"""Changes that tasks of any kind can have, and outcomes that are reported wrongly."""

from dataclasses import replace

import numpy as np
import pytest

from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.learning.batch import Draw, Sampling, sample_batches
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.shared.cells import SharedCell, run_unit, start_of
from creditflow.train.bench.shared.kinds.changes import Changes
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
    reported = group.misreported(wrong)
    np.testing.assert_array_equal(reported.arrays.success, group.arrays.success ^ wrong)
    np.testing.assert_allclose(reported.arrays.score, np.where(wrong, 1.0 - group.arrays.score, group.arrays.score))
    np.testing.assert_array_equal(reported.arrays.states.state, group.arrays.states.state)
    for trajectory, success, score in zip(
        reported.trajectories, reported.arrays.success, reported.arrays.score, strict=True
    ):
        assert (trajectory.success, trajectory.score) == (success, score)
        assert trajectory.turns[-1].reward == score


def test_all_policies_have_the_same_wrong_reports_and_success_is_measured_by_the_right_ones():
    tasks, policy = start_of(SharedCell("pits"), WORK, 0, 0)
    sampling = Sampling(4, 8, wrong=0.5)
    draw = Draw.of(range(4), np.random.default_rng(1), "a")
    first, second = sample_batches([task.mdp for task in tasks], draw, [policy, policy], sampling)
    for a, b in zip(first.groups, second.groups, strict=True):
        np.testing.assert_array_equal(a.arrays.score, b.arrays.score)
    cell = SharedCell("pits", batch=4, size=4)
    right, wrong = (
        run_unit(one, WORK, (), ["grpo"], 0, 0)["curves"]["grpo"][0] for one in (cell, replace(cell, wrong=0.4))
    )
    assert right[0] == wrong[0]  # the start has the success that the cell asks for
    assert right[-1] > wrong[-1]


def test_dynamic_sampling_leaves_no_group_of_equal_outcomes():
    tasks, policy = start_of(SharedCell("pits"), WORK, 0, 0)
    mdps = [task.mdp for task in tasks]

    def batch(*, dynamic):
        draw = Draw.of(range(8), np.random.default_rng(1), "a", pool=range(8))
        return sample_batches(mdps, draw, [policy], Sampling(8, 2, dynamic=dynamic))[0]

    different = [bool(np.ptp(group.arrays.score)) for group in batch(dynamic=False).groups]
    assert not all(different)
    chosen = batch(dynamic=True)
    assert all(np.ptp(group.arrays.score) for group in chosen.groups)
    assert sum(different) < len(chosen.groups) <= 8
    assert set(chosen.tasks) <= set(range(8))  # never the held-out ones


@pytest.mark.parametrize(
    ("cell", "keys"),
    [
        (SharedCell("pits", state_keys="merged"), "text"),
        (SharedCell("sokoban", state_keys="hidden"), "text"),
        (SharedCell("key", state_keys="hidden"), "text"),
        (SharedCell("key"), "state"),
    ],
)
def test_merged_and_hidden_keys_are_text_keys(cell, keys):
    assert cell.sampling.key == keys


def test_a_longer_turn_limit_is_that_of_all_tables():
    tasks, _ = start_of(SharedCell("sokoban", horizon=60), WORK, 0, 0)
    assert {task.mdp.horizon for task in tasks} == {60}
