"""The outcome part that schemes share: one number per trajectory, and the penalty of invalid turns.

The trajectory's number is its ``outcome_advantages``. The difference that the penalty of an invalid *turn* makes is part of that
turn's step advantage. ``OutcomeScheme.outcome_part`` is the form of the papers, ``released_outcome`` that of a released trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name_error
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.normalize import Scale, StdKind, normalize
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import ANSWERED

__all__ = [
    "RELEASE_OUTCOME",
    "Outcome",
    "OutcomeScheme",
    "PenaltyScheme",
    "ReleasedOutcomeScheme",
    "answered",
    "outcome_scores",
    "outcome_sizes",
    "released_outcome",
]

Floats = NDArray[np.float64]
Outcome = Literal["return", "success", "score"]
Samples = Literal["trajectories", "turns", "first_turns"]

RELEASE_OUTCOME: Mapping[str, Any] = {"stats_over": "turns", "std_eps": 1e-6, "invalid_penalty": 0.1}  # verl-agent


@dataclass(frozen=True, kw_only=True)
class PenaltyScheme(Scheme):
    """A scheme that punishes invalid turns.

    Attributes:
        invalid_penalty: ρ ≥ 0, subtracted from the score of an invalid turn: one that could not be parsed, or (except where
            a released form is computed, whose code does not look at it) whose action is not admissible.
    """

    ranges = {"invalid_penalty": "[0, inf)"}

    invalid_penalty: float = 0.0

    @property
    def released_form(self) -> bool:
        """Whether the scheme computes what released code does, for which a parsed action is valid."""
        return False

    def penalties(self, group: Group) -> Floats:
        """float64 (N,): ρ for invalid turns."""
        valid = group.arrays.parsed if self.released_form else group.arrays.valid
        return np.where(valid, 0.0, self.invalid_penalty)


@dataclass(frozen=True, kw_only=True)
class OutcomeScheme(PenaltyScheme):
    """Parameters of the outcome part.

    Attributes:
        outcome: score of a trajectory: its "return" (sum of rewards), "success" (0/1) or graded "score".
    """

    outcome: Outcome = "return"

    def outcome_part(
        self,
        group: Group,
        *,
        scores: Floats | None = None,
        scale: Scale = "std",
        std_kind: StdKind = "sample",
        std_eps: float = 0.0,
    ) -> tuple[Floats, Floats]:
        """(R_i − mean R) / std R of each trajectory (G,), and the change of each turn by its own penalty, −ρ / std R (N,).

        Args:
            group: the group to score.
            scores: float64 (G,), R, by default that of ``outcome``.
            scale: "std", or "none" for R_i − mean R.
            std_kind: standard deviation of a "sample" (n − 1) or of a "population" (n).
            std_eps: added to the standard deviation.
        """
        scores, sizes = self._outcomes(group, scores)
        owner, penalties, size = group.arrays.trajectory, self.penalties(group), group.arrays.size
        rows = np.concatenate([-1 - np.arange(size), np.arange(len(owner))])
        # a turn is scored on the scale of the trajectories, which alone are samples
        normalized = normalize(
            np.concatenate([scores, scores[owner] - penalties]),
            np.zeros(len(rows), np.int32),
            1,
            scale=scale,
            std_eps=std_eps,
            std_kind=std_kind,
            sample=rows < 0,
            magnitude=np.concatenate([sizes, sizes[owner] + penalties]),
            quantity="outcome",
            rows=rows,
        )
        outcome, turns = normalized[:size], normalized[size:]
        # equal outcomes have deviation 0, by which a penalty cannot be divided: it is subtracted as it is
        return outcome, turns - outcome[owner] if outcome.any() else -penalties

    def _outcomes(self, group: Group, scores: Floats | None) -> tuple[Floats, Floats]:
        """R and its size (see ``outcome_sizes``), float64 (G,) each."""
        if scores is None:
            return outcome_scores(group, self.outcome), outcome_sizes(group, self.outcome)
        return scores, np.abs(scores)


@dataclass(frozen=True, kw_only=True)
class ReleasedOutcomeScheme(OutcomeScheme):
    """Parameters of schemes whose trainers were released as part of verl-agent.

    Attributes:
        stats_over: what is a sample of the group's statistics. "trajectories" (papers) counts every trajectory once.
            With "turns" (released code) long episodes weigh more. With "first_turns" (released option) the first turn
            represents the trajectory, with its own penalty.
        std_eps: added to every standard deviation.
    """

    ranges = {"std_eps": "[0, inf)"}

    stats_over: Samples = "trajectories"
    std_eps: float = 0.0

    @property
    def released_form(self) -> bool:
        """Whether turns are the samples."""
        return self.stats_over != "trajectories"

    def outcome_part(
        self, group: Group, *, scores: Floats | None = None, scale: Scale = "std", **paper: Any
    ) -> tuple[Floats, Floats]:
        """The outcome part of the papers, which alone has more options, or that of the released code; ``std_eps`` is the scheme's."""
        if not self.released_form:
            return super().outcome_part(group, scores=scores, scale=scale, std_eps=self.std_eps, **paper)
        if paper:
            raise TypeError(f"the released outcome part has no {', '.join(paper)}")
        scores, sizes = self._outcomes(group, scores)
        first = self.stats_over == "first_turns"
        return released_outcome(
            group, scores, sizes, self.penalties(group), first_turns=first, scale=scale, std_eps=self.std_eps
        )


def released_outcome(
    group: Group, scores: Floats, sizes: Floats, penalties: Floats, *, first_turns: bool, scale: Scale, std_eps: float
) -> tuple[Floats, Floats]:
    """The outcome part of verl-agent: a batch has a row for every turn, and rows are the samples, each with its own penalty.

    A group of one row keeps its raw score.

    Args:
        group: the group.
        scores, sizes: float64 (G,), outcomes and their sizes (see ``outcome_sizes``).
        penalties: float64 (N,), of each turn.
        first_turns: whether only the first row of each episode is a sample.
        scale, std_eps: see ``normalize``.

    Returns:
        The outcome of each trajectory (G,), and what each turn's penalty changes (N,).
    """
    owner, size, n = group.arrays.trajectory, group.arrays.size, len(penalties)
    episodes = group.episode_index
    # the first turn of each episode; that of a branch is stored by an ancestor, whose score is another
    started = np.flatnonzero(np.diff(episodes.offsets))
    first = episodes.stored[episodes.offsets[started]]
    trajectory = np.concatenate([np.arange(size), owner, started])
    subtracted = np.concatenate([np.zeros(size), penalties, penalties[first]])
    sample = np.repeat([False, not first_turns, first_turns], [size, n, len(first)])
    normalized = normalize(
        scores[trajectory] - subtracted,
        np.zeros(len(trajectory), np.int32),
        1,
        scale=scale,
        std_eps=std_eps,
        singleton="raw",
        sample=sample,
        magnitude=sizes[trajectory] + subtracted,
        quantity="outcome",
        rows=np.concatenate([-1 - np.arange(size), np.arange(n), first]),
    )
    outcome = normalized[:size]
    return outcome, normalized[size : size + n] - outcome[owner]


def outcome_scores(group: Group, kind: Outcome) -> Floats:
    """float64 (G,): the outcome of each trajectory."""
    arrays = group.arrays
    if kind == "return":
        return arrays.returns
    if kind == "success":
        return arrays.success.astype(np.float64)
    if kind == "score":
        return arrays.score
    raise unknown_name_error("outcome", str(kind), ["return", "success", "score"])


def outcome_sizes(group: Group, kind: Outcome) -> Floats:
    """float64 (G,): the size of the numbers that each outcome is a sum of, to which its rounding error is relative."""
    if kind != "return":
        return np.abs(outcome_scores(group, kind))
    episodes = group.episode_index
    rewards = np.abs(group.arrays.reward)[episodes.stored]
    return np.bincount(episodes.episode, rewards, minlength=group.arrays.size).astype(np.float64, copy=False)


def answered(group: Group) -> NDArray[np.bool_]:
    """bool (G,): trajectories that ended with an answer, correct or not.

    Released reward functions check whether the text ends with an answer (PiCA, StepSearch). After a format error or at
    a limit it does not.
    """
    return np.array([member.stop_reason in ANSWERED for member in group.trajectories], np.bool_)
