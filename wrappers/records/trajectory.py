"""Turns and trajectories: the records that schemes, trainers, adapters and viewers share.

Both are frozen dataclasses of plain values. Sampled tokens are in ``tokens.py``, groups in ``group.py``; ``jsonl.py``
reads and writes logs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.wrappers.records.stop_reasons import STOP_REASONS, StopReason
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["NO_PROVENANCE", "NO_VALUES", "PARENT", "Trajectory", "Turn", "fsum_rewards", "is_number"]

PARENT: Final = "parent.turn"
NO_VALUES: Mapping[str, float] = MappingProxyType({})
NO_PROVENANCE: Mapping[str, str] = MappingProxyType({})


def _no_values() -> Mapping[str, float]:
    """Return one shared empty mapping, to save memory in large logs."""
    return NO_VALUES


def _no_provenance() -> Mapping[str, str]:
    """Return the shared empty mapping of strings."""
    return NO_PROVENANCE


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: thought + action + observation.

    Attributes:
        state_key, next_state_key: keys of the state before and after the action.
        action: action as sent to the environment.
        reward: reward of the environment; penalties are applied by the scheme.
        parsed, admissible, effective: parsed from the completion; allowed by the rules; changed the state.
        cost: cost of the transition in the state graph, > 0.
        observation: observation before the action.
        thought, response: reasoning of the model, and its full response.
        text_key: state as a text-only method sees it.
        action_key: key of actions that are equal although their texts differ ("": the text).
        invalid_reason: why the action was invalid.
        entities, queries, doc_ids, images: entities, queries and passages of a search turn; images as names, never
            pixels.
        values: annotations ("value.pica", "distance.oracle", …); the name of a value after the action ends in ".next".
            In an episode of several contexts (compaction, sub-agents) ``PARENT`` is the number of the turn whose prompt and
            response this turn's prompt continues, or −1 if its prompt is a context of its own.
    """

    state_key: str
    action: str
    next_state_key: str
    reward: float = 0.0
    parsed: bool = True
    admissible: bool = True
    effective: bool = True
    cost: float = 1.0
    observation: str = ""
    thought: str = ""
    response: str = ""
    text_key: str = ""
    action_key: str = ""
    invalid_reason: str = ""
    entities: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=_no_values)

    @property
    def valid(self) -> bool:
        """Parsed and admissible."""
        return self.parsed and self.admissible


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode.

    Attributes:
        trajectory_id: unique within a group.
        group_id: id of the group; a task that recurs in another iteration has another group id.
        task_id: id of the task.
        turns: turns in order; each turn's ``next_state_key`` is the next turn's ``state_key``.
        success: flag from the environment, never derived from rewards.
        score: graded outcome in [0, 1].
        stop_reason: why the episode ended; "success" if and only if ``success``.
        final_state_key: state key after the last turn.
        final_text_key: text key after the last turn.
        tokens: sampled tokens, if the agent is a language model.
        policy, seed, replica: name of the policy, random seed, and index within the group.
        parent, fork_turn: for a branch, the trajectory from which it was forked, and the turn before which it was
            forked; a branch stores only its own turns, so that the shared prefix counts once.
        trial: number of the attempt when attempts learn from earlier ones (reflection); attempts are not i.i.d.
        values: annotations of the trajectory.
        provenance: source of each annotation of turns, tokens and trajectory (see ``train/annotate``).
        messages: the conversation as messages of a chat API, each as JSON, if observations and responses do not contain all of it
            (a system's message, calls of tools, messages that are not trained on); otherwise empty.

    Raises:
        TrajectoryError: fields that contradict each other, or a number that is not finite or out of range.
    """

    trajectory_id: str
    group_id: str
    task_id: str
    turns: tuple[Turn, ...]
    success: bool
    score: float
    stop_reason: StopReason
    final_state_key: str
    final_text_key: str = ""
    tokens: Tokens | None = None
    policy: str = ""
    seed: int = 0
    replica: int = 0
    parent: str = ""
    fork_turn: int = -1
    trial: int = 0
    values: Mapping[str, float] = field(default_factory=_no_values)
    provenance: Mapping[str, str] = field(default_factory=_no_provenance)
    messages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = f"trajectory {self.trajectory_id!r}"
        object.__setattr__(self, "turns", tuple(self.turns))
        if self.stop_reason not in STOP_REASONS:
            raise TrajectoryError(f"{name}: stop_reason must be one of {', '.join(STOP_REASONS)}: {self.stop_reason!r}")
        if self.success != (self.stop_reason == "success"):
            raise TrajectoryError(
                f"{name}: success is {self.success} but stop_reason is {self.stop_reason!r}; one implies the other"
            )
        if not is_number(self.score) or not 0.0 <= self.score <= 1.0:
            raise TrajectoryError(f"{name}: score must lie in [0, 1], got {short_repr(self.score)}")
        expected = self.turns[0].state_key if self.turns else self.final_state_key
        for t, turn in enumerate(self.turns):
            if turn.state_key != expected:
                raise TrajectoryError(
                    f"{name}: turn {t} begins in state {turn.state_key!r} but the turn before ended in {expected!r}"
                )
            if not is_number(turn.cost) or turn.cost <= 0.0:
                raise TrajectoryError(
                    f"{name}: turn {t}: cost must be positive and finite, got {short_repr(turn.cost)}"
                )
            if not is_number(turn.reward):
                raise TrajectoryError(f"{name}: turn {t}: reward must be finite, got {short_repr(turn.reward)}")
            expected = turn.next_state_key
        if self.final_state_key != expected:
            raise TrajectoryError(
                f"{name}: final_state_key is {self.final_state_key!r} but the last turn ended in {expected!r}"
            )
        if self.tokens is not None:
            if len(self.tokens.turn_offsets) != len(self.turns) + 1:
                raise TrajectoryError(
                    f"{name}: {len(self.turns)} turns need {len(self.turns) + 1} token offsets, "
                    f"got {len(self.tokens.turn_offsets)}"
                )
            if len(self.tokens.prompts) not in (0, len(self.turns)):
                raise TrajectoryError(
                    f"{name}: there must be one prompt per turn or none, got {len(self.tokens.prompts)} for {len(self.turns)} turns"
                )
        if self.parent and self.fork_turn < 0:
            raise TrajectoryError(f"{name}: a branch needs fork_turn ≥ 0, the turn of {self.parent!r} it replaces")

    @property
    def episode_return(self) -> float:
        """Sum of this trajectory's own rewards, exactly rounded."""
        return fsum_rewards([turn.reward for turn in self.turns], self.trajectory_id)

    @property
    def end(self) -> int:
        """Type of its end: GOAL, FAILED or TRUNCATED."""
        return STOP_REASONS[self.stop_reason]


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number within float64; Python's integers are unbounded."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def fsum_rewards(rewards: Sequence[float], trajectory_id: str) -> float:
    """Sum of a trajectory's rewards, exactly rounded.

    Raises:
        TrajectoryError: the sum exceeds float64.
    """
    try:
        return math.fsum(rewards)
    except OverflowError:
        raise TrajectoryError(f"trajectory {trajectory_id!r}: the sum of its rewards exceeds float64") from None
