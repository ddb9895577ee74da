"""Turn groups with credit into rows of TRL's batch: a prompt, a completion and an advantage for each of its tokens.

An episode is one row; with a windowed history, in which every turn has a prompt of its own, each of its turns is one. The
prompt is everything before the first token in the loss; the rest is the completion, in which the tokens of the environment
are masked. NumPy only, so that the contract "the array in the loss is the scheme's" is tested without TRL.

The adapter depends on a private hook of TRL, so it names the releases that its contract tests ran with, and it rejects
settings that would change the advantages, the mask or the sampling distribution, before a model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr
from creditflow.train.adapters.releases import Releases
from creditflow.train.policy.samples import Row, make_rows
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.records.group import Group

__all__ = [
    "LOSS_TYPE_AGGREGATION",
    "TRL",
    "TrlColumns",
    "check_arguments",
    "check_averaging",
    "group_tasks",
    "make_columns",
]


@dataclass(frozen=True, slots=True)
class TrlColumns:
    """One row in TRL's format; the last four lists have the length of ``completion_ids``.

    Attributes:
        prompt_ids: token ids before the first token in the loss.
        completion_ids: all token ids from there on.
        loss_mask: 1 for tokens in the loss, 0 for tokens of the environment and of turns outside the loss.
        logprobs: log-probabilities under the sampler, 0 where the mask is 0.
        advantages: advantages of the credit scheme, 0 where the mask is 0.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    advantages: list[float]


def group_tasks(prompts: Sequence[str], size: int) -> list[str]:
    """The task of each group in a process's batch of prompts, which are task ids repeated ``size`` times each.

    >>> group_tasks(["a", "a", "b", "b"], 2)
    ['a', 'b']

    Raises:
        ConfigError: a group is not whole, or a task has two groups.
    """
    chunks = [prompts[i : i + size] for i in range(0, len(prompts), size)]
    if any(len(chunk) != size or len(set(chunk)) != 1 for chunk in chunks):
        raise ConfigError(
            f"this process got {len(prompts)} prompts that are not whole groups of {size}: credit compares episodes of "
            "one task, so per_device_train_batch_size × steps_per_generation (when evaluating: "
            "per_device_eval_batch_size) must be a multiple of the number of generations"
        )
    names = [chunk[0] for chunk in chunks]
    if any(a == b for a, b in pairwise(sorted(names))):
        raise ConfigError("a task has two groups in one batch, which would play the same episodes: list each task once")
    return names


def make_columns(
    groups: Sequence[Group], credits_: Sequence[Credit], names: Sequence[str], *, size: int, filler: int
) -> list[list[TrlColumns]]:
    """Build the rows of every episode, group by group in the order of ``names``.

    An episode without a token in the loss (it failed to start, or every turn is masked) becomes one masked token,
    because TRL needs a row for every prompt.

    Args:
        groups, credits_: groups and their credit; groups that failed to start are absent.
        names: task ids in the order of the batch.
        size: episodes per group.
        filler: token id of the masked token.

    Raises:
        TrajectoryError: a group of another size; a row with pictures, which TRL would not pass to the model.
    """
    rows: dict[int, list[TrlColumns]] = {}
    for row in make_rows(groups, credits_):
        if row.pictures:
            raise TrajectoryError(
                "these episodes have pictures, but the rows for TRL contain only tokens: train such a model with "
                "creditflow's own trainer"
            )
        rows.setdefault(row.trajectory, []).append(_columns(row))
    nothing = [TrlColumns([filler], [filler], [0], [0.0], [0.0])]
    by_task: dict[str, list[list[TrlColumns]]] = {}
    number = 0
    for group in groups:
        if len(group) != size:
            raise TrajectoryError(f"group {group.group_id!r} has {len(group)} episodes, expected {size}")
        by_task[group.task_id] = [rows.get(i, nothing) for i in range(number, number + size)]
        number += size
    return [episode for name in names for episode in by_task.get(name, [nothing] * size)]


def _columns(row: Row) -> TrlColumns:
    start = int(row.target[0])
    position = row.target - start
    mask = np.zeros(len(row) - start, np.int64)
    logprob, advantage = np.zeros(len(mask)), np.zeros(len(mask))
    mask[position], logprob[position], advantage[position] = 1, row.sampler_logprob, row.advantage
    return TrlColumns(
        row.ids[:start].tolist(), row.ids[start:].tolist(), mask.tolist(), logprob.tolist(), advantage.tolist()
    )


# release 1.15 computes log-probabilities with Triton only, which has no CPU path to test
TRL: Final = Releases("trl", "TRL", "1.16", "1.17", "replaces the output of one of TRL's private methods")
# loss_type -> its loss aggregation; the contract tests cover these and no others. "dapo" averages over all tokens of a
# generation batch, "bnpo" over those of each micro-batch.
LOSS_TYPE_AGGREGATION: Final[Mapping[str, Aggregation]] = {
    "dapo": "token_mean",
    "bnpo": "token_mean",
    "cispo": "token_mean",
    "grpo": "trajectory_mean",
}
# setting -> values that leave sampling, mask and advantages as this adapter computed them
_REQUIRED_SETTINGS: Final[Mapping[str, tuple[Any, ...]]] = {
    "top_p": (1.0,),
    "top_k": (0, -1, None),
    "min_p": (None, 0.0),
    "repetition_penalty": (1.0,),
    "use_vllm": (False,),
    "use_liger_kernel": (False,),
    "mask_truncated_completions": (False,),
    "importance_sampling_level": ("token",),
    "top_entropy_quantile": (1.0,),
    "off_policy_mask_threshold": (None,),
    "delta": (None,),
}


def check_arguments(args: Any, tasks: int, *, windowed: bool = False) -> None:
    """Raise ConfigError for settings under which groups would be split or advantages changed.

    Args:
        args: a ``GRPOConfig``.
        tasks: number of training tasks.
        windowed: whether every turn is a row of its own.
    """
    local = args.train_batch_size * args.steps_per_generation
    if local % args.num_generations:
        raise ConfigError(
            "credit needs whole groups in one process: per_device_train_batch_size × steps_per_generation must be a "
            f"multiple of num_generations, got {args.train_batch_size} × {args.steps_per_generation} = {local} and "
            f"{args.num_generations}"
        )
    groups = args.generation_batch_size // args.num_generations
    if tasks < groups:
        raise ConfigError(
            f"one generation batch plays {groups} different tasks, but there are only {tasks}: pass more tasks, or lower "
            "per_device_train_batch_size or steps_per_generation"
        )
    if args.loss_type not in LOSS_TYPE_AGGREGATION:
        raise ConfigError(
            f"loss_type {args.loss_type!r} is not covered by the contract tests; covered: {', '.join(LOSS_TYPE_AGGREGATION)}"
        )
    if windowed and LOSS_TYPE_AGGREGATION[args.loss_type] != "token_mean":
        fitting = ", ".join(name for name, kind in LOSS_TYPE_AGGREGATION.items() if kind == "token_mean")
        raise ConfigError(
            f"loss_type {args.loss_type!r} averages over rows, and with a windowed history a row is a turn: take one of "
            f"{fitting} (with averaging='loss_type', if the scheme averages otherwise), or history='append'"
        )
    if not args.temperature > 0.0:
        raise ConfigError(f"temperature must be positive, got {short_repr(args.temperature)}")
    for name, allowed in _REQUIRED_SETTINGS.items():
        value = getattr(args, name, allowed[0])
        if value not in allowed:
            raise ConfigError(
                f"{name}={value!r} would change what is sampled or what enters the loss; this adapter needs "
                f"{name}={allowed[0]!r}"
            )


def check_averaging(wanted: Aggregation, loss_type: str) -> None:
    """Raise ConfigError unless the loss type aggregates token losses as the scheme requires."""
    if LOSS_TYPE_AGGREGATION[loss_type] != wanted:
        fitting = ", ".join(name for name, kind in LOSS_TYPE_AGGREGATION.items() if kind == wanted) or "none"
        raise ConfigError(
            f"the scheme averages token losses by {wanted}, loss_type {loss_type!r} by {LOSS_TYPE_AGGREGATION[loss_type]}; loss "
            f"types that fit: {fitting}. averaging='loss_type' uses TRL's averaging instead"
        )
