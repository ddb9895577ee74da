"""From scored groups to the columns of TRL's batch: one prompt and one completion per episode, numbers per token.

What the model read before its first answer is the prompt; everything after is the completion, in which what the
environment wrote is masked. NumPy only: this is where the contract "the array in the loss is ours" begins.
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

__all__ = ["Columns", "columns_of", "tasks_of"]


@dataclass(frozen=True, slots=True)
class Columns:
    """One episode as TRL takes it; the last four lists have the length of ``completion_ids``.

    Attributes:
        prompt_ids: token ids before the model's first token in the loss.
        completion_ids: all token ids from there on.
        loss_mask: 1 for the model's tokens that are in the loss, 0 for what the environment wrote.
        logprobs: the sampler's, 0 where the mask is 0.
        advantages: ours, 0 where the mask is 0.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    advantages: list[float]


def tasks_of(prompts: Sequence[str], size: int) -> list[str]:
    """The task of each group in a process's batch of prompts, which are task ids repeated ``size`` times each.

    >>> tasks_of(["a", "a", "b", "b"], 2)
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


def columns_of(
    groups: Sequence[Group], credits_: Sequence[Credit], names: Sequence[str], *, size: int, filler: int
) -> list[Columns]:
    """Columns of all episodes, group by group in the order of ``names``.

    An episode with nothing to learn from (it never began, or every turn is outside the loss) is one masked token:
    TRL needs a row for every prompt.

    Args:
        groups, credits_: scored groups; those that could not begin are left out.
        names: task ids wanted.
        size: episodes per group.
        filler: id of the masked token.

    Raises:
        TrajectoryError: a group of another size; an episode that needs several rows (a windowed history, a branch).
    """
    rows: dict[int, Row] = {}
    for row in make_rows(groups, credits_):
        if row.trajectory in rows or row.only_turn >= 0:
            raise TrajectoryError("TRL takes one row per episode: play with an append-only history and no branches")
        rows[row.trajectory] = row
    nothing = Columns([filler], [filler], [0], [0.0], [0.0])
    found: dict[str, list[Columns]] = {}
    number = 0
    for group in groups:
        if len(group) != size:
            raise TrajectoryError(f"group {group.group_id!r} has {len(group)} episodes, expected {size}")
        members = range(number, number + size)
        found[group.task_id] = [_columns(rows[i]) if i in rows else nothing for i in members]
        number += size
    return [one for name in names for one in found.get(name, [nothing] * size)]


def _columns(row: Row) -> Columns:
    start = int(row.target[0])
    place = row.target - start
    mask = np.zeros(len(row) - start, np.int64)
    logprob, advantage = np.zeros(len(mask)), np.zeros(len(mask))
    mask[place], logprob[place], advantage[place] = 1, row.sampler_logprob, row.advantage
    return Columns(
        row.ids[:start].tolist(), row.ids[start:].tolist(), mask.tolist(), logprob.tolist(), advantage.tolist()
    )
