"""Micro-batches by token budget: rows sorted by length and padded, or packed into one forest of their distinct prefixes.

Both give the same numbers to rounding. Packed rows have no padding, and what rows share is computed once: the prompt of a group,
the earlier turns of an append-only episode in rows per turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.models.vision import picture_tensors, rope_positions
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.policy.packing.attention import PackedForest
from creditflow.train.policy.packing.forest import Forest, plan_packed
from creditflow.train.policy.samples import Row

__all__ = ["MicroBatch", "Packing", "batches_of", "plan", "plan_rows", "split_by_row", "to_batch"]

Packing = Literal["padded", "packed"]


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """The tensors of one forward pass.

    What a target token's loss needs depends on the hidden state before it and on its id alone: on its *prediction*. Packed rows
    that share both have one prediction together.

    Attributes:
        rows: indices into the list of rows, in the order of their target tokens.
        ids: int64 (B, L), right-padded, or (1, T) packed.
        positions: int64 (1, L) or (1, T); (3, B, L) of rows with pictures.
        forest: the segments of packed rows; None when padded (padding comes after every real token, so a causal model
            does not attend to it).
        before: int64 (P,), place in the flattened ``ids`` of the token before each prediction's.
        target: int64 (P,), the predicted token.
        prediction: int64 (N,), the prediction of every target token of the rows; None if each has its own, in order.
        first: int64 (P,), NumPy: the first target token with each prediction; None as above.
        pictures: the pictures of all rows as the model takes them; {} without any.
    """

    rows: list[int]
    ids: Any
    positions: Any
    forest: PackedForest | None
    before: Any
    target: Any
    prediction: Any = None
    first: NDArray[np.int64] | None = None
    pictures: dict[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Number of tokens that the forward pass computes, padding included."""
        return int(self.ids.numel())

    def by_target(self, values: Any) -> Any:
        """Convert prediction indices (P,) to target-token indices (N,)."""
        return values if self.prediction is None else values.index_select(0, self.prediction)


def plan_rows(rows: Sequence[Row], budget: int, packing: Packing) -> list[list[int]]:
    """Indices of the rows of every micro-batch, each of at most ``budget`` tokens that are computed.

    A longer row gets a micro-batch of its own, or when packed one with rows that are its prefixes. The largest micro-batch comes
    first, so that a budget too large for the memory fails at once.

    Raises:
        ConfigError: the budget is not positive.
    """
    if packing == "padded":
        return plan([len(row) for row in rows], budget)
    return plan_packed([row.ids for row in rows], _positive(budget))


def _positive(budget: int) -> int:
    if budget < 1:
        raise ConfigError(f"a token budget must be positive, got {short_repr(budget)}")
    return budget


def plan(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of the sequences of every padded micro-batch, each of at most ``budget`` tokens with padding, longest first.

    A longer sequence gets a micro-batch of its own.

    Raises:
        ConfigError: the budget is not positive.
    """
    _positive(budget)
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > budget:
            batches.append([])
        batches[-1].append(i)
    return batches


def to_batch(rows: Sequence[Row], chosen: Sequence[int], device: Any, packing: Packing = "padded") -> MicroBatch:
    """The tensors of one micro-batch.

    Raises:
        ConfigError: rows with pictures are to be packed.
        DataError: a row has another number of image tokens than its pictures stand for.
    """
    members = [rows[i] for i in chosen]
    target = np.concatenate([row.ids[row.target] for row in members])
    pictures = [picture for row in members for picture in row.pictures]
    if packing == "packed" and pictures:
        raise ConfigError("rows with pictures cannot be packed: use update.packing=padded")
    if packing == "packed":
        return _packed(members, list(chosen), target, device)
    length = max(map(len, members))
    ids = np.zeros((len(members), length), np.int64)
    for r, row in enumerate(members):
        ids[r, : len(row)] = row.ids
    before = np.concatenate([r * length + row.target - 1 for r, row in enumerate(members)])
    positions = torch.arange(length, device=device)[None, :]
    if pictures:
        of_rows = np.zeros((3, len(members), length), np.int64)
        for r, row in enumerate(members):
            of_rows[:, r, : len(row)] = rope_positions(row.ids, row.pictures)
        positions = _move(of_rows, device)
    return MicroBatch(
        list(chosen),
        _move(ids, device),
        positions,
        None,
        _move(before, device),
        _move(target, device),
        pictures=picture_tensors(pictures, device),
    )


def _packed(members: Sequence[Row], chosen: list[int], target: NDArray[Any], device: Any) -> MicroBatch:
    forest = Forest.of([row.ids for row in members])
    before = np.concatenate([places[row.target - 1] for row, places in zip(members, forest.places, strict=True)])
    keys = before << 32 | target.astype(np.int64)
    _, first, prediction = np.unique(keys, return_index=True, return_inverse=True)
    return MicroBatch(
        chosen,
        _move(forest.ids, device)[None],
        _move(forest.positions, device)[None],
        PackedForest(forest, device),
        _move(before[first], device),
        _move(target[first], device),
        _move(prediction, device),
        first,
    )


def _move(array: NDArray[Any], device: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(device)


def batches_of(rows: Sequence[Row], budget: int, device: Any, packing: Packing = "padded") -> Iterator[MicroBatch]:
    """All rows, micro-batch by micro-batch."""
    for chosen in plan_rows(rows, budget, packing):
        yield to_batch(rows, chosen, device, packing)


def split_by_row(values: Any, batch: MicroBatch, rows: Sequence[Row]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Split a float (N,) tensor over a micro-batch's target tokens into the float32 arrays of its rows, by row index."""
    sizes = [len(rows[i].target) for i in batch.rows]
    flat = values.float().cpu().numpy()
    yield from zip(batch.rows, np.split(flat, np.cumsum(sizes)[:-1]), strict=True)
