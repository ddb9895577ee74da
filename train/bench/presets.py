"""Benchmark sizes, for tasks with exact values and for tasks that can only be played through their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PRESETS", "ExactWork", "PlayedWork", "Preset"]


@dataclass(frozen=True, slots=True)
class ExactWork:
    """Sizes for tasks that are known as tables. A cell is a kind of task × an initial success × a group size.

    Attributes:
        successes: J0, exact success rates of the initial policies.
        sizes: G, rollouts in a group.
        tasks: number of tasks per cell.
        groups: number of groups sampled per task for the metrics, by G.
        updates: turn budget of a learning curve, in groups of the initial policy's expected length, by G.
        kl: KL divergence of each update, in nats per turn.
    """

    successes: tuple[float, ...]
    sizes: tuple[int, ...]
    tasks: int
    groups: Mapping[int, int]
    updates: Mapping[int, int]
    kl: float = 0.001


@dataclass(frozen=True, slots=True)
class PlayedWork:
    """Sizes for tasks that are played through their environment.

    Attributes:
        tasks: number of tasks.
        size: G, rollouts per task and iteration.
        iterations: number of policy updates.
        seeds: number of training runs per method.
        kl: KL divergence of each update, in nats per turn.
    """

    tasks: int
    size: int
    iterations: int
    seeds: int
    kl: float = 0.01


@dataclass(frozen=True, slots=True)
class Preset:
    """Sizes of all suites.

    Attributes:
        grids, sokoban: sizes of the two suites that have tables.
        played: sizes of all other suites.
        log: number of groups in the recorded log of a suite with tables.
        variants: whether the named variants of schemes take part when no schemes are named.
    """

    grids: ExactWork
    sokoban: ExactWork
    played: PlayedWork
    log: int
    variants: bool = False

    def exact(self, suite: str) -> ExactWork:
        """The sizes of a suite that has tables."""
        return self.grids if suite == "grids" else self.sokoban


PRESETS: Mapping[str, Preset] = {
    "smoke": Preset(
        grids=ExactWork((0.5,), (8,), 2, {8: 12}, {8: 4}),
        sokoban=ExactWork((0.5,), (8,), 2, {8: 8}, {8: 4}),
        played=PlayedWork(3, 4, 4, 2),
        log=4,
    ),
    "quick": Preset(
        grids=ExactWork((0.1, 0.5, 0.9), (4, 16), 4, {4: 32, 16: 20}, {4: 20, 16: 14}),
        sokoban=ExactWork((0.1, 0.5), (8,), 4, {8: 20}, {8: 16}),
        played=PlayedWork(6, 8, 12, 2),
        log=16,
    ),
    "full": Preset(
        grids=ExactWork(
            (0.1, 0.5, 0.9), (4, 8, 16, 64), 50, {4: 60, 8: 50, 16: 30, 64: 12}, {4: 60, 8: 60, 16: 40, 64: 30}
        ),
        sokoban=ExactWork((0.1, 0.5, 0.9), (8, 16), 50, {8: 20, 16: 12}, {8: 30, 16: 24}),
        played=PlayedWork(60, 8, 60, 10),
        log=60,
        variants=True,
    ),
}
