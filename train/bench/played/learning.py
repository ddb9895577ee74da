"""Learn with a softmax table through the environment: for suites whose states cannot be listed.

Every column sees the same tasks, the same seeds, the same number of rollouts and the same KL per update. Success is that
of the sampled rollouts before each update, on the very tasks that are learned: a table over states cannot generalise,
so nothing here is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from creditflow.agents.tabular import TabularAgent
from creditflow.train.bench.columns import played_column, reads_texts
from creditflow.train.bench.feeds import open_feed
from creditflow.train.bench.presets import PlayedWork
from creditflow.train.bench.report.statistics import bootstrap
from creditflow.train.bench.suites import Play
from creditflow.train.rollout import play_group
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["PlayedRow", "learn", "played_row"]


class PlayedRow(NamedTuple):
    """A column's learning; intervals over tasks and seeds as (mean, low, high).

    Attributes:
        first: mean success before learning.
        last: after it.
        area: mean success over all iterations.
        gain: area minus the baseline's on the same tasks and seeds.
        curve: mean success per iteration.
        turns: environment turns per seed.
    """

    first: float
    last: tuple[float, float, float]
    area: tuple[float, float, float]
    gain: tuple[float, float, float]
    curve: list[float]
    turns: float


def learn(name: str, play: Play, work: PlayedWork, horizon: int, seed: int) -> dict[str, Any]:
    """One run of learning under one column.

    Args:
        name: of the column.
        play: environment and tasks.
        work: amounts.
        horizon: the turn limit.
        seed: of the rollouts; equal seeds give every column the same first iteration.

    Returns:
        "success": (iterations + 1, tasks), mean success of the group before each update, and at the end; "turns": of
        the environment. Or "undefined": why the column cannot score these rollouts.
    """
    column = played_column(name, horizon, np.random.default_rng([seed, 1]))
    texts = reads_texts(name, horizon)
    env = GroupEnv(play.env, size=work.size, texts=texts, oracle="oracle" in name, **play.settings)
    # tasks share no state, so one agent per task keeps each task's step size its own
    agents = [TabularAgent(optimal_prob=play.optimal_prob, step_size=work.kl) for _ in play.tasks]
    feeds = [open_feed(name, horizon, "state") for _ in play.tasks]
    success = np.empty((work.iterations + 1, len(play.tasks)))
    turns = 0
    for iteration in range(work.iterations + 1):
        for place, (task, agent) in enumerate(zip(play.tasks, agents, strict=True)):
            group = play_group(env, agent, task, seed=seed, iteration=iteration)
            success[iteration, place] = np.mean([member.success for member in group.trajectories])
            if iteration < work.iterations:
                turns += len(group.turns)
                try:
                    agent.update([group], [column(feeds[place].fed(group))])
                    feeds[place].learn(group)
                except CreditError as error:
                    return {"undefined": str(error)}
    return {"success": success.tolist(), "turns": turns}


def played_row(runs: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> PlayedRow:
    """Sum up the seeds of a column against those of the baseline."""
    success = np.array([run["success"] for run in runs])
    area = success.mean(axis=1)
    gain = area - np.array([run["success"] for run in base]).mean(axis=1)

    def interval(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float, float]:
        found = bootstrap(values)
        return found.mean, found.low, found.high

    return PlayedRow(
        first=float(success[:, 0].mean()),
        last=interval(success[:, -1]),
        area=interval(area),
        gain=interval(gain),
        curve=[float(x) for x in success.mean(axis=(0, 2))],
        turns=float(np.mean([run["turns"] for run in runs])),
    )
