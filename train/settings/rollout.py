"""Settings of rollouts and of the sampler. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least
from creditflow.train.settings.branching import BranchConfig
from creditflow.train.settings.update import UpdateConfig

__all__ = ["WAVE", "GenerationConfig", "RolloutConfig", "check_staleness"]

WAVE: Final = 256  # episodes that an evaluation plays at the same time where nothing else bounds them


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """Sampling of training episodes.

    Attributes:
        tasks: groups per iteration.
        group_size: episodes per group.
        concurrent_groups: groups that are played at the same time, each such batch to its end (0: all); bounds the memory of
            "transformers" (vLLM bounds its own), also in evaluations, which play as many episodes at the same time as a rollout.
            Groups are the same, but for rounding.
        temperature: sampling temperature.
        top_p, top_k: truncation of the distribution (1 and 0: none); the update then renormalises every policy over the
            tokens that were kept, see ``policy/nucleus.py``.
        max_new_tokens: longest completion in tokens.
        max_turns, max_tokens: budgets per episode (0: only those of the environment).
        dynamic_sampling: drop groups whose outcomes are all equal and sample again instead.
        resample: of which task: "other", drawn anew (DAPO), or the "same" whose group was dropped.
        variance_share: RAGEN-2's filter, which trains only the groups whose returns vary most. Groups are taken in descending order
            of their standard deviation until they have this share of the sum (RAGEN-2 recommends 0.9). 1 trains all groups, and so
            does an iteration in which no group varies.
        attempts: largest number of sampling rounds per iteration; the groups of the last are always kept.
        dtype: dtype of the sampling copy ("same": that of the trained weights; transformers then samples from them directly).
        cache: "dynamic", or "static" (fixed shapes, for GPUs).
        compile: compile the one-token step (static cache only).
        branching: branch episodes where the policy's entropy is high.
        asynchronous: every episode goes on as soon as its own completion and step are there, instead of all taking their
            turns together, and environments are stepped while others generate. The groups are the same, but the last bits of their
            log-probabilities depend on timing, as the batches do. vLLM then runs as its asynchronous
            engine, in a process of its own, whose samples depend on timing; "transformers" continues whatever episodes wait, which
            pays where environments are slow. Default: with vLLM.
        env_threads: number of environments that are stepped at the same time, if ``asynchronous``.
        max_staleness: k: groups are sampled while the policy is updated, by weights that are k iterations behind (fewer in
            the first k). The update corrects for it by ``update.loss.importance_cap``, or, with
            ``update.old_logprobs: sampler``, by its ratios. "transformers" then keeps k copies of the weights.
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
    cache: Literal["dynamic", "static"] = "dynamic"
    compile: bool = False
    branching: BranchConfig = field(default_factory=BranchConfig)
    asynchronous: bool | None = None
    env_threads: int = 8
    max_staleness: int = 0

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
        require_at_least(self, 0, "concurrent_groups", "max_turns", "max_tokens", "max_staleness")
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
    """The sampler of episodes, in training and in evaluation.

    Attributes:
        backend: "transformers" samples from the trained weights themselves (or a copy of another dtype); "vllm" is a
            separate engine, whose weights are replaced and checked after every update. Its samples depend on batch
            composition and caching, so only "transformers" repeats a run bit by bit.
        vllm: settings of that engine.
    """

    backend: Literal["transformers", "vllm"] = "transformers"
    vllm: VllmConfig = field(default_factory=VllmConfig)


def check_staleness(rollout: RolloutConfig, generation: GenerationConfig, update: UpdateConfig) -> None:
    """Check that rollouts can be sampled ahead of the update.

    Raises:
        ConfigError: the sampler cannot run during an update, or the update would not correct for older weights.
    """
    if not rollout.max_staleness:
        return
    if generation.backend == "vllm" and (rollout.max_staleness > 1 or not rollout.asynchronous):
        raise ConfigError(
            "with generation.backend: vllm rollout.max_staleness must be 0 or 1, because the engine has one version of the weights, "
            "and 1 needs rollout.asynchronous: true, because only this engine runs outside the trainer's process"
        )
    if generation.backend == "vllm" and generation.vllm.sleep:
        raise ConfigError(
            "generation.vllm.sleep stops the sampler during updates, but rollout.max_staleness samples then; use only one of them"
        )
    if rollout.compile:
        raise ConfigError("rollout.compile needs the main thread, but rollout.max_staleness samples in another one")
    if rollout.top_p < 1.0 or rollout.top_k:
        raise ConfigError(
            "rollout.max_staleness needs top_p=1 and top_k=0: older weights would truncate to other tokens than those of the update"
        )
    if update.old_logprobs == "trainer" and not update.loss.importance_cap:
        raise ConfigError(
            "rollout.max_staleness samples from older weights and needs a correction for it: set "
            "update.loss.importance_cap above 0 (2 is usual), or update.old_logprobs: sampler"
        )
