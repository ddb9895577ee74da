"""Turn groups with credit into rows of TRL's batch: a prompt, a completion and an advantage for each of its tokens.

An episode is one row; with a windowed history, in which every turn has a prompt of its own, each of its turns is one. The
prompt is everything before the first token in the loss; the rest is the completion, in which the tokens of the environment
are masked. NumPy only, so that the contract "the array in the loss is the scheme's" is tested without TRL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.policy.samples import Row, make_rows
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group

__all__ = ["TrlColumns", "group_tasks", "make_columns"]


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
                "these episodes have pictures, and the rows for TRL hold tokens alone: train such a model with "
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
    place = row.target - start
    mask = np.zeros(len(row) - start, np.int64)
    logprob, advantage = np.zeros(len(mask)), np.zeros(len(mask))
    mask[place], logprob[place], advantage[place] = 1, row.sampler_logprob, row.advantage
    return TrlColumns(
        row.ids[:start].tolist(), row.ids[start:].tolist(), mask.tolist(), logprob.tolist(), advantage.tolist()
    )
