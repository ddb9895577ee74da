"""The rollouts of a training run: sampled when an iteration asks for them, or ahead of the update."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from creditflow.agents.backends.base import TrainedBackend
from creditflow.agents.models.pictures import pictures_of
from creditflow.envs.tasks import Task
from creditflow.train.policy.checkpoint import Progress
from creditflow.train.policy.failures import sampling_memory_errors
from creditflow.train.rollout.ahead import OnTurn, RolloutsAhead, read_ahead, write_ahead
from creditflow.train.rollout.task_sampling import SampledGroups, sample_groups
from creditflow.train.run import assemble
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Scheme

__all__ = ["Rollouts"]


class Rollouts:
    """Samples the groups of every iteration.

    Args:
        settings: of the run.
        scheme: the credit scheme, which decides what is recorded.
        model: the policy.
        tokenizer: the policy's.
        tasks: tasks to sample from.
        backend: the run's sampler, which evaluations use too.

    Attributes:
        numbers: metrics of the last ``take``; with rollouts ahead ``staleness``, the number of iterations by which the
            sampling weights were behind (equal for all its episodes), ``sampling_seconds``, and those of the weight push
            with which a later iteration's sampling began.
    """

    def __init__(
        self,
        settings: TrainConfig,
        scheme: Scheme,
        model: Any,
        tokenizer: Any,
        tasks: Sequence[Task],
        backend: TrainedBackend,
    ) -> None:
        self._settings, self._tokenizer, self._tasks = settings, tokenizer, tasks
        self._backend, self._engine = backend, assemble.make_rollout_engine(settings, scheme)
        self._samplers = assemble.make_lagging_samplers(model, settings, backend)
        self._ahead: RolloutsAhead | None = None
        self._done = 0
        self.numbers: dict[str, float] = {}

    def begin(self, done: int, checkpoint: Path | None) -> None:
        """Start sampling ahead, if the run does.

        Args:
            done: number of finished iterations.
            checkpoint: the checkpoint of the run that is resumed; None at the beginning of RL.

        Raises:
            DataError: the checkpoint lacks the rollouts of the next iterations.
        """
        self._done = done
        lag, total = self._settings.rollout.max_staleness, self._settings.update.iterations
        if not lag:
            return
        self._ahead = RolloutsAhead(lag, total, refresh=self._refresh, sample=self._sample)
        ahead = max(0, min(lag, total - done))
        stored = {}
        if checkpoint is not None and done and ahead:
            encoder = pictures_of(self._tokenizer)
            stored = read_ahead(checkpoint, done, ahead, encoder.encode if encoder is not None else None)
        self._ahead.begin(done, stored)

    def take(self, iteration: int) -> SampledGroups:
        """The groups of an iteration."""
        if self._ahead is None:
            sampled = self._sample(0, iteration, None)
            self._backend.sleep()
            return sampled
        self.numbers = {}
        groups = self._ahead.take(iteration)  # refreshes a sampler, unless nothing more is sampled
        self.numbers |= {"staleness": float(iteration - groups.version), "sampling_seconds": groups.seconds}
        return groups.sampled

    def update(self, done: int) -> dict[str, float]:
        """After an update: the sampler takes the new weights, at once or when it needs them; returns its metrics."""
        self._done = done
        if self._ahead is None:
            return self._push(self._backend)
        return {}

    def prepare_evaluation(self) -> None:
        """Wait until nothing is being sampled ahead, and give the run's sampler the present weights."""
        if self._ahead is not None:
            self._ahead.settle()
            self._push(self._backend)

    def save(self, checkpoint: Path) -> None:
        """Write the groups of later iterations, once they are all there, into the folder of a checkpoint."""
        if self._ahead is not None:
            write_ahead(checkpoint, self._ahead.settle())

    def close(self) -> None:
        """End what is being sampled ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def _refresh(self, slot: int) -> None:
        self.numbers |= self._push(self._samplers[slot])

    def _push(self, sampler: TrainedBackend) -> dict[str, float]:
        """Give a sampler the present weights; returns the metrics of it."""
        with sampling_memory_errors(self._settings.generation):  # an engine that slept needs its memory again
            sampler.sync(Progress("rl", self._done).folder)
        return sampler.sync_numbers

    def _sample(self, slot: int, iteration: int, on_turn: OnTurn | None) -> SampledGroups:
        rollout = self._settings.rollout
        agent = assemble.make_policy_agent(
            self._settings, self._samplers[slot], self._tokenizer,
            temperature=rollout.temperature, top_p=rollout.top_p, top_k=rollout.top_k,
            entropies=rollout.branching.entropy_tokens if rollout.branching.max_trajectories else 0,
        )  # fmt: skip
        return sample_groups(
            self._engine, agent, self._tasks, rollout,
            seed=self._settings.seed, iteration=iteration, on_turn=on_turn,
        )  # fmt: skip
