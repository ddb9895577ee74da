"""The ranks of a run, and their collective operations.

Small values are exchanged as JSON, which needs no pickle and repeats every float exactly; tensors are summed by ``torch``. Every
method is called by all ranks in the same order. With one rank, a method returns what it was given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from creditflow.train.run.failures import DivergedError

__all__ = ["ALONE", "World"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """All ranks of a run, as one of them sees them.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks.
        shard: whether weights, gradients and moments are divided over the ranks.
    """

    rank: int = 0
    size: int = 1
    shard: bool = False

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether there is no other rank."""
        return self.size == 1

    def own_part(self, items: Sequence[T]) -> list[T]:
        """The items of this rank: every ``size``-th one."""
        return list(items) if self.alone else list(items[self.rank :: self.size])

    def gather(self, value: Any) -> list[Any]:
        """The JSON values of all ranks, by rank."""
        if self.alone:
            return [value]
        import torch
        import torch.distributed as dist

        own = torch.frombuffer(bytearray(json.dumps(value, separators=(",", ":")).encode("ascii")), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(own)]))
        lengths = [int(size) for size in sizes]
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[: len(own)] = own
        texts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(texts, padded)
        return [json.loads(text[:n].numpy().tobytes()) for text, n in zip(texts, lengths, strict=True)]

    def total(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Sums over the ranks by name; a rank may lack a name."""
        return _merged(self.gather(dict(numbers)), lambda a, b: a + b)

    def largest(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Maxima over the ranks by name; a rank may lack a name."""
        return _merged(self.gather(dict(numbers)), max)

    def count(self, own: int) -> int:
        """The sum of a number over the ranks."""
        return sum(self.gather(own))

    def wait(self) -> None:
        """Wait until every rank has called this method."""
        self.gather(None)

    def run_on_first(self, action: Callable[[], Any]) -> None:
        """Run an action in the first rank; the others wait for its end."""
        if self.first:
            action()
        self.wait()

    def diverge_together(self, compute: Callable[[], T]) -> T:
        """Run a computation without communication in every rank; if it diverges in one, all raise its error.

        Raises:
            DivergedError: in every rank, with the message of the first that diverged and the trajectories of all.
        """
        if self.alone:
            return compute()
        error: DivergedError | None = None
        try:
            result = compute()
        except DivergedError as own:
            error = own
        found = [one for one in self.gather([str(error), error.trajectories] if error else None) if one]
        if found:
            raise DivergedError(found[0][0], [number for _, numbers in found for number in numbers]) from error
        return result


def _merged(parts: Sequence[Mapping[str, float]], combine: Callable[[float, float], float]) -> dict[str, float]:
    merged: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            merged[name] = combine(merged[name], value) if name in merged else value
    return merged


ALONE: Final = World()
