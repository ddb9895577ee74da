"""Training samples of a success model: labelled, encoded episodes, their split by task, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.encoding import Encoded, Encoder, EpisodeTooLongError
from creditflow.train.annotate.success.labels import Labels
from creditflow.wrappers.records.group import Group

__all__ = ["Sample", "batch_indices", "labelled_samples", "split_samples"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One labelled episode with T turns.

    Attributes:
        episode: ids and T + 1 turn ends.
        pivot, non_pivot: bool (T+1,), the label of the turn that ends there; False at the question and in a shared prefix.
        success: the outcome.
        task_id: the task.
    """

    episode: Encoded
    pivot: NDArray[np.bool_]
    non_pivot: NDArray[np.bool_]
    success: bool
    task_id: str


def labelled_samples(
    groups: Sequence[Group], labels: Mapping[tuple[str, str], Labels], encoder: Encoder, *, skip_long: bool = False
) -> tuple[list[Sample], int]:
    """Samples of all labelled episodes with turns, and the number of those that were too long.

    Raises:
        DataError: labels that match no trajectory, or not the turns of theirs; nothing labelled; or an episode is too
            long and ``skip_long`` is False.
    """
    samples, skipped = [], 0
    unused = set(labels)
    for group in groups:
        for i, member in enumerate(group.trajectories):
            entry = labels.get((group.group_id, member.trajectory_id))
            if entry is None:
                continue
            entry.check(member)
            unused.discard((group.group_id, member.trajectory_id))
            if not member.turns:
                continue
            try:
                episode = encoder.encode_member(group, i)
            except EpisodeTooLongError:
                if not skip_long:
                    raise
                skipped += 1
                continue
            turn_labels = np.array([""] * (episode.shared + 1) + list(entry.turn_labels))
            samples.append(Sample(episode, turn_labels == "+", turn_labels == "-", entry.success, group.task_id))
    if unused:
        group_id, trajectory_id = sorted(unused)[0]
        raise DataError(
            f"{len(unused)} labels belong to no trajectory of the log, the first to {trajectory_id!r} of group "
            f"{group_id!r}: do they belong to another log?"
        )
    if not samples:
        raise DataError(f"no labelled episode with turns ({skipped} were too long)")
    return samples, skipped


def split_samples(samples: Sequence[Sample], valid: float, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Training and validation samples, split by task.

    Args:
        samples: all of them.
        valid: fraction of the tasks for validation.
        seed: random seed.

    Raises:
        DataError: no task is left for training.
    """
    tasks = sorted({sample.task_id for sample in samples})
    order = np.random.default_rng([seed, 0]).permutation(len(tasks))
    held_out = {tasks[i] for i in order[: round(valid * len(tasks))].tolist()}
    train = [sample for sample in samples if sample.task_id not in held_out]
    if not train:
        raise DataError(f"{len(tasks)} tasks and data.valid={valid} leave none to train on")
    return train, [sample for sample in samples if sample.task_id in held_out]


def batch_indices(count: int, size: int, step: int, seed: int) -> list[int]:
    """Indices of the samples of a step: epochs, each in its own order, one after the other."""
    first = step * size
    epochs = range(first // count, (first + size - 1) // count + 1)
    order = np.concatenate([np.random.default_rng([seed, 1, epoch]).permutation(count) for epoch in epochs])
    start = first - epochs[0] * count
    indices: list[int] = order[start : start + size].tolist()
    return indices
