"""Distance to the answer by step, on rollouts worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.papers import NotDefinedError, answer_distances, clustered_correlation, read_group
from helpers.episodes.search_logs import TASK, question, rollout

from creditflow.wrappers.graphs.entity_graph import EntityGraph

RIGHT = rollout("right", [("", "Inception is a film"), ("Inception then", "by Nolan"), ("", "London")], True)
WRONG = rollout("wrong", [("", "Inception is a film"), ("", "nothing"), ("", "Paris")], False)


def test_distances_and_rewards_follow_the_order_of_turns():
    right, wrong = read_group(question(RIGHT, WRONG), EntityGraph.from_task(TASK))
    assert right.distance.tolist() == [2.0, 1.0, 0.0]
    # c = 2^-d: Inception seen; cited, and Nolan seen; London seen. The answering step is left out
    assert right.reward.tolist() == [0.25, 0.25 + 0.5, 1.0]
    np.testing.assert_array_equal(wrong.distance, [2.0, np.nan, np.nan])  # Paris has no path to London
    np.testing.assert_array_equal(wrong.best, [2.0, 2.0, 2.0])


def test_the_table_averages_the_best_distance_of_rollouts_that_have_not_ended():
    short = rollout("short", [("", "Nolan")], True)
    rows = answer_distances([question(RIGHT, WRONG, short)]).numbers["by_step"]
    assert [row["correct"]["rollouts"] for row in rows] == [2, 1, 1]
    assert [row["correct"]["best"] for row in rows] == [1.5, 1.0, 0.0]
    assert [row["incorrect"]["best"] for row in rows] == [2.0, 2.0, 2.0]
    assert [row["difference"] for row in rows] == [-0.5, -1.0, -2.0]


def test_a_rollout_without_entities_so_far_is_counted_separately():
    late = rollout("late", [("", "nothing"), ("", "Nolan")], False)
    rows = answer_distances([question(RIGHT, late)]).numbers["by_step"]
    assert [row["incorrect"]["nothing_yet"] for row in rows] == [1, 0, 0]
    assert rows[0]["incorrect"]["rollouts"] == 1


def test_guessed_entities_leave_the_distance_unchanged():
    guess = rollout("guess", [("It is London and Nolan", "nothing")], False)
    (read,) = read_group(question(guess), EntityGraph.from_task(TASK))
    assert np.isnan(read.best).all()


def test_the_interval_resamples_clusters_and_contains_the_estimate():
    rng = np.random.default_rng(0)
    x = [rng.normal(size=8) for _ in range(30)]
    y = [(a + rng.normal(size=8) > 0).astype(float) for a in x]
    r, low, high = clustered_correlation(x, y)
    assert low < r < high
    assert clustered_correlation(x, y) == (r, low, high)


def test_the_error_names_what_the_log_lacks():
    with pytest.raises(NotDefinedError, match="have no entities at all"):
        answer_distances([question(RIGHT, task={})])
    with pytest.raises(NotDefinedError, match="answers=virtual"):
        answer_distances([question(RIGHT, task={**TASK, "answer_node": ""})])
    with pytest.raises(NotDefinedError, match="texts"):
        answer_distances([question(rollout("r", [("", "nothing")], True))])


def test_questions_without_an_answer_node_are_left_out_and_counted():
    found = answer_distances([question(RIGHT), question(RIGHT, task={**TASK, "answer_node": ""})])
    assert found.numbers["groups_left_out"] == 1
