"""The sizes of a run. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from creditflow.wrappers.credit.base import Aggregation

__all__ = ["WORK", "LanguageModelWork", "LearningWork", "NetworkSize", "TurnForm", "WarmUpWork"]


@dataclass(frozen=True, slots=True)
class TurnForm:
    """What a model reads and writes in one turn.

    Attributes:
        completion: the completions that are an action: "token", one token; "letters", its letters and an end token; "plan", two
            free moves and then the action, one token each. Any others are the invalid action.
        window: number of past actions that a prompt shows.
    """

    completion: Literal["token", "letters", "plan"] = "token"
    window: int = 0


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """The size of a network, instead of its family's.

    Attributes:
        hidden, layers, heads, kv_heads, intermediate: as in ``ScratchConfig``.
        init: standard deviation of the initial weights.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    init: float


@dataclass(frozen=True, slots=True)
class WarmUpWork:
    """The supervised warm-up.

    Attributes:
        episodes: demonstrated episodes.
        noise: fraction of random actions of the expert.
        steps: optimiser steps.
        batch: prompts per step.
        lr: peak learning rate.
        until: success on the evaluated training tasks at which the warm-up stops, looked at every tenth step; 0 takes all steps.
    """

    episodes: int
    noise: float
    steps: int
    batch: int = 64
    lr: float = 3e-3
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class LearningWork:
    """Reinforcement learning.

    Attributes:
        iterations: optimiser steps, one per batch of rollouts.
        tasks: groups per iteration, one per task.
        size: G, rollouts per group.
        lr: peak learning rate.
        points: number of exact evaluations along the curve, not counting that of the start.
        aggregation: loss aggregation, the same for every method.
        keys: "" for those of the environment; "merged", half of the states share their key with another one; "fresh", no key recurs.
        wrong: probability that the outcome of a rollout is reported wrongly.
    """

    iterations: int
    tasks: int
    size: int
    lr: float
    points: int
    aggregation: Aggregation = "token_mean"
    keys: Literal["", "merged", "fresh"] = ""
    wrong: float = 0.0


@dataclass(frozen=True, slots=True)
class LanguageModelWork:
    """All sizes of one run.

    Attributes:
        families: names of the task families.
        seeds: training runs per method.
        pool: number of training tasks, for demonstrations and reinforcement learning.
        evaluated: number of evaluated tasks, of the pool and of the held-out split each.
        split: the held-out split: "valid" while settings are chosen, "test" for the final run.
        warm_up: by family, size of the warm-up, with as many steps as lead to 20 to 40 % success.
        learning: sizes of reinforcement learning.
        methods: schemes and controls that train a model.
        size: size of the network; None for the family's.
        task_seed: seed of the tasks of all training runs; a benchmark run sets its own.
        form: what a model reads and writes in one turn.
    """

    families: tuple[str, ...]
    seeds: int
    pool: int
    evaluated: int
    split: str
    warm_up: Mapping[str, WarmUpWork]
    learning: LearningWork
    methods: tuple[str, ...]
    size: NetworkSize | None = None
    task_seed: int = 0
    form: TurnForm = TurnForm()


METHODS: Final = (
    *("grpo", "rloo", "gigpo", "graphgpo", "rewardflow", "hgpo", "g2po", "blend", "grouptd"),
    *("mt_ppo[linear]", "stateless", "oracle_adv"),
)

WORK: Final = LanguageModelWork(
    families=("sokoban", "pits"),
    seeds=10,
    pool=256,
    evaluated=48,
    split="test",
    warm_up={"sokoban": WarmUpWork(1000, 0.5, 90), "pits": WarmUpWork(1000, 0.5, 60)},
    learning=LearningWork(iterations=80, tasks=8, size=4, lr=5e-4, points=5),
    methods=METHODS,
)
