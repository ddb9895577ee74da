"""Episodes and groups while they are being played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from creditflow.agents.base import Agent, Decision, TurnTokens, View
from creditflow.agents.language_model.tokens import join_tokens
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.rollout.environment_errors import environment_errors
from creditflow.wrappers.group_env import payload
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["RUN", "Budget", "RolloutReport", "RunningEpisode", "RunningGroup", "marked", "policy_version"]

MAX_ERROR_CHARACTERS = 300
RUN: Final = "run"  # in Trajectory.provenance, the identity of the run that played it


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on one episode that the environment does not enforce.

    Attributes:
        turns: maximum number of turns; 0 for no limit but the environment's.
        tokens: no further turn once prompts and completions have this many tokens together; 0 for no limit.
    """

    turns: int = 0
    tokens: int = 0


UNLIMITED: Final = Budget()


@dataclass(slots=True)
class RolloutReport:
    """Counts and errors of one or more calls to ``RolloutEngine.play``.

    Attributes:
        errors: messages of environment errors, one per failed episode or group.
        groups_failed_to_start: number of groups without a single episode.
        prompt_tokens, completion_tokens: tokens read and generated; those that a branch shares with its parent count once.
        episodes: number of episodes.
        without_room: number of those that the token limit ended before their first turn.
    """

    errors: list[str] = field(default_factory=list)
    groups_failed_to_start: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    episodes: int = 0
    without_room: int = 0

    def add_episodes(self, groups: Sequence[Group]) -> None:
        """Count the episodes of groups that were played."""
        members = [member for group in groups for member in group.trajectories]
        self.episodes += len(members)
        self.without_room += sum(not member.turns and member.stop_reason == "token_limit" for member in members)

    def require_room(self) -> None:
        """Check that a prompt fitted the context.

        Raises:
            ConfigError: not one did, so that nothing can be learned or measured.
        """
        if self.episodes and self.without_room == self.episodes:
            raise ConfigError(
                f"not one of {self.episodes} episodes had room for its first turn: every prompt and rollout.max_new_tokens together are "
                "longer than the context. Raise prompting.max_context (--max-context), lower rollout.max_new_tokens, or choose a "
                "shorter prompt"
            )

    def add_error(self, error: Exception) -> None:
        """Record what an environment raised."""
        self.errors.append(f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS])


@dataclass(slots=True)
class RunningEpisode:
    """One episode while it is played: the one place where a decision becomes a turn of the record.

    Attributes:
        recorder: records the episode's environment.
        observation, info: the latest ones.
        rng: the episode's own random generator.
        tokens: tokens of its own turns.
        prefix, prefix_tokens: of a branch: the turns that it shares with its parent, and their tokens.
        first_forkable_turn: no branch begins before this turn.
        first_turn_entropy: mean entropy of the first completion of the episode (or of its root), once there is one.
        reward: reward of the last turn, as the wrappers return it; the record has the raw one.
        used_tokens: length of all prompts and completions so far, those of the prefix included.
    """

    recorder: Recorder
    observation: Any
    info: dict[str, Any]
    rng: np.random.Generator
    tokens: list[TurnTokens] = field(default_factory=list)
    prefix: tuple[Turn, ...] = ()
    prefix_tokens: tuple[TurnTokens, ...] = ()
    first_forkable_turn: int = 1
    first_turn_entropy: float | None = None
    reward: float = 0.0
    used_tokens: int = 0

    def __post_init__(self) -> None:
        self.used_tokens = sum(map(_length, (*self.prefix_tokens, *self.tokens)))

    @property
    def running(self) -> bool:
        """Whether the episode has not ended yet."""
        return not self.recorder.finished

    @property
    def next_turn(self) -> int:
        """Index of the next turn, counted from the first turn of the root."""
        return len(self.prefix) + self.recorder.num_turns

    @property
    def view(self) -> View:
        """What the agent may look at."""
        turns = (*self.prefix, *self.recorder.turns)
        return View(self.observation, self.info, turns, self.recorder.base, self.rng)

    def stop(self, reason: StopReason) -> None:
        """End the episode."""
        self.recorder.stop(reason)

    def step(self, decision: Decision, budget: Budget = UNLIMITED) -> Exception | None:
        """Take one turn: record what was decided, step the environment, keep the tokens, enforce the budget.

        Touches nothing but this episode, so any thread may call it.

        Returns:
            What the environment raised, which ended the episode; else None.
        """
        if decision.stop is not None:
            self.stop(decision.stop)
            return None
        self.recorder.record_response(
            thought=decision.thought, response=decision.response, invalid_reason=decision.invalid_reason
        )
        with environment_errors() as failure:
            self.observation, self.reward, _, _, self.info = self.recorder.step(decision.action)
        if failure:
            self.stop("env_error")
            return failure.error
        if decision.tokens is not None:
            self.tokens.append(decision.tokens)
            self.used_tokens += _length(decision.tokens)
        if self.running:
            self.enforce(budget)
        return None

    def enforce(self, budget: Budget) -> None:
        """End the episode if it has reached a limit of the budget."""
        if budget.tokens and self.used_tokens >= budget.tokens:
            self.stop("token_limit")
        elif budget.turns and self.next_turn >= budget.turns:
            self.stop("env_limit")

    def trajectory(self, policy_version: str = "") -> Trajectory:
        """The record of the episode, with its tokens where every turn has them."""
        trajectory = self.recorder.trajectory
        if not self.tokens or len(self.tokens) != len(trajectory.turns):
            return trajectory
        return replace(trajectory, tokens=join_tokens(self.tokens, policy_version, prefix=self.prefix_tokens))


def _length(turn: TurnTokens) -> int:
    return len(turn.prompt) + len(turn.completion)


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


def policy_version(agent: Agent) -> str:
    """Version of the weights that an agent samples from; "" for one without a versioned backend."""
    return str(getattr(getattr(agent, "backend", None), "version", ""))


def marked(group: Group, text: str) -> Group:
    """Add the identity of the run to every trajectory of a group."""
    members = (replace(member, provenance={**member.provenance, RUN: text}) for member in group.trajectories)
    return replace(group, trajectories=tuple(members))
