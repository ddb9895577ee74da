"""VPR: an oracle's verdict on every turn, compared with the same turn of the group's other rollouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import PenaltyScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["VPR"]


@register
@dataclass(frozen=True, kw_only=True)
class VPR(PenaltyScheme):
    """A_t = (v_t − mean v) / std v over the group's turns of number t, v_t = 1 if the oracle confirms turn t, else 0.

    The oracle confirms a turn that brings the state nearer to success, that is, if "distance.oracle.next" <
    "distance.oracle". These annotations are the fewest turns to a success, or −1 if there is none. They are the
    environment's own exact distances, so this is the ceiling of what a judge of single turns can give, not a method for
    tasks without an oracle. ``prm`` with value="value.oracle" and form="increase" sums an oracle's *values* to the end
    of the episode instead.

    The abstract was read, and the summary of the method in the README of the released code. According to it, verifier
    rewards are normalised at each turn over the group, in an objective like GRPO's. The code could not be read. The
    paper's verifiers are a search for Tic-Tac-Toe, the solution of a Sudoku and the posterior of Minesweeper, whereas
    ours is the distance. One rule is ours: a turn number that only one rollout reaches gets 0.
    """

    name = "vpr"
    source = (
        "VPR (arXiv 2605.10325), the abstract and the README of thu-nics/VPR. The verifier is our oracle's distance"
    )
    second_hand = True
    verification = "the abstract and the README of the released code (paper and code were not read)"
    limitations = (
        "It needs exact knowledge of the task. Turns are compared by their number, not by their state. A confirmed "
        "turn gets nothing if all others are confirmed, and the same mistake costs more in a group that is right."
    )
    requires = ("distance.oracle",)
    properties = frozenset({"branches", "one_member_zero", "permutation", "scale", "shift", "ties_zero"})

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        episodes = group.episode_index
        confirmed = self._confirmed(group)[episodes.stored].astype(np.float64)
        number = np.arange(len(confirmed)) - episodes.offsets[episodes.episode]
        compared = normalize(
            confirmed - self.penalties(group)[episodes.stored],
            number.astype(np.int32),
            int(number.max(initial=-1)) + 1,
            quantity="the oracle's verdict",
            rows=episodes.stored,
        )[episodes.own]
        return Credit.of(
            group,
            outcome=np.zeros(len(group)),
            step={"verdict among turns of this number": compared},
            rewards=confirmed[episodes.own],
            diagnostics={"step_advantage": compared},
        )

    def _confirmed(self, group: Group) -> NDArray[np.bool_]:
        """bool (N,): turns after which a success is nearer than before."""
        before = turn_values(group, "distance.oracle", scheme=self.name)
        after = turn_values(group, "distance.oracle.next", scheme=self.name)
        return (after >= 0.0) & ((after < before) | (before < 0.0))
