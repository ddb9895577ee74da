"""Groups with everything that any scheme reads: annotations, texts, passages and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["complete_group", "needed_annotations"]


def needed_annotations() -> list[str]:
    """The annotations of turns that some scheme needs, in alphabetical order."""
    return sorted({name for scheme in credit.names() for name in lookup(scheme).requires})


def complete_group(
    states: Sequence[Sequence[str]],
    entities: Sequence[Sequence[int]],
    numbers: NDArray[np.float64],
    won: Sequence[bool],
    *,
    known: int,
    name: str = "g",
) -> Group:
    """A group of G rollouts through given states, with everything any scheme reads: annotations, texts, passages and tokens.

    Args:
        states: by rollout T + 1 state keys.
        entities: by rollout T + 1 numbers of entities: turn t observes and retrieves number t, and its thought names number t + 1.
        numbers: float64 (G, A, T + 1) in (0, 1), the values of the A ``needed_annotations`` before each turn and at the end;
            log-probabilities are 1 less.
        won: by rollout whether it succeeded.
        known: number of entities of the task, which has a relation between each and the next, and a document of each.
        name: id of the group.
    """
    members = []
    for i, (keys, named, row, success) in enumerate(zip(states, entities, numbers, won, strict=True)):
        length = len(keys) - 1
        values = _values(row)
        turns = tuple(
            Turn(
                keys[t], f"go {keys[t + 1]}", keys[t + 1], reward=float(success and t == length - 1), text_key=keys[t],
                effective=keys[t] != keys[t + 1], observation=f"saw entity {named[t]}", thought=f"entity {named[t + 1]}",
                queries=(f"word{t}",), doc_ids=(f"d{named[t]}",), values=values[t],
            )
            for t in range(length)
        )  # fmt: skip
        members.append(
            Trajectory(
                f"{i}", name, name, turns, success, float(success), "success" if success else "failed", keys[-1],
                final_text_key=keys[-1], tokens=_tokens(length),
            )
        )  # fmt: skip
    return Group(tuple(members), _task(known))


def _values(numbers: NDArray[np.float64]) -> list[Mapping[str, float]]:
    """Annotations of each turn, before (``NAME``) and after it (``NAME.next``)."""
    named = zip(needed_annotations(), numbers, strict=True)
    of = {name: (row - float(name.startswith("logp."))).tolist() for name, row in named}
    before = [dict(zip(of, column, strict=True)) for column in zip(*of.values(), strict=True)]
    return [values | _of_next_turn(following) for values, following in pairwise(before)]


def _of_next_turn(values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}.next": value for name, value in values.items()}


def _tokens(turns: int) -> Tokens:
    """Two tokens a turn: one observed, one of the model."""
    return Tokens(
        ids=np.zeros(2 * turns, np.int32),
        mask=np.tile([False, True], turns),
        logprobs=np.zeros(2 * turns, np.float32),
        turn_offsets=np.arange(0, 2 * turns + 1, 2, dtype=np.int32),
        values={"value.critic": np.zeros(2 * turns + 1, np.float32)},
    )


def _task(entities: int) -> dict[str, Any]:
    names = [f"entity {n}" for n in range(entities)]
    return {
        "entities": names,
        "edges": [[a, "to", b] for a, b in pairwise(names)],
        "answer_node": names[0],
        "search_keys": [["word1 word2"]],
        "supporting": ["d0"],
        "documents": {f"d{n}": {"title": f"{n}", "text": f"word{n} of many"} for n in range(entities)},
    }
