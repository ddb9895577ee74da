"""verl's estimators of outcome advantages (``verl.trainer.ppo.core_algos``): one row of tokens per trajectory.

creditflow bench --estimator creditflow.train.adapters.estimators.verl:grpo
creditflow bench --estimator creditflow.train.adapters.estimators.verl:released:opo
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, require_modules
from creditflow.train.bench.estimators.contract import EstimatorFunction, TurnRows

__all__ = ["RELEASED", "grpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "released", "require", "rloo"]

RELEASED = ("verl.trainer.ppo.core_algos",)


def require() -> None:
    """Import verl's estimators.

    Raises:
        MissingExtraError: verl is not installed.
    """
    require_modules("verl", "verl", *RELEASED)


def released(name: str) -> EstimatorFunction:
    """The estimator that verl has under a name, such as "opo".

    Raises:
        ConfigError: it has none.
    """
    require()
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    try:
        get_adv_estimator_fn(name)
    except ValueError as error:
        raise ConfigError(f"verl has no estimator {name!r}: {error}") from error
    return partial(_advantages, name)


def grpo(rows: TurnRows) -> NDArray[np.float64]:
    """GRPO with the standard deviation, as by default."""
    return _advantages("grpo", rows)


def rloo(rows: TurnRows) -> NDArray[np.float64]:
    """RLOO."""
    return _advantages("rloo", rows)


def reinforce_plus_plus(rows: TurnRows) -> NDArray[np.float64]:
    """REINFORCE++ with discount 1."""
    return _advantages("reinforce_plus_plus", rows)


def reinforce_plus_plus_baseline(rows: TurnRows) -> NDArray[np.float64]:
    """REINFORCE++-baseline."""
    return _advantages("reinforce_plus_plus_baseline", rows)


def _advantages(name: str, rows: TurnRows) -> NDArray[np.float64]:
    """float64 (M,): its advantage of every token; a turn's reward stands at the turn's last token."""
    import torch
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    lengths = np.bincount(rows.trajectory, rows.tokens).astype(np.int64)
    owner, position = np.repeat(np.arange(len(lengths)), lengths), np.arange(lengths.sum())
    position = position - np.repeat(np.cumsum(lengths) - lengths, lengths)
    mask = np.zeros((len(lengths), lengths.max()), np.float32)
    mask[owner, position] = 1.0
    rewards = np.zeros_like(mask)
    ends = np.cumsum(rows.tokens) - 1
    rewards[owner[ends], position[ends]] = rows.reward
    arguments: dict[str, Any] = {
        "token_level_rewards": torch.from_numpy(rewards), "response_mask": torch.from_numpy(mask),
        "index": rows.group[rows.first].astype(object), "config": AlgoConfig(gamma=1.0),
    }  # fmt: skip
    if name == "reinforce_plus_plus":
        del arguments["index"]
    advantages, _ = get_adv_estimator_fn(name)(**arguments)
    per_token: NDArray[np.float64] = advantages.numpy().astype(np.float64)[owner, position]
    return per_token
