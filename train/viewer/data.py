"""The viewer's data as plain JSON values; repeated texts are stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.train.viewer.layout import layered_layout
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.graphs.state_graph import KIND_NAMES, StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["view_data"]

DIGITS = 5  # decimal places on the page; the log has full precision


class _Texts:
    """The distinct texts and their indices; the empty text has index 0."""

    def __init__(self) -> None:
        self.indices: dict[str, int] = {"": 0}

    def index(self, text: str) -> int:
        return self.indices.setdefault(text, len(self.indices))


def view_data(groups: Sequence[Group], schemes: Mapping[str, Scheme], title: str) -> dict[str, Any]:
    """All data of the page, as JSON values; numbers are rounded to ``DIGITS`` places.

    Args:
        groups: groups to show.
        schemes: schemes whose credit is shown, by name.
        title: title of the page.
    """
    texts = _Texts()
    assigned = {name: scheme.assign_batch(groups) for name, scheme in schemes.items()}
    return {
        "title": title,
        "schemes": list(schemes),
        "groups": [
            _group(group, {name: results[i] for name, results in assigned.items()}, texts)
            for i, group in enumerate(groups)
        ],
        "texts": list(texts.indices),
    }


def _group(group: Group, credits_of: Mapping[str, Credit], texts: _Texts) -> dict[str, Any]:
    graph = StateGraph.from_group(group)
    arrays = group.arrays
    begins = (np.diff(arrays.offsets) > 0) & (group.first_turns == 0)  # a branch does not begin at the start
    starts = np.unique(graph.source[arrays.offsets[:-1][begins]])
    positions = layered_layout(graph, starts.astype(np.int64))
    bounds = list(zip(arrays.offsets[:-1].tolist(), arrays.offsets[1:].tolist(), strict=True))
    return {
        "id": group.group_id,
        "task": group.task_id,
        "nodes": [
            [key, KIND_NAMES[int(kind)], round(float(x), DIGITS), round(float(y), DIGITS)]
            for key, kind, (x, y) in zip(graph.keys, graph.kind, positions, strict=True)
        ],
        "rollouts": [
            {
                "id": member.trajectory_id,
                "stop": member.stop_reason,
                "score": member.score,
                "outcome": {name: _rounded(c.outcome_advantages[i]) for name, c in credits_of.items()},
                "turns": [
                    _turn(group, graph, t, {name: c.flat_advantages[t] for name, c in credits_of.items()}, texts)
                    for t in range(a, b)
                ],
            }
            for i, (member, (a, b)) in enumerate(zip(group.trajectories, bounds, strict=True))
        ],
    }


def _turn(group: Group, graph: StateGraph, t: int, advantages: Mapping[str, float], texts: _Texts) -> list[Any]:
    turn = group.turns[t]
    return [
        int(graph.source[t]),
        int(graph.target[t]),
        texts.index(turn.action),
        texts.index(turn.observation),
        texts.index(turn.thought or turn.response),
        texts.index(turn.invalid_reason),
        _rounded(turn.reward),
        [_rounded(value) for value in advantages.values()],
    ]


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)
