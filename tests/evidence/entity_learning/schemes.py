"""The study's own two schemes: E-GRPO's outcome with SAPO's turns, and SAPO with its turns in random order (a control)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.entities.egrpo import EGRPO
from creditflow.wrappers.credit.entities.sapo import SAPO
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["EntityCombination", "ShuffledSAPO", "register_schemes"]


@dataclass(frozen=True, kw_only=True)
class EntityCombination(EGRPO):
    """A_t = A_E + λ |A_E| A_g(t): the outcome part and loss mask of ``egrpo``, the step part of ``sapo``.

    Attributes:
        step_weight: λ.
    """

    name = "egrpo_sapo"
    source = "ours: E-GRPO (arXiv 2510.24694) eqs. 1 to 5 with SAPO (arXiv 2605.29697) eqs. 13 and 14"
    verification = "tests/extras/train/evidence/test_entity_learning.py"
    properties = frozenset()

    step_weight: float = 0.5

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "step_weight", 0.0, np.inf)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        credit = super().assign(group)
        compared = SAPO().assign(group).diagnostics["step_advantage"]
        gate = np.abs(credit.outcome_advantages)[group.arrays.trajectory]
        return replace(
            credit, flat_step_advantages=credit.flat_step_advantages + self.step_weight * gate * np.asarray(compared)
        )


@dataclass(frozen=True, kw_only=True)
class ShuffledSAPO(SAPO):
    """``sapo`` with the step parts of each trajectory permuted among its turns; a function of the group's id."""

    name = "sapo_shuffled"
    source = "ours: a control"
    verification = "tests/extras/train/evidence/test_entity_learning.py"
    properties = frozenset()

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        credit = super().assign(group)
        seed = int.from_bytes(blake2b(group.group_id.encode(), digest_size=8).digest(), "big")
        draws = np.random.default_rng(seed).random(len(credit.flat_step_advantages))
        order = np.lexsort((draws, group.arrays.trajectory))
        return replace(credit, flat_step_advantages=credit.flat_step_advantages[order])


def register_schemes() -> None:
    """Make both known by name; not done on import, so that tests of all registered schemes are not about them."""
    register(EntityCombination)
    register(ShuffledSAPO)
