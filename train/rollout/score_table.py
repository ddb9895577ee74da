"""Success and score by task type and overall, as papers report them: as rows and as text.

ALFWorld: success by the six types and overall. WebShop: score and success. Search: exact match and F1 of the answers by data set, with
their mean over data sets, or by the types of one data set's questions. All in percent, of the sampled (else greedy) episodes, with 95 %
intervals over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.wikisearch.slices import DATA_SETS
from creditflow.train.rollout.evaluation import Evaluation, clustered_interval
from creditflow.train.statistics import crossed_strata_mean, normal_interval, rate_interval
from creditflow.train.text_table import text_table

__all__ = [
    "ANSWER_NAMES",
    "MEAN",
    "Estimate",
    "ScoreRow",
    "estimate",
    "row_groups",
    "score_rows",
    "score_text",
    "task_groups",
]

# ALFWorld's types, in the order and under the names of published tables
TYPE_NAMES: Final = {
    "pick_and_place_simple": "Pick",
    "look_at_obj_in_light": "Look",
    "pick_clean_then_place_in_recep": "Clean",
    "pick_heat_then_place_in_recep": "Heat",
    "pick_cool_then_place_in_recep": "Cool",
    "pick_two_obj_and_place": "Pick2",
}
ALL: Final = "All"
MEAN: Final = "Mean of sets"  # every data set counts alike
NO_ERROR: Final = 1e-12  # a standard error of rounding
ANSWER_NAMES: Final = {"em": "EM", "f1": "F1"}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks with the ends of its 95 % interval; in [0, 1], but for rewards that can be negative, infinitely wide for one task of those."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float | None]:
        """Return the estimate as plain data."""
        ends = {"low": self.low, "high": self.high}
        return {"mean": self.mean, **{name: end if math.isfinite(end) else None for name, end in ends.items()}}

    def __str__(self) -> str:
        if not math.isfinite(self.low):
            return f"{100 * self.mean:.1f}"
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One row of the table.

    Attributes:
        name: the task type or data set, "Mean of sets", or "All".
        tasks: number of tasks.
        success, score: means over these tasks.
        rewards: means of the answers' "EM" and "F1" and of transcript rewards, by name.
    """

    name: str
    tasks: int
    success: Estimate
    score: Estimate
    rewards: Mapping[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data; ends of an infinite interval are None."""
        return {
            "name": self.name,
            "tasks": self.tasks,
            "success": self.success.to_json(),
            "score": self.score.to_json(),
            "rewards": {name: value.to_json() for name, value in self.rewards.items()},
        }


def task_groups(types: Sequence[str]) -> dict[str, list[int]]:
    """Return the tasks of every row but the last, "All": by type, ALFWorld's under the names and in the order of published tables.

    Types "<data set>/<type>" of several data sets are grouped by data set.

    Args:
        types: type of each task; "" for none.

    >>> task_groups(["b/x", "", "a", "b/y"]), task_groups(["b/x", "b/y"])
    ({'a': [2], 'b': [0, 3]}, {'x': [0], 'y': [1]})
    """
    several = len({kind.partition("/")[0] for kind in types if kind}) > 1
    names = [kind.partition("/")[0] if several else kind.rpartition("/")[2] for kind in types]
    named = [kind for kind in TYPE_NAMES if kind in names]
    groups: dict[str, list[int]] = {}
    for kind in [*named, *sorted(set(names) - {"", *TYPE_NAMES})]:
        groups[TYPE_NAMES.get(kind, kind)] = [task for task, name in enumerate(names) if name == kind]
    return groups


def row_groups(types: Sequence[str]) -> dict[str, list[list[int]]]:
    """Return the rows of a table: name -> groups of tasks that count alike; "All" and rows of one type have one group.

    Args:
        types: type of each task; "" for none.
    """
    groups = task_groups(types)
    rows = {name: [tasks] for name, tasks in groups.items()}
    if len(groups) > 1 and set(groups) <= set(DATA_SETS):
        rows[MEAN] = list(groups.values())
    return rows | {ALL: [list(range(len(types)))]}


def score_rows(result: Evaluation) -> list[ScoreRow]:
    """Return a row for every task type or data set, one for the mean over data sets, and one for all tasks."""
    groups = row_groups(result.types or ("",) * len(result.task_ids))
    return [_row(name, result, tasks) for name, tasks in groups.items()]


def _row(name: str, result: Evaluation, groups: Sequence[Sequence[int]]) -> ScoreRow:
    """The row of the mean over groups of tasks."""

    def mean(per_task: NDArray[np.float64]) -> Estimate:
        return estimate([per_task[None, list(tasks)] for tasks in groups])

    answers = {ANSWER_NAMES[metric]: mean(values) for metric, values in result.task_answers.items()}
    rewards = {reward: mean(values) for reward, values in result.task_rewards.items()}
    return ScoreRow(name, sum(map(len, groups)), mean(result.success_rates), mean(result.scores), answers | rewards)


def estimate(groups: Sequence[NDArray[np.float64]]) -> Estimate:
    """Return the mean over groups of tasks, each counting alike, with its 95 % interval over tasks, and over seeds where there are several.

    Args:
        groups: float64 (S, T), rows are seeds, the same of all groups, and columns are the tasks of one group. Numbers in [0, 1] have an interval in [0, 1], which is
            that of as many trials where neither tasks nor seeds differ.
    """
    low_, high_ = min(float(values.min()) for values in groups), max(float(values.max()) for values in groups)
    bounded = low_ >= 0 and high_ <= 1
    if len(groups) == 1 and len(groups[0]) == 1:
        (values,) = groups
        low, high = clustered_interval(values[0]) if bounded else normal_interval(values[0])
        return Estimate(float(values.mean()), float(low), float(high))
    strata = crossed_strata_mean(groups)
    low, high = strata.interval
    if bounded and strata.standard_error <= NO_ERROR:
        tasks = sum(values.shape[1] for values in groups)
        low, high = rate_interval(min(strata.mean, 1.0) * tasks, tasks)
    elif bounded:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(strata.mean, low, high) if math.isfinite(low) else Estimate(strata.mean, -math.inf, math.inf)


def _cells(rows: Sequence[ScoreRow]) -> list[list[str]]:
    """The table with its head; success and score have no column beside an equal exact match, nor the score beside an equal success."""
    exact = all(row.rewards.get("EM") == row.success for row in rows)
    scored = any(row.score != row.success for row in rows)
    columns = {
        **({"Score": [row.score for row in rows]} if scored else {}),
        **({} if exact else {"Success": [row.success for row in rows]}),
    }
    for name in rows[0].rewards:
        columns[name] = [row.rewards[name] for row in rows]
    head = ["Tasks", "N", *columns]
    values = zip(*columns.values(), strict=True)
    return [head] + [[row.name, str(row.tasks), *map(str, scores)] for row, scores in zip(rows, values, strict=True)]


def score_text(rows: Sequence[ScoreRow]) -> str:
    """Return the table as text, in percent, with 95 % intervals over tasks.

    Args:
        rows: see ``score_rows``; at least one.

    >>> half = Estimate(0.5, 0.25, 0.75)
    >>> print(score_text([ScoreRow("Pick", 10, half, half)]))
    Tasks  N   Success
    -----  --  -----------------
    Pick   10  50.0 [25.0, 75.0]
    """
    return text_table(_cells(rows))
