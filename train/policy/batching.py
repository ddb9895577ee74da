"""Micro-batches by token budget: rows sorted by length and padded, or packed into one sequence each.

Both give the same numbers; which is faster depends on the variation of lengths and on the attention kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.policy.samples import Row

__all__ = ["MicroBatch", "Packing", "batches_of", "plan", "split_by_row", "to_batch"]

Packing = Literal["padded", "packed"]


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """The tensors of one forward pass.

    Attributes:
        rows: indices into the list of rows, in the order of their tokens below.
        ids, positions: int64 (B, L); positions (1, L) when padded.
        mask: bool (1, 1, L, L) block-diagonal and causal when packed; None when right-padded (padding comes after
            every real token, so a causal model does not attend to it).
        target_row, target_position: int64 (N,), row and column of each target token in ``ids``.
    """

    rows: list[int]
    ids: Any
    positions: Any
    mask: Any
    target_row: Any
    target_position: Any


def plan(lengths: Sequence[int], budget: int, packing: Packing = "padded") -> list[list[int]]:
    """Indices of the rows of every micro-batch, each of at most ``budget`` tokens, padding included.

    A row longer than the budget gets a micro-batch of its own. Rows are sorted by length, longest first, so that a
    budget too large for the memory fails at once.

    Raises:
        ConfigError: the budget is not positive.
    """
    if budget < 1:
        raise ConfigError(f"a token budget must be positive, got {short_repr(budget)}")
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    if packing == "packed":
        return _first_fit(order, lengths, budget)
    batches: list[list[int]] = []
    for i in order:
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > budget:
            batches.append([])
        batches[-1].append(i)
    return batches


def _first_fit(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    batches: list[list[int]] = []
    room: list[int] = []
    for i in order:
        place = next((b for b, left in enumerate(room) if left >= lengths[i]), None)
        if place is None:
            batches.append([])
            room.append(budget)
            place = len(room) - 1
        batches[place].append(i)
        room[place] -= lengths[i]
    return batches


def to_batch(rows: Sequence[Row], chosen: Sequence[int], device: Any, packing: Packing = "padded") -> MicroBatch:
    """The tensors of one micro-batch."""
    members = [rows[i] for i in chosen]
    if packing == "packed":
        return _packed(members, list(chosen), device)
    length = max(map(len, members))
    ids = np.zeros((len(members), length), np.int64)
    for r, row in enumerate(members):
        ids[r, : len(row)] = row.ids
    target_position = np.concatenate([row.target for row in members])
    target_row = np.repeat(np.arange(len(members)), [len(row.target) for row in members])
    positions = torch.arange(length, device=device)[None, :]
    return MicroBatch(
        list(chosen), _move(ids, device), positions, None, _move(target_row, device), _move(target_position, device)
    )


def _packed(members: Sequence[Row], chosen: list[int], device: Any) -> MicroBatch:
    starts = np.cumsum([0, *map(len, members)])
    ids = np.concatenate([row.ids for row in members]).astype(np.int64)
    owner = np.repeat(np.arange(len(members)), [len(row) for row in members])
    positions = np.arange(len(ids)) - starts[owner]
    places = np.concatenate([row.target + start for row, start in zip(members, starts[:-1], strict=True)])
    seq, at = _move(owner, device), torch.arange(len(ids), device=device)
    mask = (seq[:, None] == seq[None, :]) & (at[None, :] <= at[:, None])
    return MicroBatch(
        chosen,
        _move(ids, device)[None],
        _move(positions, device)[None],
        mask[None, None],
        torch.zeros(len(places), dtype=torch.long, device=device),
        _move(places, device),
    )


def _move(array: NDArray[Any], device: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def batches_of(rows: Sequence[Row], budget: int, device: Any, packing: Packing = "padded") -> Iterator[MicroBatch]:
    """All rows, micro-batch by micro-batch."""
    for chosen in plan([len(row) for row in rows], budget, packing):
        yield to_batch(rows, chosen, device, packing)


def split_by_row(values: Any, batch: MicroBatch, rows: Sequence[Row]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Split a float (N,) tensor over a micro-batch's target tokens into the float32 arrays of its rows, by row index."""
    sizes = [len(rows[i].target) for i in batch.rows]
    flat = values.float().cpu().numpy()
    yield from zip(batch.rows, np.split(flat, np.cumsum(sizes)[:-1]), strict=True)
