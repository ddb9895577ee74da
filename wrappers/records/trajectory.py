"""Turns and trajectories: the one record that schemes, trainers, adapters and viewers share.

Both are frozen dataclasses of plain values. Sampled tokens lie in ``tokens.py``, groups in ``groups.py``; files are
read and written by ``jsonl.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.wrappers.records.stop_reasons import STOP_REASONS, StopReason
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["NO_PROVENANCE", "NO_VALUES", "Trajectory", "Turn", "fsum_rewards", "is_number"]

NO_VALUES: Mapping[str, float] = MappingProxyType({})
NO_PROVENANCE: Mapping[str, str] = MappingProxyType({})


def _no_values() -> Mapping[str, float]:
    """One shared empty mapping: a million turns need no million dicts."""
    return NO_VALUES


def _no_provenance() -> Mapping[str, str]:
    """The same for texts."""
    return NO_PROVENANCE


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: thought + action + observation.

    Attributes:
        state_key, next_state_key: keys of the state before and after the action.
        action: the action as sent to the environment.
        reward: as the environment paid it; penalties are applied by the scheme.
        parsed, admissible, effective: could be understood; allowed by the rules; changed the state.
        cost: cost of the transition in the state graph, > 0.
        observation: what the agent saw before acting.
        thought, response: the model's reasoning and its full text.
        text_key: the state as a text-only method sees it.
        action_key: names equal actions when their texts differ ("" = the text).
        invalid_reason: why the action was refused.
        entities, queries, doc_ids, images: what a search turn touched; images as names, never pixels.
        values: numbers written by annotators ("value.pica", "distance.oracle", …); a value after the action has
            ".next" at the end of its name.
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
        group_id: names the group; the same task recurs over iterations under other group ids.
        task_id: the problem instance.
        turns: in order; each turn's ``next_state_key`` is the next turn's ``state_key``.
        success: as the environment says, never derived from rewards.
        score: graded outcome in [0, 1].
        stop_reason: why the episode ended; "success" if and only if ``success``.
        final_state_key: the state after the last turn.
        final_text_key: the same as a text-only method sees it.
        tokens: the sampled tokens, if a language model acted.
        policy, seed, replica: who acted, and with which randomness.
        parent, fork_turn: a branch names the trajectory it was forked from and the turn it forked before; it stores
            only its own turns, so that the shared prefix counts once.
        trial: number of the attempt when attempts learn from earlier ones (reflection); attempts are not i.i.d.
        values: numbers about the whole trajectory, written by annotators.
        provenance: who wrote each name among the values of turns, tokens and trajectory (see ``train/annotate``).
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
                    f"{name}: prompts are one a turn or none, got {len(self.tokens.prompts)} for {len(self.turns)} turns"
                )
        if self.parent and self.fork_turn < 0:
            raise TrajectoryError(f"{name}: a branch needs fork_turn ≥ 0, the turn of {self.parent!r} it replaces")

    @property
    def episode_return(self) -> float:
        """Sum of this trajectory's own rewards, exactly rounded."""
        return fsum_rewards([turn.reward for turn in self.turns], self.trajectory_id)

    @property
    def end(self) -> int:
        """The kind of its end: GOAL, FAILED or TRUNCATED."""
        return STOP_REASONS[self.stop_reason]


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that float64 holds; Python's integers have no limit."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def fsum_rewards(rewards: Sequence[float], trajectory_id: str) -> float:
    """Sum of a trajectory's rewards, exactly rounded.

    Raises:
        TrajectoryError: the sum is beyond float64.
    """
    try:
        return math.fsum(rewards)
    except OverflowError:
        raise TrajectoryError(
            f"trajectory {trajectory_id!r}: the sum of its rewards is beyond floating point"
        ) from None
