"""Sampled tokens of a trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = ["Tokens"]


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a trajectory as sampled, never re-encoded.

    Attributes:
        ids: int32 (L,), every token of the append-only history; with a windowed history, the model's tokens only.
        mask: bool (L,), True where the model sampled the token.
        logprobs: float32 (L,), the sampler's log-probability, 0 where ``mask`` is False.
        turn_offsets: int32 (T+1,); turn t has positions ``turn_offsets[t]:turn_offsets[t+1]``.
        prompts: int32 prompt ids of each turn with a windowed history; else ().
        policy_version: version of the sampler's weights.
        values: float32 (L+1,) per name: annotations of the history before each token and after the last one; meaningful
            where ``mask`` is True, and at the end.
        pictures: for every turn the pictures in its part of ``ids``, or with a windowed history in its prompt; () without any.
            Logs name them (``Turn.images``); tokens that were read from a log have none.

    A branch's ids begin with its parent's tokens up to the fork, masked out: ``turn_offsets[0]`` is their number.

    Raises:
        TrajectoryError: arrays of different lengths, or offsets that fall or leave the ids.
    """

    ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn_offsets: NDArray[np.int32]
    prompts: tuple[NDArray[np.int32], ...] = ()
    policy_version: str = ""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    pictures: tuple[tuple[EncodedPicture, ...], ...] = ()

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(self.mask) != n or len(self.logprobs) != n:
            raise TrajectoryError(
                f"tokens: ids, mask and logprobs must have one length, got {n}, {len(self.mask)}, {len(self.logprobs)}"
            )
        steps = np.diff(self.turn_offsets)
        if not len(self.turn_offsets) or self.turn_offsets[0] < 0 or self.turn_offsets[-1] > n or (steps < 0).any():
            raise TrajectoryError(f"tokens: turn_offsets must rise within 0..{n}, got {list(self.turn_offsets)[:8]}…")
        if len(self.pictures) not in (0, len(self.turn_offsets) - 1):
            raise TrajectoryError(
                f"tokens: there must be pictures of every turn or none, got {len(self.pictures)} for {len(steps)} turns"
            )
        for name, values in self.values.items():
            if values.shape != (n + 1,):
                raise TrajectoryError(
                    f"tokens: values {name!r} of {n} tokens must be {n + 1} numbers, got {len(values)}"
                )

    def written(self) -> list[NDArray[np.int64]]:
        """For every turn the positions in ``ids`` of the tokens that the model sampled in it, ascending."""
        spans = pairwise(self.turn_offsets.tolist())
        return [start + np.flatnonzero(self.mask[start:stop]) for start, stop in spans]

    @property
    def picture_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of the pictures of every turn."""
        return tuple(tuple(map(attrgetter("name"), turn)) for turn in self.pictures)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokens):
            return NotImplemented
        return (
            self.policy_version == other.policy_version
            and len(self.prompts) == len(other.prompts)
            and all(np.array_equal(a, b) for a, b in zip(self.prompts, other.prompts, strict=True))
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("ids", "mask", "logprobs", "turn_offsets")
            )
            and self.picture_names == other.picture_names
            and self.values.keys() == other.values.keys()
            and all(np.array_equal(self.values[name], other.values[name]) for name in self.values)
        )
