"""What the viewer shows, as one JSON-able object; texts that repeat are stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.train.viewer.layout import layered_layout
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.graphs.state_graph import KIND_NAMES, StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["view_data"]

DIGITS = 5  # of numbers on the page; the log keeps them all


class _Texts:
    """Distinct texts, by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def view_data(groups: Sequence[Group], schemes: Mapping[str, Scheme], title: str) -> dict[str, Any]:
    """Everything the page needs.

    Args:
        groups: what to show.
        schemes: whose credit to show, by name.
        title: of the page.
    """
    texts = _Texts()
    scored = {name: scheme.assign_batch(groups) for name, scheme in schemes.items()}
    return {
        "title": title,
        "schemes": list(schemes),
        "groups": [
            _group(group, {name: results[i] for name, results in scored.items()}, texts)
            for i, group in enumerate(groups)
        ],
        "texts": list(texts.numbers),
    }


def _group(group: Group, credits_of: Mapping[str, Credit], texts: _Texts) -> dict[str, Any]:
    graph = StateGraph.from_group(group)
    arrays = group.arrays
    begun = arrays.offsets[:-1][np.diff(arrays.offsets) > 0]
    places = layered_layout(graph, np.unique(graph.source[begun]).astype(np.int64))
    owners = list(zip(arrays.offsets[:-1].tolist(), arrays.offsets[1:].tolist(), strict=True))
    return {
        "id": group.group_id,
        "task": group.task_id,
        "nodes": [
            [key, KIND_NAMES[int(kind)], round(float(x), DIGITS), round(float(y), DIGITS)]
            for key, kind, (x, y) in zip(graph.keys, graph.kind, places, strict=True)
        ],
        "rollouts": [
            {
                "id": member.trajectory_id,
                "stop": member.stop_reason,
                "score": member.score,
                "outcome": {name: _short(c.outcome_advantages[i]) for name, c in credits_of.items()},
                "turns": [
                    _turn(group, graph, t, {name: c.flat_advantages[t] for name, c in credits_of.items()}, texts)
                    for t in range(a, b)
                ],
            }
            for i, (member, (a, b)) in enumerate(zip(group.trajectories, owners, strict=True))
        ],
    }


def _turn(group: Group, graph: StateGraph, t: int, advantages: Mapping[str, float], texts: _Texts) -> list[Any]:
    turn = group.turns[t]
    return [
        int(graph.source[t]),
        int(graph.target[t]),
        texts.number(turn.action),
        texts.number(turn.observation),
        texts.number(turn.thought or turn.response),
        texts.number(turn.invalid_reason),
        _short(turn.reward),
        [_short(value) for value in advantages.values()],
    ]


def _short(number: float) -> float:
    return round(float(number), DIGITS)
