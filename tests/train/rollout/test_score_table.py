"""Tables of success and score: rows by task type, and their LaTeX."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.rollout.evaluation import Evaluation
from creditflow.train.rollout.score_table import MEAN, estimate, score_rows, score_text
from creditflow.train.statistics import crossed_mean, rate_interval

KINDS = ("pick_two_obj_and_place", "pick_and_place_simple", "bridge_comparison", "")


def evaluation(
    types: tuple[str, ...], success: list[float], scores: list[float] | None = None, **rewards: list[float]
) -> Evaluation:
    n = len(success)
    return Evaluation(
        task_ids=tuple(map(str, range(n))), greedy=np.array(success) > 0.5, sampled=np.zeros(n, np.int64), samples=0,
        turns=1.0, invalid_fraction=0.0, errors=0, success_rates=np.array(success),
        scores=np.array(success if scores is None else scores), types=types,
        task_rewards={name: np.array(values) for name, values in rewards.items()},
    )  # fmt: skip


@given(drawn=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=30))
def test_rows_of_types_and_of_all_tasks_are_means_within_their_intervals(drawn: list[tuple[str, float]]) -> None:
    rows = score_rows(evaluation(tuple(kind for kind, _ in drawn), [rate for _, rate in drawn]))
    assert (rows[-1].name, rows[-1].tasks) == ("All", len(drawn))
    assert rows[-1].success.mean == pytest.approx(np.mean([rate for _, rate in drawn]))
    typed = [rate for kind, rate in drawn if kind]
    assert sum(row.tasks for row in rows[:-1]) == len(typed)
    assert sum(row.tasks * row.success.mean for row in rows[:-1]) == pytest.approx(sum(typed))
    for row in rows:
        assert 0.0 <= row.success.low <= row.success.mean + 1e-12
        assert row.success.mean - 1e-12 <= row.success.high <= 1.0
    assert json.loads(json.dumps([row.to_json() for row in rows]))[-1]["success"]["mean"] == rows[-1].success.mean


def test_without_types_there_is_one_row() -> None:
    assert [(row.name, row.tasks) for row in score_rows(evaluation((), [1.0, 0.0]))] == [("All", 2)]


def test_the_columns_are_those_that_differ() -> None:
    rows = score_rows(evaluation(("a", "b", "a"), [1.0, 0.0, 0.0], [1.0, 0.5, 0.5], f1=[1.0, 0.2, 0.4]))
    text = [re.split(r"\s{2,}", line.strip()) for line in score_text(rows).splitlines()]
    assert text[0] == ["Tasks", "N", "Score", "Success", "f1"]


def test_types_of_alfworld_come_first_in_the_order_of_published_tables() -> None:
    rows = score_rows(evaluation(KINDS, [1.0, 0.0, 1.0, 1.0]))
    assert [row.name for row in rows] == ["Pick", "Pick2", "bridge_comparison", "All"]


def test_the_score_has_a_column_only_where_it_is_not_success() -> None:
    same = score_text(score_rows(evaluation(("", ""), [1.0, 0.0])))
    other = score_text(score_rows(evaluation(("", ""), [1.0, 0.0], [1.0, 0.5])))
    assert "Score" not in same
    assert other.split()[:4] == ["Tasks", "N", "Score", "Success"]
    assert "All    2  75.0" in other


def test_transcript_rewards_have_columns_and_intervals_by_type() -> None:
    rows = score_rows(evaluation(("a", "b", "a"), [1.0, 0.0, 0.0], f1=[1.0, 0.2, 0.4], signed=[-1.0, 1.0, 1.0]))
    assert rows[0].rewards["f1"].mean == pytest.approx(0.7)
    assert rows[0].rewards["signed"].low < -1.0  # not cut off at 0
    assert score_text(rows).split("\n")[0].split() == ["Tasks", "N", "Success", "f1", "signed"]


def test_one_task_of_an_unbounded_reward_has_no_interval_but_valid_json() -> None:
    row = score_rows(evaluation(("",), [1.0], pica=[-1.0]))[0]
    assert json.loads(json.dumps(row.to_json(), allow_nan=False))["rewards"]["pica"] == {
        "mean": -1.0,
        "low": None,
        "high": None,
    }
    assert str(row.rewards["pica"]) == "-100.0"


# -- data sets, their mean, answers --------------------------------------------------------------------------------------
SETS = ("hotpotqa/bridge", "hotpotqa/comparison", "nq_open", "2wiki/inference")


def test_several_data_sets_are_rows_and_count_alike_in_their_mean() -> None:
    rows = score_rows(evaluation((*SETS, "nq_open"), [1.0, 0.0, 1.0, 0.0, 1.0]))
    assert [(row.name, row.tasks, row.success.mean) for row in rows] == [
        ("2wiki", 1, 0.0), ("hotpotqa", 2, 0.5), ("nq_open", 2, 1.0), (MEAN, 5, 0.5), ("All", 5, pytest.approx(0.6)),
    ]  # fmt: skip
    assert "Mean of sets  5  50.0" in score_text(rows)


def test_one_data_set_has_rows_by_type() -> None:
    assert [row.name for row in score_rows(evaluation(SETS[:2], [1.0, 0.0]))] == ["bridge", "comparison", "All"]


def test_answers_have_columns_and_stand_in_json() -> None:
    result = replace(evaluation(SETS, [1.0, 0.0, 1.0, 0.0]), task_answers={"em": np.eye(4)[0], "f1": np.full(4, 0.5)})
    rows = score_rows(result)
    assert score_text(rows).split("\n")[0].split() == ["Tasks", "N", "Success", "EM", "F1"]
    assert rows[-1].to_json()["rewards"]["EM"]["mean"] == 0.25
    assert result.summary()["f1"] == 0.5
    assert "em 0.250 [" in result.line()


@given(drawn=st.lists(st.tuples(st.sampled_from(SETS), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=30))
def test_the_mean_of_sets_is_the_mean_of_their_means_within_its_interval(drawn: list[tuple[str, float]]) -> None:
    rows = {row.name: row for row in score_rows(evaluation(tuple(kind for kind, _ in drawn), [x for _, x in drawn]))}
    if MEAN in rows:
        sets = [row.success.mean for name, row in rows.items() if name not in (MEAN, "All")]
        assert rows[MEAN].success.mean == pytest.approx(np.mean(sets))
        assert rows[MEAN].success.low <= np.mean(sets) + 1e-9
    json.dumps([row.to_json() for row in rows.values()], allow_nan=False)


def test_a_seed_that_is_better_on_all_sets_counts_once_in_their_mean() -> None:
    lucky, others = np.full((1, 6), 0.9), np.full((3, 6), 0.1)
    one, several = (estimate([np.concatenate([lucky, others])] * sets) for sets in (1, 4))
    assert (several.low, several.high) == pytest.approx((one.low, one.high))


@pytest.mark.parametrize(
    "groups",
    [
        [np.array([[1.0, 0.75], [0.75, 1.0]])],  # equal means of tasks and of seeds
        [np.array([[0.7, 0.1, 0.4], [0.1, 0.7, 0.4]])],
        [np.zeros((2, 3)), np.ones((2, 3))],
    ],
)
def test_results_whose_means_are_equal_by_chance_have_an_interval_with_a_width(groups: list[Any]) -> None:
    found, tasks = estimate(groups), sum(values.shape[1] for values in groups)
    assert (found.low, found.high) == pytest.approx(tuple(rate_interval(found.mean * tasks, tasks)))
    assert found.low < found.mean < found.high


def test_an_estimate_over_seeds_is_the_crossed_mean() -> None:
    values = np.array([[1.0, 0.0, 0.5], [0.5, 0.0, 1.0]])
    found, expected = estimate([values]), crossed_mean(values)
    assert (found.mean, found.low, found.high) == (
        expected.mean,
        max(0.0, expected.interval.low),
        min(1.0, expected.interval.high),
    )
    equal = estimate([np.zeros((3, 4))])
    assert (equal.mean, equal.low) == (0.0, 0.0)
    solved = estimate([np.ones((3, 4))])
    assert (solved.mean, solved.low, solved.high) == (1.0, *rate_interval(4, 4))
    assert 0.0 < equal.high < 1.0, "no success among four tasks does not show that there is none"
