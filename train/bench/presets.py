"""Benchmark sizes, for tasks with exact values that share a policy and for tasks that are played through their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["PRESETS", "PlayedWork", "Preset", "SharedWork"]


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
        played: sizes of the suites that are played through an environment.
        annotated: whether the schemes that read annotations get them when no schemes are named.
        schemes: the schemes compared when none are named; empty: all registered ones.
    """

    shared: SharedWork
    played: PlayedWork
    annotated: bool = False
    schemes: tuple[str, ...] = ()


PRESETS: Mapping[str, Preset] = {
    "smoke": Preset(
        shared=SharedWork(units=2, train=16, held_out=4, groups=16, updates=4, every=2, kinds=("pits", "fresh")),
        played=PlayedWork(3, 4, 4, 2),
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
        played=PlayedWork(6, 8, 12, 2),
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
        played=PlayedWork(60, 8, 60, 10),
        annotated=True,
    ),
    # does the order of methods depend on the optimiser? tests/evidence/families, and settings/protocol.py, which varies more
    "protocol": Preset(
        shared=SharedWork(units=6, train=32, held_out=16, groups=48, updates=30, every=10, kinds=("pits", "sokoban")),
        played=PlayedWork(12, 8, 10, 4, rates=(0.1, 0.4)),
        schemes=("grpo", "gigpo", "graphgpo", "hgpo", "rewardflow", "grouptd"),
    ),
}
