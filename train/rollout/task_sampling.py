"""Sample the tasks of an iteration, and keep the groups with a learning signal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.agents.base import Agent
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import RolloutEngine, RolloutReport
from creditflow.train.settings.schema import RolloutConfig
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group

__all__ = ["sample_groups"]


def sample_groups(
    engine: RolloutEngine, agent: Agent, tasks: Sequence[Task], rollout: RolloutConfig, *, seed: int, iteration: int
) -> tuple[list[Group], RolloutReport, int]:
    """Play the groups of an iteration; with dynamic sampling, drop dead groups and sample others instead.

    There are at most ``rollout.attempts`` attempts; the last one keeps dead groups too.

    Returns:
        The groups, the rollout report, and the number of discarded groups.
    """
    report, discarded = RolloutReport(), 0
    groups: list[Group] = []
    attempts = rollout.attempts if rollout.dynamic_sampling else 1
    for attempt in range(attempts):
        number = iteration * attempts + attempt
        rng = np.random.default_rng([seed, 4, number])
        wanted = rollout.tasks - len(groups)
        chosen: list[Task] = []
        while len(chosen) < wanted:
            order = rng.permutation(len(tasks))[: wanted - len(chosen)]
            chosen += [tasks[i] for i in order.tolist()]
        played = engine.play(agent, _distinct(chosen), seed=seed, iteration=number, report=report)
        kept = credit.filter_groups(played, keep_all=attempt == attempts - 1)
        discarded += len(played) - len(kept)
        groups += kept
        if len(groups) >= rollout.tasks:
            break
    return groups, report, discarded


def _distinct(tasks: Sequence[Task]) -> list[Task]:
    """Tasks without repetition: a group per task and iteration (a pool smaller than the batch gives fewer groups)."""
    return list({task.task_id: task for task in tasks}.values())
