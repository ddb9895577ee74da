"""Sample the tasks of an iteration, and keep the groups with a learning signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from creditflow.agents.base import Agent
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import NoGroupError, RolloutEngine, RolloutReport
from creditflow.train.settings.schema import RolloutConfig
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group

__all__ = ["SampledGroups", "sample_groups"]


@dataclass(slots=True)
class SampledGroups:
    """The groups of an iteration.

    Attributes:
        groups: the groups that are trained on.
        report: counts and errors.
        discarded: number of groups that dynamic sampling or the filter by variance dropped.
    """

    groups: list[Group] = field(default_factory=list)
    report: RolloutReport = field(default_factory=RolloutReport)
    discarded: int = 0


def sample_groups(
    engine: RolloutEngine, agent: Agent, tasks: Sequence[Task], rollout: RolloutConfig, *, seed: int, iteration: int
) -> SampledGroups:
    """Play the groups of an iteration; with dynamic sampling, drop dead groups and sample again instead.

    There are at most ``rollout.attempts`` attempts; the last one keeps dead groups too. With ``rollout.variance_share``
    there is one attempt, which keeps the groups that vary most, or all groups if none varies.

    Raises:
        NoGroupError: no group of an attempt could start.
    """
    sampled = SampledGroups()
    dropped: list[Task] = []
    attempts = rollout.attempts if rollout.dynamic_sampling else 1
    for attempt in range(attempts):
        number = iteration * attempts + attempt
        rng = np.random.default_rng([seed, 4, number])
        missing = rollout.tasks - len(sampled.groups)
        chosen = dropped if rollout.resample == "same" else []
        while len(chosen) < missing:
            order = rng.permutation(len(tasks))[: missing - len(chosen)]
            chosen += [tasks[i] for i in order.tolist()]
        distinct = _distinct(chosen)
        played = _play(
            engine, agent, distinct, rollout.concurrent_groups, seed=seed, iteration=number, report=sampled.report
        )
        keep_all = attempt == attempts - 1 and rollout.variance_share == 1.0
        useful = credit.filter_groups(played, top_p=rollout.variance_share, keep_all=keep_all)
        if not useful and rollout.variance_share < 1.0:
            useful = played
        sampled.discarded += len(played) - len(useful)
        useful_ids = {group.task_id for group in useful}
        dropped = [task for task in distinct if task.task_id not in useful_ids]
        sampled.groups += useful
        if len(sampled.groups) >= rollout.tasks:
            break
    return sampled


def _play(engine: RolloutEngine, agent: Agent, tasks: Sequence[Task], concurrent: int, **options: Any) -> list[Group]:
    """Play the tasks, some at a time (0: all); one group that starts suffices."""
    error: NoGroupError | None = None
    played: list[Group] = []
    size = concurrent or len(tasks)
    for start in range(0, len(tasks), size):
        try:
            played += engine.play(agent, tasks[start : start + size], **options)
        except NoGroupError as none_started:
            error = error or none_started
    if not played and error is not None:
        raise error
    return played


def _distinct(tasks: Sequence[Task]) -> list[Task]:
    """Tasks without repetition: a group per task and iteration (a pool smaller than the batch gives fewer groups)."""
    return list({task.task_id: task for task in tasks}.values())
