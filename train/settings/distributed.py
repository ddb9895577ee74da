"""Settings of a run with several processes. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.envs.errors import ConfigError

__all__ = ["DistributedConfig"]


@dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """Several processes, started by ``torchrun``; nothing here matters to one process.

    Attributes:
        shard: keep a part of the weights, gradients and moments in every process (FSDP2) instead of all in each.
        timeout_minutes: how long a process waits for the others; longer than their slowest rollout or evaluation.
    """

    shard: bool = False
    timeout_minutes: float = 60.0

    def __post_init__(self) -> None:
        if not self.timeout_minutes > 0.0:
            raise ConfigError(f"distributed.timeout_minutes must be positive, got {self.timeout_minutes}")
