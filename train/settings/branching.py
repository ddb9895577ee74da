"""When a rollout is forked: where the policy is uncertain, measured by the entropy of its first tokens.

After ARPO (Dong et al. 2025, arXiv 2507.19849): entropy rises after a tool response where several continuations are
plausible, and a sample is more informative there than at the start. A branch begins at a snapshot of the environment,
before the uncertain completion, and stores its own turns only. ARPO fills a group with
fresh episodes when it has fewer branches than it may have; so does ``fill_group``.

ARPO's paper forks where its equation exceeds a threshold (``rule: threshold``), its released code with the probability
``base`` + ``slope`` · ΔH (``rule: probability``). That code divides the entropy, summed over 20 tokens and their ten likeliest
continuations, by the logarithm of the vocabulary's size: its weight 0.2 is ``slope`` 0.2 · 20 / ln(151,665) = 0.335 here. It also
begins a branch one tool response later, after the uncertain completion and its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.train.settings.bounds import require_at_least

__all__ = ["BranchConfig", "mean_entropy"]


@dataclass(frozen=True, kw_only=True)
class BranchConfig:
    """Branching of rollouts where the policy is uncertain.

    Attributes:
        max_trajectories: maximum number of trajectories in a group, including branches; 0 for no branches.
        entropy_tokens: number of leading completion tokens over which the entropy is averaged.
        rule: "threshold": fork a turn if base + slope · ΔH > threshold, where ΔH is the mean entropy (nats per token)
            of its first tokens minus that of the episode's first turn. "probability": make each of its branches with
            probability base + slope · ΔH. The first turn is never forked, as that would be just another episode.
        base, slope: constants of the rule.
        threshold: constant of the rule "threshold".
        branches_per_turn: number of branches per forked turn.
        max_tokens: a group gets no more branches or fresh episodes once it has generated this many tokens; 0 for no
            limit. The prefix of a branch counts once.
        fill_group: play fresh episodes in a group with too few forks, after its own have ended, until it has
            ``max_trajectories`` (within ``max_tokens``), so that every task has the same number of rollouts. These
            episodes are not forked.
        shared_prefix_advantage: advantage of a turn that d trajectories share, which is stored and trained on once:
            "mean" over all d, or "sum", d times the mean. Summed over tokens, "sum" has the gradient of ARPO's hard
            estimate, whose prefixes appear in all d rows (and of its soft estimate where ratios are 1).
    """

    max_trajectories: int = 0
    entropy_tokens: int = 20
    rule: Literal["threshold", "probability"] = "threshold"
    base: float = 0.2
    slope: float = 0.4
    threshold: float = 0.5
    branches_per_turn: int = 1
    max_tokens: int = 0
    fill_group: bool = False
    shared_prefix_advantage: Literal["mean", "sum"] = "mean"

    def __post_init__(self) -> None:
        require_at_least(self, 0, "max_trajectories", "max_tokens")
        require_at_least(self, 1, "entropy_tokens", "branches_per_turn")

    def remaining(self, trajectories: int, generated_tokens: int) -> int:
        """Number of trajectories that a group of this size, with so many generated tokens, may still add."""
        if self.max_tokens and generated_tokens >= self.max_tokens:
            return 0
        return max(self.max_trajectories - trajectories, 0)

    def branches(self, entropy: float, first_turn_entropy: float, rng: np.random.Generator) -> int:
        """Number of branches made before a turn with this entropy.

        Args:
            entropy, first_turn_entropy: mean entropies (nats) of the turn and of the episode's first turn.
            rng: the episode's generator; only the rule "probability" draws from it, ``branches_per_turn`` numbers.
        """
        value = self.base + self.slope * (entropy - first_turn_entropy)
        if self.rule == "threshold":
            return self.branches_per_turn if value > self.threshold else 0
        return int(np.count_nonzero(rng.random(self.branches_per_turn) < value))


def mean_entropy(entropies: NDArray[np.float32], tokens: int) -> float:
    """Mean entropy (nats) over the first tokens of a completion; 0 if there are none."""
    return float(np.mean(entropies[:tokens], dtype=np.float64)) if len(entropies) else 0.0
