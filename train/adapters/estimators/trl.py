"""TRL's GRPO and RLOO: the method of its trainers that turns rewards into advantages, in a trainer around a tiny model.

creditflow bench --estimator creditflow.train.adapters.estimators.trl:grpo

The trainer samples one token for every rollout; its reward function returns the rollout's return. All groups of a batch must have
one size of at least 2, as TRL requires.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import require_modules
from creditflow.train.bench.estimators.contract import TurnRows

__all__ = ["RELEASED", "dr_grpo", "grpo", "require", "rloo"]

RELEASED = ("trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer")


def require() -> None:
    """Import TRL's trainers.

    Raises:
        MissingExtraError: TRL is not installed.
    """
    require_modules("TRL", "trl", *RELEASED)


def grpo(rows: TurnRows) -> NDArray[np.float64]:
    """GRPO with the default ``scale_rewards="group"``."""
    return _advantages("grpo", rows)


def dr_grpo(rows: TurnRows) -> NDArray[np.float64]:
    """GRPO with ``scale_rewards="none"``."""
    return _advantages("dr_grpo", rows)


def rloo(rows: TurnRows) -> NDArray[np.float64]:
    """RLOO with the default ``normalize_advantages=False``, without KL."""
    return _advantages("rloo", rows)


def _advantages(name: str, rows: TurnRows) -> NDArray[np.float64]:
    """float64 (N,): the advantage of its trajectory for every turn."""
    group = rows.group[rows.first]
    [size, *further_sizes] = np.unique(np.bincount(group)).tolist()
    if further_sizes or size < 2:
        raise ValueError(f"TRL needs groups of one size of at least 2, got sizes {sorted({size, *further_sizes})}")
    trainer, rewards = _trainer(name, int(size))
    rewards[:] = rows.returns.tolist()
    trainer.model.train()
    scored = trainer._generate_and_score_completions([{"prompt": "up"} for _ in rewards])
    per_trajectory: NDArray[np.float64] = scored["advantages"].cpu().numpy().astype(np.float64)
    return per_trajectory[rows.trajectory]


@lru_cache(maxsize=32)
def _trainer(name: str, size: int) -> tuple[Any, list[float]]:
    """A trainer with groups of a size, and the list from which its reward function reads."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    rewards: list[float] = []

    def recorded(completions: Any, **_: Any) -> list[float]:
        return rewards[: len(completions)]

    config = ScratchConfig(hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vocabulary=280, init=0.1)
    tokenizer = build_tokenizer(["up down left right"] * 4, config)
    folder = tempfile.mkdtemp(prefix="creditflow-trl-")  # TRL writes nothing into it before a checkpoint
    common: dict[str, Any] = {
        "output_dir": folder, "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True, "save_strategy": "no",
        "per_device_train_batch_size": size, "num_generations": size, "max_completion_length": 1, "beta": 0.0,
        "gradient_checkpointing": False,
    }  # fmt: skip
    arguments = {
        "reward_funcs": recorded,
        "train_dataset": Dataset.from_list([{"prompt": "up"}]),
        "processing_class": tokenizer,
    }
    model = build_model(config, tokenizer, seed=0)
    if name == "rloo":
        return RLOOTrainer(model, args=RLOOConfig(**common), **arguments), rewards
    scale = "none" if name == "dr_grpo" else "group"
    return GRPOTrainer(model, args=GRPOConfig(**common, scale_rewards=scale), **arguments), rewards
