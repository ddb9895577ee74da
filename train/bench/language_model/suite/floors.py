"""Floors: the success that is reached without reinforcement learning, by more imitation or by a lower sampling temperature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from creditflow.train.bench.language_model.suite.learning import assess
from creditflow.train.bench.language_model.suite.setting import Setting
from creditflow.train.bench.language_model.suite.warmup import demonstrated_states, imitate
from creditflow.train.bench.language_model.suite.work import WarmUpWork

__all__ = ["TEMPERATURES", "more_imitation", "sharper_samplers"]

TEMPERATURES: Final = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
BISECTIONS: Final = 12


def more_imitation(setting: Setting, work: WarmUpWork, tokens: int, seed: int) -> dict[str, Any]:
    """Continue the warm-up on newly sampled demonstrations until it has processed as many tokens as reinforcement learning.

    Both variants start from the warm-up: one imitates the same noisy expert, the other an expert without noise, so that the
    model learns the best actions and not the mixture that it started with.

    Args:
        setting: the family with the warm-up's model.
        work: sizes of the warm-up.
        tokens: number of tokens that reinforcement learning processed.
        seed: seed of the demonstrations.

    Returns:
        By variant (``same``, with the noise of the warm-up; ``clean``, without noise) the evaluations of ``assess`` by set of
        tasks, and the number of ``steps``.
    """
    rng = np.random.default_rng([seed, 21])
    start = {name: value.detach().clone() for name, value in setting.model.state_dict().items()}
    result: dict[str, Any] = {}
    for name, noise in (("same", work.noise), ("clean", 0.0)):
        setting.model.load_state_dict(start)
        visited = demonstrated_states(setting.pool, work.episodes, work.noise, rng)
        policy = setting.policy
        per_step = (
            3.0 * work.batch * float(np.mean([len(policy.tasks[task].prompts[state]) for task, state in visited]))
        )
        steps = max(round(tokens / per_step), 1)
        longer = WarmUpWork(work.episodes, noise, steps, work.batch, work.lr)
        imitate(policy, visited, longer, steps, rng)
        result[name] = {key: assess(evaluated) for key, evaluated in setting.evaluated_policies().items()} | {
            "steps": steps
        }
    setting.model.load_state_dict(start)
    return result


def sharper_samplers(setting: Setting, entropies: Mapping[str, float]) -> dict[str, Any]:
    """Evaluate the warm-up's model at other sampling temperatures.

    Args:
        setting: the family with the warm-up's model.
        entropies: by method, entropy (nats) per turn of the trained policy on the evaluated training tasks.

    Returns:
        Evaluations of ``assess`` with their ``temperature``: ``best``, of the temperature in ``TEMPERATURES`` with the highest
        success on the evaluated training tasks; ``matched``, by method, of the temperature that gives the method's entropy.
    """

    def evaluate(temperature: float) -> dict[str, Any]:
        sets = setting.evaluated_policies(temperature)
        return {name: assess(policy) for name, policy in sets.items()} | {"temperature": temperature}

    grid = [evaluate(temperature) for temperature in TEMPERATURES]
    best = max(grid, key=lambda one: float(np.mean(one["train"]["sampled"])))
    matched = {name: evaluate(_temperature_of(setting, entropy)) for name, entropy in entropies.items()}
    return {"best": best, "matched": matched}


def _temperature_of(setting: Setting, entropy: float) -> float:
    """The temperature in [0.05, 1] at which the model has this entropy per turn on the evaluated training tasks."""
    low, high = 0.05, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if assess(setting.evaluated_policies(middle)["train"])["entropy"] < entropy:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
