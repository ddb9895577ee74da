"""Episodes and groups while they are being played."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.agents.language_model.tokens import join_tokens
from creditflow.envs.tasks import Task
from creditflow.train.rollout.environment_errors import environment_errors
from creditflow.wrappers.group_env import GroupEnv, payload
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["Budget", "RolloutReport", "RunningEpisode", "RunningGroup"]

MAX_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on one episode that the environment does not enforce.

    Attributes:
        turns: maximum number of turns; 0 for no limit but the environment's.
        tokens: no further turn once prompts and completions have this many tokens together; 0 for no limit.
    """

    turns: int = 0
    tokens: int = 0


@dataclass(slots=True)
class RolloutReport:
    """Counts and errors of one or more calls to ``RolloutEngine.play``.

    Attributes:
        errors: messages of environment errors, one per failed episode or group.
        groups_failed_to_start: number of groups without a single episode.
        prompt_tokens, completion_tokens: tokens read and generated; those that a branch shares with its parent count once.
    """

    errors: list[str] = field(default_factory=list)
    groups_failed_to_start: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add_error(self, error: Exception) -> None:
        """Record what an environment raised."""
        self.errors.append(f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS])


@dataclass(slots=True)
class RunningEpisode:
    """One episode: a member of its group's environments, and what was recorded beside them.

    Attributes:
        env, member: the environments of the episode's group, and its index among them.
        observation, info: the latest ones.
        rng: the episode's own random generator.
        tokens: tokens of its own turns.
        parse_errors: turn index → why the completion could not be parsed.
        prefix, prefix_tokens: of a branch: the turns that it shares with its parent, and their tokens.
        first_forkable_turn: no branch begins before this turn.
        first_turn_entropy: mean entropy of the first completion of the episode (or of its root), once there is one.
    """

    env: GroupEnv
    member: int
    observation: Any
    info: dict[str, Any]
    rng: np.random.Generator
    tokens: list[TurnTokens] = field(default_factory=list)
    parse_errors: dict[int, str] = field(default_factory=dict)
    prefix: tuple[Turn, ...] = ()
    prefix_tokens: tuple[TurnTokens, ...] = ()
    first_forkable_turn: int = 1
    first_turn_entropy: float | None = None

    @property
    def recorder(self) -> Recorder:
        """The recorder of the episode's environment."""
        return self.env.members[self.member]

    @property
    def running(self) -> bool:
        """Whether the episode has not ended yet."""
        return not self.recorder.finished

    @property
    def next_turn(self) -> int:
        """Index of the next turn, counted from the first turn of the root."""
        return len(self.prefix) + len(self.recorder.turns)

    @property
    def view(self) -> View:
        """What the agent may look at."""
        recorder = self.recorder
        return View(self.observation, self.info, (*self.prefix, *recorder.turns), recorder.base, self.rng)

    def stop(self, reason: StopReason) -> None:
        """End the episode."""
        self.env.stop(self.member, reason)

    def step(self, decision: Decision, budget: Budget) -> Exception | None:
        """Execute a decision: one step of the environment. Touches nothing but this episode, so any thread may do it.

        Returns:
            What the environment raised, which ended the episode; else None.
        """
        turn = len(self.recorder.turns)
        self.recorder.record_response(thought=decision.thought, response=decision.response)
        with environment_errors() as failure:
            step = self.env.step({self.member: decision.action})[self.member]
        if failure:
            self.stop("env_error")
            return failure.error
        self.observation, self.info = step.observation, step.info
        if decision.invalid_reason:
            self.parse_errors[turn] = decision.invalid_reason
        if decision.tokens is not None:
            self.tokens.append(decision.tokens)
        if self.running:
            self.enforce(budget)
        return None

    def enforce(self, budget: Budget) -> None:
        """End the episode if it has reached a limit of the budget."""
        used = sum(len(turn.prompt) + len(turn.completion) for turn in (*self.prefix_tokens, *self.tokens))
        if budget.tokens and used >= budget.tokens:
            self.stop("token_limit")
        elif budget.turns and self.next_turn >= budget.turns:
            self.stop("env_limit")

    def trajectory(self, policy_version: str) -> Trajectory:
        """The record of the episode, with its tokens and parse errors."""
        trajectory = self.recorder.trajectory
        turns = tuple(
            replace(turn, parsed=False, invalid_reason=self.parse_errors[t]) if t in self.parse_errors else turn
            for t, turn in enumerate(trajectory.turns)
        )
        tokens = None
        if self.tokens and len(self.tokens) == len(turns):
            tokens = join_tokens(self.tokens, policy_version, prefix=self.prefix_tokens)
        return replace(trajectory, turns=turns, tokens=tokens)


@dataclass(slots=True)
class RunningGroup:
    """The running group of one task.

    Attributes:
        task: the task that all episodes play.
        episodes: branches and fresh episodes last; empty if the group could not start.
        generated_tokens: length of all completions so far.
        closed: an episode failed to start, so no more are added.
    """

    task: Task
    episodes: list[RunningEpisode]
    generated_tokens: int = 0
    closed: bool = False

    @property
    def finished(self) -> bool:
        """Whether all episodes have ended."""
        return not any(episode.running for episode in self.episodes)

    @property
    def group_id(self) -> str:
        """Name of the group in the log."""
        return str(self.episodes[0].recorder.identity["group_id"])

    def record(self, policy_version: str) -> Group:
        """The group's trajectories."""
        return Group(
            tuple(episode.trajectory(policy_version) for episode in self.episodes),
            payload(self.task, [episode.recorder.base for episode in self.episodes]),
        )
