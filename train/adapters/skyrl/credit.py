"""Credit in the output of SkyRL's generator: each turn's number on its last token. NumPy only.

SkyRL's estimators see rewards and masks but no states, so credit is computed where whole groups and the episodes' records are:
on ``GeneratorOutput``, whose rewards may be lists per token. ``spread_over_turns`` then puts each number on
the tokens of its turn. Register it where SkyRL's own estimators are (its trainer needs Python 3.12)::

    from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator
    register_advantage_estimator("creditflow")(spread_over_turns)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import (
    FIELD,
    assign_episodes,
    per_run,
    read_record,
    require_plain,
    sampled_runs,
)

__all__ = ["credit_output", "credited", "spread_over_turns"]


def credit_output(output: Mapping[str, Any], scheme: Scheme) -> dict[str, Any]:
    """The output with credit as token rewards.

    The rewards that SkyRL logs are then sums of advantages; success and return are among the environment's metrics.

    Args:
        output: SkyRL's ``GeneratorOutput`` of episodes in ``CreditTextEnv``, one row per episode.
        scheme: credit scheme.

    Raises:
        ConfigError: step-wise rows, of which SkyRL reads outcomes only; rows without trajectory ids; an unfitting scheme.
        TrajectoryError: a group of one, rows without records, or with another number of sampled spans than turns (tokens as
            sampled need ``generator.use_conversation_multi_turn=true``).
    """
    require_plain(scheme)
    ids, metrics, masks = output.get("trajectory_ids"), output.get("env_metrics"), output["loss_masks"]
    if output.get("is_last_step") is not None:
        raise ConfigError(
            "step-wise rows get outcome credit alone in SkyRL: set generator.step_wise_trajectories=false"
        )
    if ids is None or metrics is None or not len(ids) == len(metrics) == len(masks):
        raise ConfigError(
            "credit needs trajectory_ids and env_metrics of every row, as SkyRL's trainer and generator set them"
        )
    names = [str(identity.instance_id) for identity in ids]
    episodes = [read_record(each.get(FIELD), identity.to_string()) for each, identity in zip(metrics, ids, strict=True)]
    rewards = list[list[float]]()
    for (played, per_turn), mask in zip(assign_episodes(episodes, names, scheme), masks, strict=True):
        row, runs = [0.0] * len(mask), sampled_runs(mask)
        rewards.append(row)
        if mask and not runs:
            continue  # the generator left the whole row out of the loss (apply_overlong_filtering)
        for (_, stop), number in zip(runs, per_run(played, per_turn, len(runs)), strict=True):
            row[stop - 1] = number
    reported = [dict(each) for each in metrics]
    for each in reported:
        del each[FIELD]
    return {**output, "rewards": rewards, "env_metrics": reported}


def credited(generator: type[Any], scheme: Scheme) -> type[Any]:
    """A subclass of a generator of SkyRL whose training output carries credit; evaluation output is left alone."""

    class CreditGenerator(generator):  # type: ignore[misc]  # a class of the caller's
        async def generate(self, input_batch: Any, *args: Any, **others: Any) -> Any:
            output = await super().generate(input_batch, *args, **others)
            batch = input_batch.get("batch_metadata")
            if batch is not None and batch.training_phase == "eval":
                return output
            ids = output.get("trajectory_ids")  # SkyRL's own generator leaves None where rows are whole episodes
            named = {**output, "trajectory_ids": input_batch.get("trajectory_ids") if ids is None else ids}
            return {**credit_output(named, scheme), "trajectory_ids": ids}

    return CreditGenerator


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
