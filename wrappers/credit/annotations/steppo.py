"""StepPO: GAE over turns with a critic, whitened over the turns of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.actor_critic import MTPPO, Estimate
from creditflow.wrappers.credit.base import Aggregation
from creditflow.wrappers.credit.registry import register

__all__ = ["StepPO"]


@register
@dataclass(frozen=True, kw_only=True)
class StepPO(MTPPO):
    """A_t = Σ_l (γλ)^l δ_{t+l}, δ_t = r_t + γ V(s_{t+1}) − V(s_t): one turn is one step of the decision process.

    V is evaluated at the last prompt token before the action, and is 0 after the end, also of a truncated episode. The
    value targets are A + V before whitening. It differs from ``mt_ppo`` in the whitening. The released code whitens
    over all **turns** of the batch, not over tokens, by √(sample variance + 1e-8). The paper's text mentions no
    whitening (our reading).

    γ and λ are 1 in the released code (γ .99 in its HotpotQA script). Paper and code multiply this advantage by one
    importance ratio per turn, clipped at 3e-4 / 4e-4 on ALFWorld (``update.loss.ratio: turn``), and average over turns.
    ``aggregation`` is "turn_mean", which averages over the turns of a trajectory first.
    """

    name = "steppo"
    source = "StepPO (arXiv 2604.18401). Released code: AgentR1/StepPO @ 26107f1, arft/core_algos.py, lines 60 to 139"
    verification = "notes on the paper and the released code, which was read but not run"
    limitations = (
        "Its credit is only as good as its critic. A truncated episode has value 0 after its last turn. The paper's "
        "ratio per turn with its narrow clip is a setting of the loss."
    )
    presets = {"paper": {}, "release": {"whitening": True, "std_eps": 1e-8}}
    aggregation: ClassVar[Aggregation] = "turn_mean"

    whitening: bool = False

    def whitening_weights(self, estimate: Estimate) -> NDArray[np.int64]:
        """int (M,): 1 for every turn, which is one sample."""
        return np.ones(len(estimate.advantages), np.int64)
