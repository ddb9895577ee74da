"""Records of a credit set: one JSON object per turn, with its prompt, its action, alternatives, and their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.train.credit_set.continuation import LazyStateGraph, State
from creditflow.train.credit_set.turns import PlayedTurn
from creditflow.train.credit_set.values import Estimate, ExactValues, ForkedValues
from creditflow.train.rollout.play import episode_rng

__all__ = ["choose_alternatives", "states_of", "turn_record"]

DIGITS: Final = 6  # decimal places of every number


def states_of(graph: LazyStateGraph, turns: Sequence[PlayedTurn]) -> list[State]:
    """The states before the turns of an episode.

    Raises:
        DataError: a state's admissible actions are not those of the episode.
    """
    states, state = list[State](), graph.start
    for turn in turns:
        if state.actions != turn.actions:
            raise DataError(
                f"turn {turn.index}: replaying the episode reached the state {state.key!r}, whose admissible actions differ from "
                "the recorded ones; the environment is not deterministic"
            )
        states.append(state)
        state = graph.step(state, turn.action)
    return states


def choose_alternatives(
    graph: LazyStateGraph, state: State, action: str, count: int, rng: np.random.Generator
) -> list[str]:
    """At most ``count`` other admissible actions than ``action``, sorted: an optimal one if there is any, the rest at random."""
    best = [text for text in graph.best(state) if text != action and text in state.actions]
    chosen = [best[int(rng.integers(len(best)))]] if best else []
    others = [text for text in state.actions if text != action and text not in chosen]
    chosen += [others[i] for i in rng.permutation(len(others))[: count - len(chosen)].tolist()]
    return sorted(chosen)


def turn_record(
    graph: LazyStateGraph, values: ExactValues | ForkedValues, state: State, turn: PlayedTurn, left: int, *,
    turn_id: str, alternatives: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The fields of one turn that depend on its state; ``assets/credit_set/README.md`` defines them.

    Args:
        graph: the state graph of the task.
        values: the values of its states.
        state: the state before the turn.
        turn: the turn.
        left: turns left, this one included.
        turn_id: name of the turn; every estimate has its own generator, seeded by this name, the action and ``seed``.
        alternatives: maximum number of alternatives.
        seed: seed of the set.
    """

    def rng(what: str) -> np.random.Generator:
        return episode_rng(seed, 0, f"{turn_id}\n{what}", 0)

    def valued(action: str) -> tuple[Estimate, dict[str, Any]]:
        estimate = values.action(state, action, left, rng(f"action {action}"))
        after = graph.distance(graph.step(state, action))
        return estimate, {"action": action, **_fields("q", estimate), "distance_after": _finite(after)}

    v = values.state(state, left, rng("state"))
    q, taken = valued(turn.action)
    others = choose_alternatives(graph, state, turn.action, alternatives, rng("alternatives"))
    return {
        **taken,
        "response": turn.response,
        "valid": turn.valid,
        "admissible": len(state.actions),
        **_fields("v", v),
        "advantage": round(q.mean - v.mean, DIGITS),
        "advantage_error": round(math.hypot(q.standard_error, v.standard_error), DIGITS),
        "distance": _finite(graph.distance(state)),
        "alternatives": [valued(action)[1] for action in others],
    }


def _fields(name: str, estimate: Estimate) -> dict[str, Any]:
    return {
        name: round(estimate.mean, DIGITS),
        f"{name}_error": round(estimate.standard_error, DIGITS),
        f"{name}_interval": [round(estimate.low, DIGITS), round(estimate.high, DIGITS)],
        f"{name}_halves": [round(half, DIGITS) for half in estimate.halves],
        f"{name}_score": round(estimate.score, DIGITS),
    }


def _finite(distance: float) -> float | None:
    return distance if math.isfinite(distance) else None
