"""Settings of rollouts and of the sampler. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least
from creditflow.train.settings.branching import BranchConfig

__all__ = ["WAVE", "GenerationConfig", "RolloutConfig"]

WAVE: Final = 256  # episodes that an evaluation plays at the same time where nothing else bounds them


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """Sampling of training episodes.

    Attributes:
        tasks: groups per iteration.
        group_size: episodes per group.
        concurrent_groups: groups to play at the same time; 0 plays all. This bounds the memory of "transformers" (vLLM
            bounds its own), in evaluations too. It changes episodes by rounding only.
        temperature: sampling temperature.
        top_p: sample from the smallest set of tokens with this probability; 1 uses all. The update renormalises every
            policy over the tokens that were kept (``policy/nucleus.py``).
        top_k: sample from the likeliest tokens only; 0 uses all. Renormalised like ``top_p``.
        max_new_tokens: maximum length of a completion in tokens.
        max_turns: maximum number of turns per episode; 0 for the environment's own limit.
        max_tokens: maximum number of tokens per episode; 0 for none.
        dynamic_sampling: drop groups in which all outcomes are equal, and sample others instead.
        resample: task of the new group: "other" samples one (DAPO), "same" tries the dropped group's again.
        variance_share: RAGEN-2's filter: train only on the groups whose returns vary most. Groups are taken in
            descending order of their standard deviation until they make up this share of the total (RAGEN-2 recommends
            0.9). 1 trains on all groups, and so does an iteration in which no group varies.
        attempts: maximum number of sampling rounds per iteration; the groups of the last round are always kept.
        dtype: dtype of the sampler's copy of the weights; "same" samples from the trained weights.
        branching: branch episodes where the policy's entropy is high.
        env_threads: number of environments to step at the same time; more than 1 pays if they wait for a server.
    """

    tasks: int = 16
    group_size: int = 8
    concurrent_groups: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 256
    max_turns: int = 0
    max_tokens: int = 0
    dynamic_sampling: bool = False
    resample: Literal["other", "same"] = "other"
    variance_share: float = 1.0
    attempts: int = 4
    dtype: Literal["same", "float32", "bfloat16"] = "same"
    branching: BranchConfig = field(default_factory=BranchConfig)
    env_threads: int = 1

    def __post_init__(self) -> None:
        if 0 < self.branching.max_trajectories <= self.group_size:
            raise ConfigError(
                f"branching.max_trajectories counts a group's {self.group_size} episodes too: {self.branching.max_trajectories} leaves no room"
            )
        if min(self.tasks, self.group_size, self.attempts) < 1:
            raise ConfigError(
                "rollout.tasks, rollout.group_size and rollout.attempts must be at least 1, got "
                f"{self.tasks}, {self.group_size} and {self.attempts}"
            )
        if not 0.0 < self.variance_share <= 1.0:
            raise ConfigError(f"rollout.variance_share must lie in (0, 1], got {self.variance_share}")
        if self.variance_share < 1.0 and (self.dynamic_sampling or self.group_size < 2):
            raise ConfigError(
                "rollout.variance_share drops groups, which rollout.dynamic_sampling would replace, and compares the episodes of a "
                "group: it needs dynamic_sampling: false and a group_size of at least 2, got "
                f"{str(self.dynamic_sampling).lower()} and {self.group_size}"
            )
        require_at_least(self, 0, "concurrent_groups", "max_turns", "max_tokens")
        require_at_least(self, 1, "env_threads")
        if not self.temperature > 0.0:
            raise ConfigError(f"temperature must be positive: a policy is trained by sampling; got {self.temperature}")

    @property
    def concurrent_episodes(self) -> int:
        """Largest number of episodes that are played at the same time."""
        groups = min(self.tasks, self.concurrent_groups or self.tasks)
        return groups * max(self.group_size, self.branching.max_trajectories)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """The sampler, in training and in evaluation.

    Attributes:
        backend: "transformers" samples from the trained weights (or a copy in another dtype). "vllm" is a separate
            engine, whose weights are replaced and checked after every update; its samples depend on batching and
            caching, so only "transformers" reproduces a run bit by bit.
        vllm: settings of vLLM.
    """

    backend: Literal["transformers", "vllm"] = "transformers"
    vllm: VllmConfig = field(default_factory=VllmConfig)
