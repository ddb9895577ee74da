"""Task families of the language-model suite: generated tasks, split into three sets, each small enough for exact tables.

A family fixes everything but the seed of a run: environment, prompt, dialect, network and tokenizer. The board is the full
state, and a prompt shows nothing else, so a language model is a policy on the states of ``FiniteMDP``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import numpy as np

import creditflow
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import unknown_name_error
from creditflow.envs.tasks import Task
from creditflow.train.settings.model import ModelConfig, ScratchConfig
from creditflow.train.settings.schema import EnvConfig, RolloutConfig, TrainConfig

__all__ = ["FAMILIES", "Family", "Split", "family_settings", "family_tasks", "open_family"]

Split = Literal["train", "valid", "test"]
SPLITS: Final = (
    "test",
    "valid",
    "train",
)  # in the order of generation: a larger training split leaves the others unchanged
MAX_TASKS: Final = 512  # of a split
HORIZON: Final = 20
# a symbol with its offset is one token, and so is an action; x is a symbol (a pit)
PATTERN: Final = " ?[^ a-wyz](?:[ud][0-9])?(?:[lr][0-9])?|[a-z]+| ?."


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks of one environment, and the network that learns them.

    Attributes:
        name: name of the family.
        env: name of the environment.
        options: arguments of the environment.
        network: the model, trained from scratch.
    """

    name: str
    env: str
    options: Mapping[str, Any]
    network: ScratchConfig = field(
        default_factory=lambda: ScratchConfig(
            hidden=64,
            layers=2,
            heads=4,
            kv_heads=2,
            intermediate=128,
            vocabulary=1024,
            pattern=PATTERN,
            positions=64,
            init=0.1,
        )
    )


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "sokoban": Family(
            "sokoban",
            "sokoban",
            {
                "generator": {"height": 6, "width": 6, "boxes": 1, "min_length": 3, "max_length": 12},
                "max_steps": HORIZON,
                "symbols": "ascii",
                "separator": "",
            },
        ),
        "pits": Family("pits", "grid-pits", {"max_steps": HORIZON}),
    }
)


def open_family(name: str) -> Family:
    """A family by name.

    Raises:
        ConfigError: an unknown name; suggests the nearest one.
    """
    if name not in FAMILIES:
        raise unknown_name_error("task family", name, FAMILIES)
    return FAMILIES[name]


@lru_cache(maxsize=16)
def family_tasks(name: str, split: Split, count: int, seed: int = 0) -> tuple[Task, ...]:
    """The first ``count`` tasks of a split; no two tasks of a seed, in one split or in two, are equal up to symmetry.

    Args:
        name: name of the family.
        split: which tasks.
        count: number of tasks.
        seed: seed of the generator; every seed has other tasks.
    """
    return _splits(name, seed)[split][:count]


@lru_cache(maxsize=4)
def _splits(name: str, seed: int) -> Mapping[str, tuple[Task, ...]]:
    family = open_family(name)
    seen, splits = set[str](), dict[str, tuple[Task, ...]]()
    for number, split in enumerate(SPLITS):
        chosen = list[Task]()
        for task in _endless(family, [seed, number]):
            if task.canonical_id not in seen:
                seen.add(task.canonical_id)
                chosen.append(task)
            if len(chosen) == MAX_TASKS:
                break
        splits[split] = tuple(chosen)
    return splits


def _endless(family: Family, seed: list[int]) -> Any:
    """Yield generated tasks endlessly."""
    if family.env.startswith("grid-"):
        from creditflow.train.bench.exact.grid_layouts import generate_layout, layout_task

        kind, number = family.env.removeprefix("grid-"), 0
        while True:
            yield layout_task(family.env, generate_layout(kind, np.random.default_rng([*seed, number])))
            number += 1
    source, rng = bare_env(family).tasks, np.random.default_rng(seed)
    while True:
        yield source.sample(rng)


def bare_env(family: Family) -> AgentEnv[Any, Any, Any]:
    """The family's environment without wrappers."""
    return cast("AgentEnv[Any, Any, Any]", creditflow.make(family.env, **family.options).unwrapped)


def family_settings(family: Family, *, device: str = "cpu") -> TrainConfig:
    """The family as settings of ``creditflow train``, for a training run of the same model on sampled episodes."""
    return TrainConfig(
        out="",
        device=device,
        env=EnvConfig(name=family.env, options=dict(family.options)),
        model=ModelConfig(scratch=family.network),
        prompting=PromptingConfig(prompt="around-v1", dialect="bare", history="window", window=0),
        rollout=RolloutConfig(max_new_tokens=1),
    )
