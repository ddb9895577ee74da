"""Groups over the ranks: who plays which task, the numbers of trajectories, credit that couples a batch.

Groups are ordered by the tasks that were drawn, which all ranks draw alike: trajectories have the numbers that they have in
one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from creditflow.agents.base import Agent
from creditflow.envs.tasks import Task
from creditflow.train.distributed.world import World
from creditflow.train.rollout.engine import Engine, NoGroupError
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import LONG_TEXTS, decode_line, encode_line
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["SharedEngine", "assign_credit", "trajectory_numbers"]

Place = tuple[int, int]  # of a group: round of sampling, index of its task in that round


def trajectory_numbers(groups: Sequence[Group], places: Sequence[Place], world: World) -> list[int]:
    """The number over all ranks of every trajectory of this rank.

    Args:
        groups: the groups of this rank.
        places: place of every group, distinct over all ranks; trajectories are numbered in their order.
        world: the ranks.
    """
    own = {tuple(place): len(group) for place, group in zip(places, groups, strict=True)}
    sizes = sorted(tuple(one) for part in world.gather([[*place, n] for place, n in own.items()]) for one in part)
    first: dict[Place, int] = {}
    number = 0
    for *place, size in sizes:
        first[place[0], place[1]] = number
        number += size
    return [first[place] + i for place, group in zip(places, groups, strict=True) for i in range(len(group))]


def assign_credit(scheme: Scheme, groups: Sequence[Group], places: Sequence[Place], world: World) -> list[Credit]:
    """Credit of this rank's groups, scored among the groups of all ranks if the scheme couples them."""
    if world.alone or not scheme.couples_groups:
        return scheme.assign_batch(groups)
    parts = world.gather(
        [[place, _packed(group, scheme.texts, tokens=True)] for place, group in zip(places, groups, strict=True)]
    )
    mine = dict(zip(places, groups, strict=True))
    everywhere = {(round_, index): packed for part in parts for (round_, index), packed in part}
    order = sorted(everywhere)
    batch = [mine[place] if place in mine else _unpacked(everywhere[place]) for place in order]
    credit_of = dict(zip(order, scheme.assign_batch(batch), strict=True))
    return [credit_of[place] for place in places]


class SharedEngine:
    """An engine that divides the tasks over the ranks, and returns the groups of all, without tokens and texts.

    Args:
        engine: the engine of this rank.
        world: the ranks.
    """

    def __init__(self, engine: Engine, world: World) -> None:
        self._engine, self._world = engine, world

    def play(
        self, agent: Agent, tasks: Sequence[Task], *, seed: int, iteration: int = 0, trial: int = 0
    ) -> list[Group]:
        """Play one group per task; returns the groups in the order of the tasks."""
        world = self._world
        if world.alone:
            return self._engine.play(agent, tasks, seed=seed, iteration=iteration, trial=trial)
        try:
            groups = self._engine.play(agent, world.own_part(tasks), seed=seed, iteration=iteration, trial=trial)
        except NoGroupError:
            groups = []
        found = [
            _unpacked(one)
            for part in world.gather([_packed(group, (), tokens=False) for group in groups])
            for one in part
        ]
        by_task = {group.task_id: group for group in found}
        return [by_task[task.task_id] for task in tasks if task.task_id in by_task]


def _packed(group: Group, texts: Sequence[str], *, tokens: bool) -> list[str]:
    """A group as lines of a log, with some of the long texts, and with or without tokens; never with prompts."""
    dropped: dict[str, Any] = dict.fromkeys(LONG_TEXTS - set(texts), "")
    lines = []
    for i, trajectory in enumerate(group.trajectories):
        turns: tuple[Turn, ...] = tuple(replace(turn, **dropped) for turn in trajectory.turns)
        kept = replace(trajectory.tokens, prompts=()) if tokens and trajectory.tokens is not None else None
        lines.append(encode_line(replace(trajectory, turns=turns, tokens=kept), None if i else group.task))
    return lines


def _unpacked(lines: Sequence[str]) -> Group:
    decoded = [decode_line(line, ()) for line in lines]
    return Group(tuple(trajectory for trajectory, _ in decoded), decoded[0][1] or {})
