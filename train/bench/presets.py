"""Benchmark sizes, for tasks with exact values and for tasks that can only be played through their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["PRESETS", "ExactWork", "PlayedWork", "Preset", "SharedWork"]


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
        rates: learning rates of Adam, with each of which all methods are trained once more.
    """

    tasks: int
    size: int
    iterations: int
    seeds: int
    kl: float = 0.01
    rates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedWork:
    """Sizes for many tasks that share one policy. The standard setting is 16 tasks × 8 rollouts, local features, J0 .25.

    Attributes:
        units: number of layout seeds, each with tasks of its own.
        train, held_out: number of tasks that are trained on (more if an update has more), and that are only evaluated.
        groups: number of groups sampled per layout seed for the metrics.
        updates: number of updates of a learning curve.
        every: updates between two measured points.
        kinds: kinds of task in the standard setting.
        aggregations, features, batches, sizes: values that are varied, one at a time.
        kl: KL divergence of each update, in nats per turn.
    """

    units: int
    train: int
    held_out: int
    groups: int
    updates: int
    every: int
    kinds: tuple[str, ...]
    aggregations: tuple[Literal["token_mean", "trajectory_mean"], ...] = ()
    features: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    kl: float = 0.003


@dataclass(frozen=True, slots=True)
class Preset:
    """Sizes of all suites.

    Attributes:
        shared: sizes of the suite whose tasks share a policy.
        grids, sokoban: sizes of the two suites that have tables.
        played: sizes of all other suites.
        log: number of groups in the recorded log of a suite with tables.
        annotated: whether the schemes that read annotations get them when no schemes are named.
        schemes: the schemes compared when none are named; empty: all registered ones.
        envs: suites that are measured when none are named, separated by commas.
    """

    shared: SharedWork
    grids: ExactWork
    sokoban: ExactWork
    played: PlayedWork
    log: int
    annotated: bool = False
    schemes: tuple[str, ...] = ()
    envs: str = "shared,sokoban,grids"

    def exact(self, suite: str) -> ExactWork:
        """The sizes of a suite that has tables."""
        return self.grids if suite == "grids" else self.sokoban


PRESETS: Mapping[str, Preset] = {
    "smoke": Preset(
        shared=SharedWork(units=2, train=16, held_out=4, groups=16, updates=4, every=2, kinds=("pits", "fresh")),
        grids=ExactWork((0.5,), (8,), 2, {8: 12}, {8: 4}),
        sokoban=ExactWork((0.5,), (8,), 2, {8: 8}, {8: 4}),
        played=PlayedWork(3, 4, 4, 2),
        log=4,
    ),
    "quick": Preset(
        shared=SharedWork(
            units=4,
            train=48,
            held_out=16,
            groups=96,
            updates=30,
            every=5,
            kinds=("pits", "slip", "alias", "fresh", "sokoban"),
        ),
        grids=ExactWork((0.1, 0.5, 0.9), (4, 16), 4, {4: 32, 16: 20}, {4: 20, 16: 14}),
        sokoban=ExactWork((0.1, 0.5), (8,), 4, {8: 20}, {8: 16}),
        played=PlayedWork(6, 8, 12, 2),
        log=16,
    ),
    "full": Preset(
        shared=SharedWork(
            units=10,
            train=64,
            held_out=32,
            groups=512,
            updates=60,
            every=10,
            kinds=("open", "pits", "slip", "alias", "fresh", "sokoban"),
            aggregations=("trajectory_mean",),
            features=("additive", "table"),
            batches=(1, 4, 64),
            sizes=(4, 64),
        ),
        grids=ExactWork(
            (0.1, 0.5, 0.9), (4, 8, 16, 64), 50, {4: 60, 8: 50, 16: 30, 64: 12}, {4: 60, 8: 60, 16: 40, 64: 30}
        ),
        sokoban=ExactWork((0.1, 0.5, 0.9), (8, 16), 50, {8: 20, 16: 12}, {8: 30, 16: 24}),
        played=PlayedWork(60, 8, 60, 10),
        log=60,
        annotated=True,
    ),
    # does the order of methods depend on the optimiser? tests/evidence/families, and settings/protocol.py, which varies more
    "protocol": Preset(
        shared=SharedWork(
            units=6,
            train=32,
            held_out=16,
            groups=48,
            updates=30,
            every=10,
            kinds=("pits", "sokoban"),
        ),
        grids=ExactWork((0.25,), (8,), 10, {8: 20}, {8: 30}),
        sokoban=ExactWork((0.25,), (8,), 10, {8: 20}, {8: 30}),
        played=PlayedWork(12, 8, 10, 4, rates=(0.1, 0.4)),
        log=16,
        schemes=("grpo", "gigpo", "graphgpo", "hgpo", "rewardflow", "grouptd"),
        envs="shared",
    ),
}
