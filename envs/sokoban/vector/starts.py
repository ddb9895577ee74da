"""Which task begins in which environment: seeds, groups of identical starts, the options of ``reset``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.reset_options import RESET_OPTIONS, read_reset_options
from creditflow.envs.tasks import Task, TaskSource

__all__ = ["VECTOR_OPTIONS", "Starts"]

VECTOR_OPTIONS: Final = ("reset_mask", "task_ids")
Ints = npt.NDArray[np.int64]


class Starts:
    """Chooses tasks: each environment has a random generator of its own, as so many single environments would.

    The members of a group have equal generators, so the n-th episode of each begins in the same state, whatever the
    lengths of the episodes before.

    Args:
        tasks: source of tasks.
        num_envs: number of environments.
        group_size: consecutive environments that begin alike.

    Attributes:
        rngs: the generators, one per environment; made by the first ``seed``.
        first_seed: the seed of environment 0.
    """

    def __init__(self, tasks: TaskSource, num_envs: int, group_size: int) -> None:
        self.tasks, self.num_envs, self.group_size = tasks, num_envs, group_size
        self.rngs: list[np.random.Generator] = []
        self.first_seed = 0

    def seed(self, seed: int | Sequence[int | None] | None, which: Ints) -> None:
        """Seed generators: group g with ``seed + g``, or with its entry of a list; None keeps those that exist.

        Args:
            seed: one seed, or a list with one entry per group.
            which: numbers of the environments that are reset.

        Raises:
            ConfigError: a list of another length, or something else.
        """
        groups = self.num_envs // self.group_size
        if seed is None:
            seeds: list[int | None] = [None] * groups
        elif isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            seeds = [int(seed) + group for group in range(groups)]
        elif isinstance(seed, (list, tuple)) and len(seed) == groups:
            seeds = list(seed)
        else:
            kind = "environment" if self.group_size == 1 else f"group of {self.group_size} environments"
            raise ConfigError(
                f"seed must be None, an integer, or a list with one entry per {kind} ({groups}), got {short_repr(seed)}"
            )
        if not self.rngs:
            generators = [seeding.np_random(seeds[number // self.group_size]) for number in range(self.num_envs)]
            self.rngs, self.first_seed = [rng for rng, _ in generators], generators[0][1]
            self._join(np.arange(self.num_envs))
            return
        for number in which.tolist():
            env_seed = seeds[number // self.group_size]
            if env_seed is not None:
                self.rngs[number], used = seeding.np_random(env_seed)
                self.first_seed = self.first_seed if number else used

    def _join(self, which: Ints) -> None:
        """Let the members of a group continue as the first of them that is reset."""
        if self.group_size == 1:
            return
        first: dict[int, int] = {}
        for number in which.tolist():
            leader = first.setdefault(number // self.group_size, number)
            self.rngs[number].bit_generator.state = self.rngs[leader].bit_generator.state

    def sample(self, which: Ints) -> list[Task]:
        """Sample the next task of each of these environments."""
        return [self.tasks.sample(self.rngs[number]) for number in which.tolist()]

    def choose(self, which: Ints, options: Mapping[str, Any]) -> list[Task]:
        """Return the tasks that the options of ``reset`` name, else sampled ones, equal within a group.

        Args:
            which: numbers of the environments that are reset.
            options: ``task_id`` or ``task`` for all, or ``task_ids``, one for each of the N environments.

        Raises:
            UnknownTaskError: the source does not have an id.
            ConfigError: an unknown option, or a value of the wrong type.
            DataError: a malformed payload, or one of another task than the id's.
        """
        options = dict(options)
        for name in options:
            if name not in (*RESET_OPTIONS, *VECTOR_OPTIONS):
                raise unknown_name_error("option of reset", str(name), (*RESET_OPTIONS, *VECTOR_OPTIONS))
        options.pop("reset_mask", None)
        self._join(which)
        ids = options.pop("task_ids", None)
        if ids is not None:
            if options.get("task_id") is not None or options.get("task") is not None:
                raise ConfigError("options: task_ids has a task for every environment; leave task_id and task out")
            if isinstance(ids, str) or not isinstance(ids, Sequence) or len(ids) != self.num_envs:
                raise ConfigError(
                    f"options['task_ids'] must be a list of {self.num_envs} ids, one per environment, got {short_repr(ids)}"
                )
            return [self.tasks.get(read_reset_options({"task_id": ids[number]}).task_id or "") for number in which]
        task_id, payload = read_reset_options(options)
        if payload is not None:
            task = self.tasks.from_content(payload)
            if task_id is not None and task.task_id != task_id:
                raise DataError(
                    f"options['task'] is the payload of task {task.task_id!r}, not of {short_repr(task_id, 80)}; "
                    "give one of the two, or both of the same task"
                )
            return [task] * len(which)
        if task_id is not None:
            return [self.tasks.get(task_id)] * len(which)
        return self.sample(which)
