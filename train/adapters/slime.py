"""slime: credit where it sees all samples of a batch, carried to its ranks in ``rewards``, one number per response token.

Three arguments, and the scheme in the file that ``--custom-config-path`` names (``creditflow_scheme: graphgpo``)::

    --custom-reward-post-process-path creditflow.train.adapters.slime.credit_rewards
    --custom-advantage-function-path creditflow.train.adapters.slime.write_advantages
    --disable-rewards-normalization

slime forwards a fixed list of keys to its ranks; ``rewards`` is on it and stays as it is given. A generate function plays one of
our environments (``TextEpisode``) and leaves its record in ``sample.metadata["creditflow"]``, with a loss mask that separates
completions by the environment's tokens. Read and tested at commit 624b824 (release 0.3.1); context parallelism was not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from creditflow.wrappers.credit.bridge import FIELD, Played, assign_episodes, over_mask, read_record
from creditflow.wrappers.credit.registry import make

__all__ = ["credit_rewards", "write_advantages"]


def credit_rewards(
    args: Any, samples: list[Any], *, read: Callable[[Any], Played] | None = None
) -> tuple[list[float], list[list[float]]]:
    """Per sample its recorded reward, and a list (response_length,): the advantage of its turn on each sampled token.

    Args:
        args: slime's; ``creditflow_scheme`` names the scheme, ``creditflow_parameters`` its parameters.
        samples: all of a batch; ``group_index`` names the group.
        read: the episode of a sample; default its record.

    Raises:
        TrajectoryError: a sample without record, or with other completions than turns.
        ConfigError: a scheme that reads annotations, credits tokens or learns a critic.
    """
    scheme = make(getattr(args, "creditflow_scheme", "gigpo"), **getattr(args, "creditflow_parameters", {}))
    read = read or (lambda sample: read_record(sample.metadata.get(FIELD), str(sample.index)))
    names = [str(sample.group_index) for sample in samples]
    scored = assign_episodes([read(sample) for sample in samples], names, scheme)
    pairs = zip(scored, samples, strict=True)
    rewards = [over_mask(played, per_turn, sample.loss_mask) for (played, per_turn), sample in pairs]
    return [sample.get_reward_value(args) for sample in samples], rewards


def write_advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """Fill ``advantages`` and ``returns`` with the lists in ``rewards``, as this rank holds their tokens."""
    import torch
    from slime.backends.megatron_utils.cp_utils import slice_log_prob_with_cp

    del args
    columns = zip(rollout_data["rewards"], rollout_data["total_lengths"], rollout_data["response_lengths"], strict=True)
    device = rollout_data["kl"][0].device
    slices = [slice_log_prob_with_cp(list(row), total, response) for row, total, response in columns]
    rollout_data["advantages"] = [torch.tensor(row, dtype=torch.float32, device=device) for row in slices]
    rollout_data["rewards"] = [sum(row) / max(len(row), 1) for row in slices]  # slime logs the mean of what stands here
    rollout_data["returns"] = [row.clone() for row in rollout_data["advantages"]]
