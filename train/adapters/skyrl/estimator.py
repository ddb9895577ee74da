"""SkyRL's advantage estimator for rewards that are already credit: each turn's number on all tokens of the turn.

Register it where SkyRL's own are (its trainer needs Python 3.12)::

    from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator
    register_advantage_estimator("creditflow")(spread_over_turns)
"""

from __future__ import annotations

from typing import Any

from creditflow.envs.errors import TrajectoryError

__all__ = ["spread_over_turns"]


def spread_over_turns(token_level_rewards: Any, response_mask: Any, **_: Any) -> tuple[Any, Any]:
    """Advantages and returns, both (B, T): the reward on the last token of each run of the mask, over the run.

    Args:
        token_level_rewards: float (B, T), what ``credit_output`` wrote, padded by SkyRL.
        response_mask: (B, T), 1 for sampled tokens.
        **_: what SkyRL passes to every estimator.

    Raises:
        TrajectoryError: a number on a token that does not end a turn: rewards that are not credit, or with a KL penalty.
    """
    import torch

    mask = response_mask.to(torch.bool)
    starts = mask.clone()
    starts[:, 1:] &= ~mask[:, :-1]
    ends = mask.clone()
    ends[:, :-1] &= ~mask[:, 1:]
    if bool(((token_level_rewards != 0) & ~ends).any()):
        raise TrajectoryError(
            "there is a reward on a token that does not end a turn: let credit_output write the rewards, and set "
            "trainer.algorithm.use_kl_in_reward=false"
        )
    run = starts.to(torch.long).cumsum(-1) * mask
    totals = torch.zeros(mask.shape[0], mask.shape[1] + 1, dtype=token_level_rewards.dtype, device=mask.device)
    totals.scatter_add_(1, run, token_level_rewards * ends)
    advantages = totals.gather(1, run) * mask
    return advantages, advantages
