"""Settings of the vLLM engine."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.envs.errors import ConfigError

__all__ = ["VllmConfig"]


@dataclass(frozen=True, kw_only=True)
class VllmConfig:
    """Settings of vLLM.

    Attributes:
        memory: fraction of a GPU's memory that vLLM may use, including the weights.
        kv_gib: size of the key-value cache in GiB; 0 uses what ``memory`` leaves free (on a CPU: 1).
        block_size: tokens per cache block; only full blocks of a prompt are kept for the next turn. 0 uses 32 on a CPU
            (vLLM's own 128 would keep nothing of short prompts) and vLLM's choice on a GPU.
        max_sequences: maximum number of concurrent sequences.
        max_context: maximum sequence length; 0 for the model's own limit.
        eager: do not compile or capture graphs: vLLM starts at once, but every token takes several times as long on a
            GPU. Always true on a CPU.
        sleep: free the GPU's memory while the policy is updated.
        tolerance: allowed difference of log-probabilities between sampler and trained model on the probe after new
            weights were loaded: the maximum if the sampler computes in float32 (0: 1e-3), otherwise the mean (0: 0.1,
            or three times what that dtype does to the trained model's own numbers).
    """

    memory: float = 0.4
    kv_gib: float = 0.0
    block_size: int = 0
    max_sequences: int = 256
    max_context: int = 0
    eager: bool = False
    sleep: bool = False
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.memory <= 1.0 or self.kv_gib < 0.0 or self.tolerance < 0.0:
            raise ConfigError(
                "memory must lie in (0, 1], kv_gib and tolerance must not be negative; got "
                f"{self.memory}, {self.kv_gib}, {self.tolerance}"
            )
        if self.block_size < 0 or self.max_context < 0 or self.max_sequences < 1:
            raise ConfigError(
                "block_size and max_context must not be negative, max_sequences must be at least 1; got "
                f"{self.block_size}, {self.max_context}, {self.max_sequences}"
            )
