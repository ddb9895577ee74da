"""SAPO: GDCR's step part scaled by the trajectory's outcome advantage, whose sign it therefore never flips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.entities.gdcr import GDCR
from creditflow.wrappers.credit.registry import register

__all__ = ["SAPO"]


@register
@dataclass(frozen=True, kw_only=True)
class SAPO(GDCR):
    """A_t = A_o + λ |A_o| A_g(t): the outcome determines the sign, the graph the distribution over turns (eq. 14).

    If all outcomes of a group are equal, A_o is 0 and so is all credit. Unlike for ``egrpo``, a group without a success
    is therefore a dead group for SAPO. (TRL's loss of the same name is unrelated.)
    """

    name = "sapo"
    source = "GDCR/SAPO (arXiv 2605.29697) eqs. 4 to 15. No code was released"
    verification = "the paper, whose appendices are not public (no code was released)"
    limitations = "It needs the question's entity graph."
    properties = frozenset(
        {
            "all_fail_zero",
            "branches",
            "keeps_sign",
            "one_member_zero",
            "permutation",
            "scale",
            "shift",
            "stopping_time",
            "ties_zero",
            "unnamed_entity",
        }
    )

    @property
    def checked_properties(self) -> frozenset[str]:
        """Declared properties. With λ above 1 the step part may flip the sign."""
        return super().checked_properties - ({"keeps_sign"} if self.step_weight * self.step_clip > 1.0 else set())

    def gate(self, outcome: NDArray[np.float64]) -> NDArray[np.float64]:
        """|A_o|."""
        return np.abs(outcome)
