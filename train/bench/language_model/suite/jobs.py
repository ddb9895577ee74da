"""The jobs of the suite, each a pure function of plain arguments: warm-up, learning, one-step metrics, floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.train.bench.language_model.suite.floors import more_imitation, sharper_samplers
from creditflow.train.bench.language_model.suite.learning import assess, reinforce
from creditflow.train.bench.language_model.suite.one_step import measure_one_step
from creditflow.train.bench.language_model.suite.setting import open_setting, parameters_text, save_parameters
from creditflow.train.bench.language_model.suite.warmup import demonstrated_states, imitate
from creditflow.train.bench.language_model.suite.work import LanguageModelWork

__all__ = ["floors", "learn", "one_step", "warm_up"]


def warm_up(family: str, seed: int, work: LanguageModelWork, device: str, file: str = "") -> dict[str, Any]:
    """The warm-up from which all methods of a seed start: its ``parameters``, evaluations, loss, and ``tokens`` processed.

    Args:
        family, seed, work, device: as for ``open_setting``.
        file: path to write the parameters to, whose name the result then has in their place.
    """
    setting, size = open_setting(family, work, seed, device), work.warm_up[family]
    policy, rng = setting.policy, np.random.default_rng([seed, 1])
    visited = demonstrated_states(setting.pool, size.episodes, size.noise, rng)

    def enough() -> bool:
        evaluated = assess(setting.evaluated_policies()["train"])
        policy.model.train()
        return float(np.mean(evaluated["sampled"])) >= size.until

    loss = imitate(policy, visited, size, size.steps, rng, enough=enough if size.until else None)
    evaluated = {name: assess(one) for name, one in setting.evaluated_policies().items()}
    if file:
        save_parameters(setting.model, Path(file))
    parameters = Path(file).name if file else parameters_text(setting.model)
    return {"parameters": parameters, "loss": loss, "tokens": policy.tokens, **evaluated}


def learn(
    family: str, seed: int, method: str, work: LanguageModelWork, device: str, parameters: str
) -> list[dict[str, Any]]:
    """The learning curve of one method from the warm-up of its seed."""
    setting = open_setting(family, work, seed, device, parameters)
    return reinforce(setting, method, work.learning, seed)


def one_step(
    family: str, seed: int, methods: Sequence[str], work: LanguageModelWork, device: str, parameters: str
) -> dict[str, Any]:
    """M1, M2 and M3 of all methods at the warm-up of a seed."""
    setting = open_setting(family, work, seed, device, parameters)
    return measure_one_step(setting, methods, work.one_step, work.learning, seed)


def floors(
    family: str,
    seed: int,
    work: LanguageModelWork,
    device: str,
    parameters: str,
    tokens: int,
    entropies: Mapping[str, float],
) -> dict[str, Any]:
    """The floors of a seed: more imitation with as many tokens as reinforcement learning, and lower temperatures."""
    setting = open_setting(family, work, seed, device, parameters)
    samplers = sharper_samplers(setting, entropies)
    return {"imitation": more_imitation(setting, work.warm_up[family], tokens, seed), **samplers}
