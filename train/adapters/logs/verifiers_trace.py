"""A trace of verifiers' v1: its messages are a graph, and each holds the tokens that it adds to the sequence before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.envs.errors import short_repr
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.fields import number
from creditflow.train.adapters.logs.messages import Shown, observed, written
from creditflow.train.adapters.logs.report import RowError
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["last_branch", "tokens_of", "turns_of_branch"]

Node = Mapping[str, Any]


def last_branch(nodes: Any) -> list[Node]:
    """The messages from a root to the leaf that was added last.

    Raises:
        RowError: nodes of another form, or a parent that does not come before its child.
    """
    if not isinstance(nodes, list) or not nodes or not all(isinstance(node, Mapping) for node in nodes):
        raise RowError("'nodes' is no list of messages", short_repr(nodes))
    require_length(len(nodes))
    parents = set()
    for i, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and (type(parent) is not int or not 0 <= parent < i):
            raise RowError("a message's parent does not stand before it", f"node {i}: {short_repr(parent)}")
        parents.add(parent)
    at: int | None = max(i for i in range(len(nodes)) if i not in parents)
    path = []
    while at is not None:
        path.append(nodes[at])
        at = nodes[at].get("parent")
    return path[::-1]


def turns_of_branch(branch: Sequence[Node]) -> tuple[list[Exchange], Shown | None]:
    """The turns: each message that a model call produced ("sampled"), with what was shown before it."""
    turns, shown = list[Exchange](), list[Any]()
    for node in branch:
        message = node.get("message")
        if node.get("sampled") is not True:
            shown.append(message)
            continue
        if not isinstance(message, Mapping):
            raise RowError("a message is no object with a role", short_repr(message))
        before, said = observed(shown), written(message)
        turns.append(
            Exchange(
                before.text, said.response, said.action, said.thought, images=before.images, fields=node,
                values=_mean_advantage(node.get("advantages")),
            )
        )  # fmt: skip
        shown = []
    if not turns:
        raise RowError("no message was written by the model", f"{len(branch)} messages")
    return turns, observed(shown) if shown else None


def _mean_advantage(advantages: Any) -> dict[str, float]:
    if not isinstance(advantages, list) or not advantages:
        return {}
    return {"advantage.recorded": sum_in_order(number(value, "advantages") for value in advantages) / len(advantages)}


def tokens_of(branch: Sequence[Node], turns: int) -> Tokens | None:
    """The tokens of a branch up to its last turn; None if a message of it has none, or not one mask entry for each.

    A turn's tokens are those of the messages shown before it and its own.
    """
    ids, mask, logprobs, offsets = list[int](), list[bool](), list[float](), [0]
    for node in branch:
        added, sampled, told = (node.get(name) or [] for name in ("token_ids", "mask", "logprobs"))
        if (
            not all(isinstance(part, list) for part in (added, sampled, told))
            or not added
            or len(sampled) != len(added)
        ):
            return None
        if not all(type(token) is int and 0 <= token < 2**31 for token in added) or not all(
            type(flag) is bool for flag in sampled
        ):
            raise RowError("token_ids and mask are no lists of ids and flags")
        if sum(sampled) != len(told):
            return None
        ids += added
        mask += sampled
        given = iter(told)
        logprobs += [number(next(given), "logprobs") if flag else 0.0 for flag in sampled]
        if node.get("sampled") is True:
            offsets.append(len(ids))
        if len(offsets) > turns:
            break
    end = offsets[-1]
    return Tokens(
        np.array(ids[:end], np.int32),
        np.array(mask[:end], np.bool_),
        _float32(logprobs[:end]),
        np.array(offsets, np.int32),
    )


def _float32(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    numbers = np.array(values, np.float64)
    if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise RowError("log-probabilities exceed 32-bit numbers")
    return numbers.astype(np.float32)
