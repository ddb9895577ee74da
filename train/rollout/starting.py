"""Starting episodes: whole groups, fresh episodes of a group, and branches of an episode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from creditflow.agents.base import Agent, Forking
from creditflow.envs.errors import CreditflowError
from creditflow.envs.tasks import Task
from creditflow.train.rollout.environment_errors import Failure, environment_errors
from creditflow.train.rollout.play import episode_rng
from creditflow.train.rollout.running import RolloutReport, RunningEpisode, RunningGroup
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["EpisodeStarter"]


@dataclass(frozen=True, slots=True)
class EpisodeStarter:
    """Starts the episodes of one call to ``play``.

    Attributes:
        seed, iteration, trial: seed the episodes' generators.
        report: where errors are added.
        branch_envs: environments of single episodes.
    """

    seed: int
    iteration: int
    trial: int
    report: RolloutReport
    branch_envs: Iterator[GroupEnv]

    def start_group(self, env: GroupEnv, task: Task) -> RunningGroup:
        """Start a task in every member; the group has no episodes if the environment cannot."""
        group_id = f"{task.task_id}#{self.iteration}" + (f".{self.trial}" if self.trial else "")
        with self._catching() as errors:
            starts = env.reset(task=dict(task.content), seed=self.seed, group_id=group_id, trial=self.trial)
        if errors:
            self.report.groups_failed_to_start += 1
            return RunningGroup(task, [])
        return RunningGroup(
            task,
            [
                RunningEpisode(member, *start, self._rng(task, i))
                for i, (member, start) in enumerate(zip(env.members, starts, strict=True))
            ],
        )

    def add_fresh_episode(self, group: RunningGroup) -> None:
        """Start one more episode of a group's task, from its beginning."""
        if group.closed:
            return
        env, replica = next(self.branch_envs), len(group.episodes)
        with self._catching() as errors:
            observation, info = env.start_extra_member(
                task=dict(group.task.content),
                group_id=group.group_id,
                replica=replica,
                seed=self.seed,
                trial=self.trial,
            )
        if errors:
            group.closed = True
            return
        group.episodes.append(RunningEpisode(env.members[0], observation, info, self._rng(group.task, replica)))

    def add_branch(self, group: RunningGroup, parent: RunningEpisode, agent: Agent) -> None:
        """Start an episode that continues ``parent`` from its present state."""
        if group.closed:
            return
        recorder, fork_turn = parent.recorder, parent.next_turn
        env, replica = next(self.branch_envs), len(group.episodes)
        with self._catching() as errors:
            env.start_branch(
                recorder.base.get_state(),
                task=dict(group.task.content),
                parent=recorder.identity["trajectory_id"],
                fork_turn=fork_turn,
                group_id=group.group_id,
                replica=replica,
                seed=self.seed,
                trial=self.trial,
            )
        if errors:
            group.closed = True
            return
        branch = RunningEpisode(
            env.members[0],
            parent.observation,
            parent.info,
            self._rng(group.task, replica),
            prefix=(*parent.prefix, *recorder.turns),
            prefix_tokens=(*parent.prefix_tokens, *parent.tokens),
            first_forkable_turn=fork_turn
            + 1,  # its first completion is drawn from the same distribution as the parent's
            first_turn_entropy=parent.first_turn_entropy,
        )
        if isinstance(agent, Forking):
            agent.fork(recorder.base, branch.recorder.base, fork_turn)
        group.episodes.append(branch)

    def _rng(self, task: Task, replica: int) -> np.random.Generator:
        return episode_rng(self.seed, self.iteration, task.task_id, replica, self.trial)

    @contextmanager
    def _catching(self) -> Iterator[Failure]:
        """Report what an environment raises while an episode starts; there is no episode yet to mark.

        Yields:
            The error, if one was raised.
        """
        # our own errors mean wrong tasks or settings, which would fail for every other task too
        with environment_errors(passing=(CreditflowError,)) as failure:
            yield failure
        if failure.error is not None:
            self.report.add_error(failure.error)
