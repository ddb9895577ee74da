"""Exact values of one table worked out on paper, and the numbers of an evaluation from those of its tasks."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.language_model.evaluate import ExactEvaluation, TableValues, table_values
from creditflow.train.rollout.evaluation import clustered_interval

# One acting state and a turn limit of two. "go" wins with probability 1/4 and else ends with half the score; "stay", and what
# is invalid, stays; at the limit the score is 1/10.
GATE = FiniteMDP(
    name="gate",
    keys=("gate", "won", "half"),
    text_keys=("gate", "won", "half"),
    actions=("go", "stay", "(invalid action)"),
    next_states=np.array([[[1, 2], [0, 0], [0, 0]]], np.int32),
    transition_probs=np.array([[[0.25, 0.75], [1.0, 0.0], [1.0, 0.0]]]),
    terminal_score=np.array([1.0, 0.5]),
    terminal_success=np.array([True, False]),
    limit_score=np.array([0.1]),
    start=0,
    horizon=2,
    invalid=2,
)


def test_values_of_a_table_worked_out_on_paper() -> None:
    # it goes on with probability 3/5: turns 1 + 3/5; of them 1/5 are invalid
    values = table_values(GATE, np.array([[0.4, 0.4, 0.2]]))
    going = 0.4 * 1.6
    assert astuple(values) == pytest.approx((going / 4, going * (0.25 + 0.75 / 2) + 0.1 * 0.6**2, 1.6, 0.2 * 1.6))


def test_an_evaluation_summarises_its_tasks() -> None:
    sampled = TableValues(0.25, 0.5, 2.0, 1.0), TableValues(0.75, 0.75, 6.0, 1.0)
    greedy = TableValues(1.0, 1.0, 3.0, 0.0), TableValues(0.0, 0.25, 7.0, 2.0)
    found = ExactEvaluation(("a", "b"), (10, 20), 0.5, sampled, greedy, 1e-4)
    summary = found.summary()
    named = ("tasks", "states", "temperature", "sampled", "sampled_score", "sampled_turns", "sampled_invalid_fraction",
             "greedy", "greedy_score", "greedy_turns", "greedy_invalid_fraction", "sampled_error_bound")  # fmt: skip
    expected = (2, 30, 0.5, 0.5, 0.625, 4.0, 0.25, 0.5, 0.625, 5.0, 0.2, 4e-4)
    assert [summary[name] for name in named] == pytest.approx(expected)
    for name, values in (("sampled", [0.25, 0.75]), ("greedy_score", [1.0, 0.25])):
        assert (summary[f"{name}_ci_low"], summary[f"{name}_ci_high"]) == clustered_interval(np.array(values))
    assert found.per_task("greedy", "turns").tolist() == [3.0, 7.0]
    assert found.rows()[1] == {
        "task_id": "b", "states": 20,
        "sampled_success": 0.75, "sampled_score": 0.75, "sampled_turns": 6.0, "sampled_invalid": 1.0,
        "greedy_success": 0.0, "greedy_score": 0.25, "greedy_turns": 7.0, "greedy_invalid": 2.0,
    }  # fmt: skip
    assert found.line() == (
        "exact: greedy 0.5000 [0.013, 0.987] in 5.0 turns, invalid 0.2000; sampled at temperature 0.5 0.5000 "
        "[0.013, 0.987] in 4.0 turns, invalid 0.2500; 2 tasks, 30 states"
    )
