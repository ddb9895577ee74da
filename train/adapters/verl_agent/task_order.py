"""Which tasks an environment manager plays, rollout after rollout: no two groups of one rollout have the same task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.tasks import Task, TaskSource
from creditflow.train.adapters.verl_agent.settings import plain

__all__ = ["TaskOrder", "given_tasks"]

_MAX_REDRAWS: Final = 50  # samples per task before an endless source counts as too small


class TaskOrder:
    """Draws ``count`` different tasks at a time.

    Args:
        source: tasks of the environment.
        count: groups per rollout.
        seed: of the order.
        fixed: the same tasks every time, the first of the source: for validation.

    Raises:
        ConfigError: the source has fewer tasks.
    """

    def __init__(self, source: TaskSource, count: int, seed: int, *, fixed: bool) -> None:
        self._source, self._count, self._fixed = source, count, fixed
        self._rng = np.random.default_rng([seed, 3])
        self._ids = list(source.task_ids())
        if self._ids and len(self._ids) < count:
            raise ConfigError(
                f"{count} groups need as many tasks, the source has {len(self._ids)}: lower data.train_batch_size (or "
                "data.val_batch_size), or name a larger source in env.creditflow"
            )
        self._left: list[str] = []
        self._first: list[Task] = []

    def draw(self) -> list[Task]:
        """The tasks of the next rollout. A finite source is played through in random order, again and again."""
        if self._fixed:
            self._first = self._first or (
                [self._source.get(name) for name in self._ids[: self._count]] if self._ids else self._sample()
            )
            return list(self._first)
        if not self._ids:
            return self._sample()
        taken, self._left = self._left[: self._count], self._left[self._count :]
        if len(taken) < self._count:  # the next round through the source, without the tasks just taken
            order = [self._ids[i] for i in self._rng.permutation(len(self._ids)).tolist()]
            missing = self._count - len(taken)
            fresh = [name for name in order if name not in taken][:missing]
            self._left = [name for name in order if name not in fresh]
            taken += fresh
        return [self._source.get(name) for name in taken]

    def _sample(self) -> list[Task]:
        found: dict[str, Task] = {}
        for _ in range(_MAX_REDRAWS * self._count):
            if len(found) == self._count:
                break
            task = self._source.sample(self._rng)
            found.setdefault(task.task_id, task)
        else:
            raise ConfigError(f"the source gave only {len(found)} different tasks for {self._count} groups")
        return list(found.values())


def given_tasks(kwargs: Sequence[Any], source: TaskSource, size: int) -> list[Task]:
    """The tasks that a data set names in its column ``env_kwargs``, one per group.

    Args:
        kwargs: per episode ``{"task": JSON text or mapping}`` or ``{"task_id": …}``, or both of one task; equal within a group.
            None counts as missing, as parquet fills columns with it; other keys are not looked at.
        source: tasks of the environment.
        size: episodes per group.

    Raises:
        DataError: an entry without a task, a task that is not that of its id, or different tasks within a group.
    """
    entries = [_entry(i, item) for i, item in enumerate(kwargs)]
    if not entries or len(entries) % size:
        raise DataError(f"env_kwargs has {len(entries)} entries, which are no whole groups of {size}")
    tasks = []
    for start in range(0, len(entries), size):
        same = entries[start : start + size]
        if any(item != same[0] for item in same):
            raise DataError(
                f"env_kwargs {start} to {start + size - 1} are one group of {size} episodes, but name different tasks"
            )
        tasks.append(_task(same[0], source, f"env_kwargs {start}"))
    return tasks


def _task(named: Mapping[str, Any], source: TaskSource, where: str) -> Task:
    if "task" not in named:
        return source.get(str(named["task_id"]))
    content = named["task"]
    task = source.from_content(parse_json(content, where=where) if isinstance(content, str) else content)
    if named.get("task_id", task.task_id) != task.task_id:
        raise DataError(
            f"{where}: the task is {task.task_id!r}, not {short_repr(named['task_id'], 80)}; give one of the two"
        )
    return task


def _entry(i: int, item: Any) -> dict[str, Any]:
    named = (
        {name: plain(item[name]) for name in ("task", "task_id") if item.get(name) is not None}
        if isinstance(item, Mapping)
        else {}
    )
    if not named:
        keys = sorted(map(str, item)) if isinstance(item, Mapping) else short_repr(item)
        raise DataError(
            f"env_kwargs {i} names no task: it needs 'task' (content, as JSON text) or 'task_id', got {keys}; without the "
            "column env_kwargs the manager draws tasks itself"
        )
    return named
