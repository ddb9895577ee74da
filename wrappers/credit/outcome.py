"""The outcome part that all schemes share: one number per trajectory, and the penalty of invalid turns.

Released trainers subtract a penalty ρ from the score of an invalid *turn* before normalising, so one trajectory's turns
can have different scores. Here the trajectory's number is its ``outcome_advantages``, and the difference that an
invalid turn makes is part of that turn's step advantage. Their sum is the released value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name_error
from creditflow.wrappers.credit.base import Scheme, require_range
from creditflow.wrappers.credit.normalize import Scale, StdKind, normalize
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import ANSWERED

__all__ = ["RELEASE_OUTCOME", "OutcomeScheme", "answered", "invalid_turns", "outcome_scores", "outcome_sizes"]

# verl-agent: every row is a sample, eps 1e-6, a singleton keeps its raw score, parsed actions count as valid, ρ = 0.1
RELEASE_OUTCOME: Mapping[str, Any] = {
    "stats_over": "turns",
    "std_eps": 1e-6,
    "singleton_outcome": "raw",
    "invalid": "unparsed",
    "invalid_penalty": 0.1,
}


@dataclass(frozen=True, kw_only=True)
class OutcomeScheme(Scheme):
    """Parameters of the outcome part.

    Attributes:
        outcome: score of a trajectory: its "return" (sum of rewards), "success" (0/1) or graded "score".
        stats_over: what is a sample of the group's statistics. "trajectories" (papers) counts every trajectory once.
            With "turns" (released code) long episodes weigh more. With "first_turns" (released option) the first turn
            represents the trajectory, with its own penalty.
        outcome_scale: "std" divides by the standard deviation, "none" does not (Dr. GRPO).
        outcome_std_kind: standard deviation of a "sample" (n − 1) or of a "population" (n).
        std_eps: added to every standard deviation.
        singleton_outcome: a singleton gets 0 ("zero") or keeps its score ("raw").
        invalid_penalty: ρ ≥ 0, subtracted for invalid turns.
        invalid: which turns are invalid: "invalid" (not parsed or not admissible) or "unparsed" only (released code,
            which does not check whether an action is admissible).
        penalty_at: "score" subtracts ρ before normalising, from the outcome and from the step score (released code).
            "advantage" subtracts ρ once from the final advantage, so that it neither enters the statistics nor grows
            when invalid turns are rare.
    """

    outcome: Literal["return", "success", "score"] = "return"
    stats_over: Literal["trajectories", "turns", "first_turns"] = "trajectories"
    outcome_scale: Scale = "std"
    outcome_std_kind: StdKind = "sample"
    std_eps: float = 0.0
    singleton_outcome: Literal["zero", "raw"] = "zero"
    invalid_penalty: float = 0.0
    invalid: Literal["invalid", "unparsed"] = "invalid"
    penalty_at: Literal["score", "advantage"] = "score"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        for name in ("std_eps", "invalid_penalty"):
            require_range(self, name, 0.0, np.inf)

    def score_penalties(self, group: Group) -> NDArray[np.float64]:
        """float64 (N,): penalties subtracted before normalising."""
        return self._penalties(group, "score")

    def advantage_penalties(self, group: Group) -> NDArray[np.float64]:
        """float64 (N,): penalties subtracted from the final advantage, independent of the weights of its parts."""
        return self._penalties(group, "advantage")

    def _penalties(self, group: Group, target: Literal["score", "advantage"]) -> NDArray[np.float64]:
        rho = self.invalid_penalty if self.penalty_at == target else 0.0
        return np.where(invalid_turns(group, self.invalid), rho, 0.0) if rho else np.zeros(len(group.arrays.parsed))

    def outcome_part(
        self, group: Group, *, scores: NDArray[np.float64] | None = None, leave_one_out: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Normalised scores of trajectories (G,), and the change of each turn by its own penalty (N,).

        With statistics over trajectories, a group of equal outcomes has deviation 0, by which a penalty cannot be
        divided. It is then subtracted unscaled.

        Args:
            group: the group to score.
            scores: float64 (G,), scores of the trajectories, by default those of ``outcome``.
            leave_one_out: subtract the mean of the other samples.
        """
        arrays = group.arrays
        custom = scores is not None
        scores = outcome_scores(group, self.outcome) if scores is None else scores
        penalties = self.score_penalties(group)
        episodes = group.episode_index
        # the first turn of each episode (that of a branch is stored by an ancestor)
        not_empty = (episodes.offsets[1:] > episodes.offsets[:-1]).nonzero()[0]
        first = episodes.stored[episodes.offsets[not_empty]]
        trajectory = np.concatenate([np.arange(arrays.size), arrays.trajectory, not_empty])
        subtracted = np.concatenate([np.zeros(arrays.size), penalties, penalties[first]])
        sizes = np.abs(scores) if custom else outcome_sizes(group, self.outcome)
        turns = slice(arrays.size, arrays.size + len(penalties))
        samples = {"trajectories": slice(arrays.size), "turns": turns, "first_turns": slice(turns.stop, None)}
        sample = np.zeros(len(trajectory), np.bool_)
        sample[samples[self.stats_over]] = True
        out = normalize(
            scores[trajectory] - subtracted,
            np.zeros(len(trajectory), np.int32),
            1,
            scale="none" if leave_one_out else self.outcome_scale,
            std_eps=self.std_eps,
            std_kind=self.outcome_std_kind,
            singleton=self.singleton_outcome,
            sample=sample,
            magnitude=sizes[trajectory] + subtracted,
            quantity="outcome",
            rows=np.concatenate([-1 - np.arange(arrays.size), np.arange(len(penalties)), first]),
        )
        if leave_one_out and (count := int(sample.sum())) > 1:
            out = out * (count / (count - 1))  # N/(N−1)(x − mean) = x − mean of the others
        outcome = out[: arrays.size]
        if self.stats_over == "trajectories" and not outcome.any():
            return outcome, -penalties
        return outcome, out[turns] - outcome[arrays.trajectory]


def outcome_scores(group: Group, kind: Literal["return", "success", "score"]) -> NDArray[np.float64]:
    """float64 (G,): the outcome of each trajectory."""
    arrays = group.arrays
    if kind == "return":
        return arrays.returns
    if kind == "success":
        return arrays.success.astype(np.float64)
    if kind == "score":
        return arrays.score
    raise unknown_name_error("outcome", str(kind), ["return", "success", "score"])


def outcome_sizes(group: Group, kind: Literal["return", "success", "score"]) -> NDArray[np.float64]:
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


def invalid_turns(group: Group, kind: Literal["invalid", "unparsed"]) -> NDArray[np.bool_]:
    """bool (N,): turns that get the penalty."""
    return ~group.arrays.parsed if kind == "unparsed" else ~group.arrays.valid
