r"""Success and score by task type and overall, as papers report them: as rows, as text and as a LaTeX table.

ALFWorld: success by the six types and overall. WebShop: score and success. Search: transcript rewards such as "em" and "f1" too, by
the questions' types. All in percent, of the sampled (else greedy) episodes, with 95 % intervals over tasks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from creditflow.train.rollout.evaluation import Evaluation, clustered_interval
from creditflow.train.statistics import normal_interval
from creditflow.train.text_table import text_table

__all__ = ["Estimate", "ScoreRow", "latex_table", "score_rows", "score_text"]

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
_SPECIAL: Final = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


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
        name: the task type, or "All".
        tasks: number of tasks.
        success, score: means over these tasks.
        rewards: means of transcript rewards, by name.
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


def score_rows(result: Evaluation) -> list[ScoreRow]:
    """Return a row for every task type, ALFWorld's in the order of published tables, and one for all tasks."""
    types = result.types or ("",) * len(result.task_ids)
    known = [kind for kind in TYPE_NAMES if kind in types]
    others = sorted(set(types) - {"", *TYPE_NAMES})
    rows = [
        _row(TYPE_NAMES.get(kind, kind), result, [i for i, one in enumerate(types) if one == kind])
        for kind in known + others
    ]
    return [*rows, _row(ALL, result, list(range(len(types))))]


def _row(name: str, result: Evaluation, tasks: list[int]) -> ScoreRow:
    rewards = {reward: _estimate(values[tasks]) for reward, values in result.task_rewards.items()}
    return ScoreRow(name, len(tasks), _estimate(result.success_rates[tasks]), _estimate(result.scores[tasks]), rewards)


def _estimate(per_task: np.ndarray[Any, np.dtype[np.float64]]) -> Estimate:
    bounded = per_task.min() >= 0 and per_task.max() <= 1
    low, high = clustered_interval(per_task) if bounded else normal_interval(per_task)
    return Estimate(float(per_task.mean()), float(low), float(high))


def _cells(rows: Sequence[ScoreRow]) -> list[list[str]]:
    """The table with its head; the score has a column if it is not success everywhere."""
    scored = any(row.score != row.success for row in rows)
    head = ["Tasks", "N", *(["Score"] if scored else []), "Success", *rows[0].rewards]
    return [head] + [
        [
            row.name,
            str(row.tasks),
            *([str(row.score)] if scored else []),
            str(row.success),
            *map(str, row.rewards.values()),
        ]
        for row in rows
    ]


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


def latex_table(rows: Sequence[ScoreRow], caption: str = "") -> str:
    r"""Return the table as a ``tabular`` for the package booktabs.

    Args:
        rows: see ``score_rows``; at least one.
        caption: a comment above the table: what was evaluated.

    >>> half = Estimate(0.5, 0.25, 0.75)
    >>> print(latex_table([ScoreRow("Pick", 10, half, half)], "hf:model"))
    % hf:model
    % percent, with 95 % intervals over tasks; needs \usepackage{booktabs}
    \begin{tabular}{lrr}
    \toprule
    Tasks & N & Success \\
    \midrule
    Pick & 10 & 50.0 [25.0, 75.0] \\
    \bottomrule
    \end{tabular}
    """
    head, *body = [[_escaped(cell) for cell in cells] for cells in _cells(rows)]
    note = r"percent, with 95 % intervals over tasks; needs \usepackage{booktabs}"
    lines = [f"% {line}" for line in (*caption.splitlines(), note)]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    for cells in body:
        if cells[0] == ALL and len(body) > 1:
            lines.append(r"\midrule")
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _escaped(text: str) -> str:
    text = re.sub(r"[\\~^]|[&%$#_{}]", lambda found: _SPECIAL.get(found[0], f"\\{found[0]}"), text)
    return " ".join(text.split())
