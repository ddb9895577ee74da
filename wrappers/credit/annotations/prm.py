"""Process supervision: a PRM's or LLM judge's reward for every turn, normalised within the group, summed to the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import PenaltyScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["PRM"]


@register
@dataclass(frozen=True, kw_only=True)
class PRM(PenaltyScheme):
    """A_t = Σ_{k ≥ t} r̃_k, r̃ the step rewards of a PRM or LLM judge, normalised over the group's turns.

    The sum over all later turns favours long trajectories if rewards are above the mean.

    Attributes:
        value: name of the annotation: any number per turn ("judge.score", "fork.q", "value.pica", …).
        form: with "reward" the annotation is the turn's reward. With "increase" it is a state value, whose increase is
            the reward (needs the same name with ".next").
    """

    value: str = "judge.score"
    form: Literal["reward", "increase"] = "reward"

    name = "prm"
    source = "Shao et al. 2024 (DeepSeekMath, arXiv 2402.03300) section 4.1.3, with any annotation as step reward"
    verification = "the paper (any annotation serves as step reward)"
    limitations = (
        "It relies on its judge, also in groups without a success. The sum over all later turns favours long "
        "trajectories if scores exceed the mean."
    )
    presets = {"paper": {}}
    requires = ("judge.score",)
    properties = frozenset({"branches", "permutation", "shift", "scale"})

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        if not self.value or self.value.endswith(".next"):
            raise ConfigError(
                f"prm.value must be the name of an annotation without '.next', got {short_repr(self.value)}"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        """The annotation that these parameters name."""
        return (self.value,)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        numbers = turn_values(group, self.value, scheme=self.name)
        if self.form == "increase":
            numbers = turn_values(group, f"{self.value}.next", scheme=self.name) - numbers
        labels, scores = np.zeros(len(numbers), np.int32), numbers - self.penalties(group)
        to_go = backward_sums(normalize(scores, labels, 1, quantity="step reward"), group.arrays.offsets, 1.0)
        return Credit.of(group, step={"step rewards to go": to_go}, rewards=numbers)
