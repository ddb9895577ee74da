"""Credit per sampled token in tinker's datums.

tinker-cookbook computes one advantage per trajectory and has no hook for another, so its training loop's function is replaced,
once, before training::

    from tinker_cookbook.rl import train
    train.assemble_training_data = assemble_credit_data
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.train.adapters.tinker.env import ADVANTAGE
from creditflow.wrappers.records.trajectory import is_number

__all__ = ["assemble_credit_data", "credit_datums"]


def assemble_credit_data(
    trajectory_groups_P: Sequence[Any],  # noqa: N803 - tinker-cookbook passes it by this name
    advantages_P: Any = None,  # noqa: N803 - likewise
    include_provenance: bool = True,
) -> tuple[list[Any], list[dict[str, int]]]:
    """The datums of whole groups, with the interface of tinker-cookbook's ``assemble_training_data``.

    Args:
        trajectory_groups_P: groups that ``CreditGroupBuilder`` credited.
        advantages_P: one number per trajectory, which is not used.
        include_provenance: as in tinker-cookbook.

    Raises:
        TrajectoryError: see ``credit_datums``.
    """
    del advantages_P
    data, places = list[Any](), list[dict[str, int]]()
    for g, group in enumerate(trajectory_groups_P):
        for i, trajectory in enumerate(group.trajectories_G):
            new = credit_datums(trajectory, include_provenance=include_provenance)
            data += new
            places += [{"group_idx": g, "traj_idx": i} for _ in new]
    return data, places


def credit_datums(trajectory: Any, *, include_provenance: bool = True) -> list[Any]:
    """tinker-cookbook's own datums of a trajectory, each sampled token with the number of its turn.

    Raises:
        TrajectoryError: a transition without credit, or whose tokens tinker-cookbook masks out.
    """
    import torch
    from tinker import TensorData
    from tinker_cookbook.rl.data_processing import trajectory_to_data

    numbers: list[float] = []
    for t, step in enumerate(trajectory.transitions):
        number = step.metrics.get(ADVANTAGE)
        if step.ac.tokens and not is_number(number):
            raise TrajectoryError(
                f"transition {t} has no credit under {ADVANTAGE!r} (got {short_repr(number)}): let CreditGroupBuilder, "
                "with a scheme, make and credit the group"
            )
        numbers += [number] * len(step.ac.tokens)
    data = trajectory_to_data(trajectory, 1.0, include_provenance=include_provenance)
    masks = [datum.loss_fn_inputs["mask"].to_torch() > 0 for datum in data]
    if sum(int(mask.sum()) for mask in masks) != len(numbers):
        raise TrajectoryError(
            "tinker-cookbook masks sampled tokens out of the loss: set no ParseErrorPolicy.mask_error_turns"
        )
    begin = 0
    for datum, mask in zip(data, masks, strict=True):
        end = begin + int(mask.sum())
        advantages = torch.zeros(mask.shape)
        advantages[mask] = torch.tensor(numbers[begin:end])
        datum.loss_fn_inputs["advantages"] = TensorData.from_torch(advantages)
        begin = end
    return list(data)
