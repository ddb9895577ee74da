"""Settings of ``creditflow train --engine verl`` alone. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least

__all__ = ["VerlConfig"]


@dataclass(frozen=True, kw_only=True)
class VerlConfig:
    """The machines on which verl trains, and verl's own settings; creditflow's own trainer reads none of it.

    Attributes:
        gpus: GPUs of a node that are used.
        nodes: number of nodes; more than one needs ``ray``.
        tensor_parallel: GPUs over which one sampler's weights are divided.
        ray: address of a running Ray cluster, such as "auto"; "" starts one on this node and stops it afterwards.
        options: settings of verl by their full dotted names, such as
            {"actor_rollout_ref.actor.fsdp_config.param_offload": true}. They replace what is translated.
    """

    gpus: int = 8
    nodes: int = 1
    tensor_parallel: int = 1
    ray: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_at_least(self, 1, "gpus", "nodes", "tensor_parallel")
        if self.gpus % self.tensor_parallel:
            raise ConfigError(f"verl.tensor_parallel must divide verl.gpus, got {self.tensor_parallel} and {self.gpus}")
        if self.nodes > 1 and not self.ray:
            raise ConfigError(
                f"verl.nodes={self.nodes} needs a Ray cluster: run `ray start --head` on one node, `ray start --address=…` on "
                "the others, and set verl.ray=auto"
            )
