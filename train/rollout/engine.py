"""The rollout engine: plays G episodes of each of many tasks, all running ones in one generation call a turn.

Episodes draw from their own generators (seed, iteration, task, replica), so they do not depend on which others share
the batch, except for rounding inside the model. An error in one episode marks that episode alone. Episodes may be
forked where the policy is uncertain (``BranchConfig``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from creditflow.agents.base import Agent, Decision, decisions_for
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.tasks import Task
from creditflow.train.rollout.running import Budget, RolloutReport, RunningEpisode, RunningGroup, policy_version
from creditflow.train.rollout.starting import EpisodeStarter
from creditflow.train.settings.branching import BranchConfig, mean_entropy
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

__all__ = ["Budget", "NoGroupError", "RolloutEngine", "RolloutReport"]


class NoGroupError(EpisodeError):
    """Not one group of a rollout could start."""


class RolloutEngine:
    """Plays groups; keeps its environments between calls.

    Args:
        make_group: makes the environments of one group (G recorded members).
        budget: limits of every episode; none by default.
        branching: when episodes are forked; needs an agent that reports entropies.
        make_branch: makes the environment of one branch (a group of one member).
        threads: number of environments that are stepped at the same time; it pays where a step waits for a server.

    Raises:
        ConfigError: branching without ``make_branch``.
    """

    def __init__(
        self,
        make_group: Callable[[], GroupEnv],
        budget: Budget | None = None,
        *,
        branching: BranchConfig | None = None,
        make_branch: Callable[[], GroupEnv] | None = None,
        threads: int = 1,
    ) -> None:
        self.branching = branching or BranchConfig()
        if self.branching.max_trajectories and make_branch is None:
            raise ConfigError("branching needs make_branch, which makes a group of one member")
        self._make_group, self._make_branch = make_group, make_branch
        self._budget, self._threads = budget or Budget(), threads
        self._group_envs: list[GroupEnv] = []
        self._branch_envs: list[GroupEnv] = []

    def play(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        *,
        seed: int,
        iteration: int = 0,
        trial: int = 0,
        report: RolloutReport | None = None,
    ) -> list[Group]:
        """Play one group per task; returns them in order, without those that could not start.

        Args:
            agent: chooses the actions.
            tasks: tasks to play.
            seed, iteration: seed the episodes' generators.
            trial: number of the attempt, for agents that learn from earlier ones.
            report: where counts and errors are added.

        Raises:
            NoGroupError: not one group could start.
        """
        report = RolloutReport() if report is None else report
        while len(self._group_envs) < len(tasks):
            self._group_envs.append(self._make_group())
        starter = EpisodeStarter(seed, iteration, trial, report, self._free_branch_envs())
        groups = [starter.start_group(env, task) for env, task in zip(self._group_envs, tasks, strict=False)]
        if tasks and not any(group.episodes for group in groups):
            raise NoGroupError(f"no group could start; the first error was: {report.errors[0]}")
        with ThreadPoolExecutor(self._threads, thread_name_prefix="creditflow-env") as pool:
            self._play_out(agent, groups, starter, pool)
        played = [group.record(policy_version(agent)) for group in groups if group.episodes]
        report.add_episodes(played)
        return played

    def _play_out(
        self, agent: Agent, groups: Sequence[RunningGroup], starter: EpisodeStarter, pool: ThreadPoolExecutor
    ) -> None:
        """Play started groups to their end, in rounds: all episodes choose their actions together, then all are stepped."""
        while True:
            for group in groups:
                self._fill(group, starter)
            running = [(group, episode) for group in groups for episode in group.episodes if episode.running]
            if not running:
                return
            decisions = decisions_for(agent, [episode.view for _, episode in running])
            acting = [
                (episode, decision)
                for (group, episode), decision in zip(running, decisions, strict=True)
                if self._accept(group, episode, decision, agent, starter)
            ]
            step = pool.map if self._threads > 1 else map
            for error in step(lambda pair: pair[0].step(pair[1], self._budget), acting):
                if error is not None:
                    starter.report.add_error(error)

    def _fill(self, group: RunningGroup, starter: EpisodeStarter) -> None:
        """Start fresh episodes in a finished group, if it is to be filled."""
        if self.branching.fill_group and group.episodes and group.finished:
            for _ in range(self.branching.remaining(len(group.episodes), group.generated_tokens)):
                starter.add_fresh_episode(group)

    def _accept(
        self, group: RunningGroup, episode: RunningEpisode, decision: Decision, agent: Agent, starter: EpisodeStarter
    ) -> bool:
        """What a decision does before the environment's step: branches, counts, an early end. Returns whether to step."""
        if decision.stop is not None:
            episode.stop(decision.stop)
            return False
        if self.branching.max_trajectories:
            self._fork_if_uncertain(group, episode, decision, agent, starter)
        if decision.tokens is not None:
            starter.report.prompt_tokens += len(decision.tokens.prompt)
            starter.report.completion_tokens += len(decision.tokens.completion)
            group.generated_tokens += len(decision.tokens.completion)
        return True

    def _free_branch_envs(self) -> Iterator[GroupEnv]:
        """Environments of single episodes: those of earlier calls, then new ones, made when they are needed."""
        for env in self._branch_envs:
            yield env
        while self._make_branch is not None:
            env = self._make_branch()
            self._branch_envs.append(env)
            yield env

    def _fork_if_uncertain(
        self, group: RunningGroup, episode: RunningEpisode, decision: Decision, agent: Agent, starter: EpisodeStarter
    ) -> None:
        """Fork branches before this turn if the policy was uncertain."""
        config, tokens = self.branching, decision.tokens
        if group.closed or tokens is None or not len(tokens.entropies):
            return
        entropy = mean_entropy(tokens.entropies, config.entropy_tokens)
        if episode.first_turn_entropy is None:
            episode.first_turn_entropy = entropy
        if episode.next_turn < episode.first_forkable_turn:
            return
        branches = config.branches(entropy, episode.first_turn_entropy, episode.rng)
        for _ in range(min(branches, config.remaining(len(group.episodes), group.generated_tokens))):
            starter.add_branch(group, episode, agent)
