"""SAPO of August 2026: GAE over turns from values that the policy itself predicts, whitened over the turns of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.actor_critic import MTPPO, Estimate
from creditflow.wrappers.credit.registry import register

__all__ = ["SingleRolloutSAPO"]


@register
@dataclass(frozen=True, kw_only=True)
class SingleRolloutSAPO(MTPPO):
    """A_t = (Â_t − mean Â) / std Â over the turns of the batch, Â_t = δ_t + γλ Â_{t+1}, δ_t = r_t + γ V(s_{t+1}) − V(s_t).

    This is Single-Rollout Autoregressive Policy Optimization. It is neither ``sapo``, which reads entities, nor Search
    Agent Policy Optimization. Each task is played once. The batch is whitened over turns of different tasks, so no
    group of the same task is needed, and a response counts once regardless of its length.

    The paper's policy predicts V before and Q after each response, as the difference of the logits of two reserved
    tokens, and learns V towards Â + V and Q towards the next Q (SARSA). Q only serves as an auxiliary loss. It does not
    enter the advantage and is not offered here. V is the annotation "value.critic" of the critic that is trained.

    The formula is from notes of others on the paper, which could not be read itself. The following choices are ours,
    because the paper's were not found: γ = λ = 1, no eps, the size of the penalty for invalid actions (0), and no
    bootstrap after a truncated episode. The scheme equals ``steppo`` with ``whitening=True``, except that the loss is
    averaged over tokens here.
    """

    name = "sapo_single_rollout"
    source = (
        "SAPO, Single-Rollout Autoregressive Policy Optimization (arXiv 2608.19842). The formula is from secondary "
        "sources"
    )
    verification = "the abstract and secondary sources (no code found, γ and λ are ours)"
    limitations = (
        "Its credit is only as good as its critic. Whitening shifts the credit of a batch by its mean, so equal "
        "trajectories get non-zero credit, and an easy task raises the bar for the hard tasks of its batch."
    )

    def whitening_weights(self, estimate: Estimate) -> NDArray[np.int64]:
        """int (M,): 1 for every turn, which is one sample."""
        return np.ones(len(estimate.advantages), np.int64)
