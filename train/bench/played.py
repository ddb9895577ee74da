"""Training of softmax tables through the environment, for suites whose states cannot be listed.

Every method gets the same tasks, seeds, number of rollouts and KL per update. Success is that of the sampled rollouts
before each update, on the training tasks themselves: a table over states cannot generalise, so nothing is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.tabular import TabularAgent
from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.methods import played_method, reads_texts
from creditflow.train.bench.presets import PlayedWork
from creditflow.train.bench.suites import SuiteEnv
from creditflow.train.rollout import play_group
from creditflow.train.statistics import crossed_mean
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["PlayedRow", "learn", "played_row"]


class PlayedRow(NamedTuple):
    """The learning of one method; triples are (mean, low, high) with 95 % intervals over tasks and seeds.

    Attributes:
        first: mean success before the first update.
        last: mean success after the last one.
        area: mean success over all iterations.
        gain: area minus that of the baseline on the same tasks and seeds.
        area_by_seed: area by seed (rows) and task (columns).
        curve: mean success per iteration.
        turns: environment turns per seed.
    """

    first: float
    last: tuple[float, float, float]
    area: tuple[float, float, float]
    gain: tuple[float, float, float]
    area_by_seed: list[list[float]]
    curve: list[float]
    turns: float


def learn(
    name: str, suite_env: SuiteEnv, work: PlayedWork, horizon: int, seed: int, rate: float = 0.0
) -> dict[str, Any]:
    """Train one table per task with one method.

    Args:
        name: name of the method.
        suite_env: environment and tasks.
        work: sizes of the benchmark.
        horizon: turn limit.
        seed: seed of the rollouts; equal seeds give every method the same first iteration.
        rate: learning rate of Adam; 0: steps of the KL divergence of ``work``.

    Returns:
        "success", (iterations + 1, tasks), mean success of the group before each update and after the last one; "turns", the
        number of environment turns; or "undefined", why the method cannot score these rollouts.
    """
    method = played_method(name, horizon, [seed, 1])
    texts = reads_texts(name, horizon)
    env = GroupEnv(suite_env.env, size=work.size, texts=texts, **suite_env.settings)
    # tasks share no states, so each task has an agent, and thereby a step size, of its own
    settings = {"optimal_prob": suite_env.optimal_prob, "step_size": rate or work.kl}
    agents = [TabularAgent(step="adam" if rate else "kl", **settings) for _ in suite_env.tasks]
    sources = [open_annotation_source(name, horizon, "state") for _ in suite_env.tasks]
    success = np.empty((work.iterations + 1, len(suite_env.tasks)))
    turns = 0
    for iteration in range(work.iterations + 1):
        for index, (task, agent) in enumerate(zip(suite_env.tasks, agents, strict=True)):
            group = play_group(env, agent, task, seed=seed, iteration=iteration)
            success[iteration, index] = np.mean([member.success for member in group.trajectories])
            if iteration == work.iterations:
                continue
            turns += len(group.turns)
            try:
                agent.update([group], [method(sources[index].annotate(group))])
                sources[index].update(group)
            except CreditError as error:
                return {"undefined": str(error)}
    return {"success": success.tolist(), "turns": turns}


def played_row(runs: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> PlayedRow:
    """Combine the seeds of a method and compare them with those of the baseline.

    Args:
        runs: results of ``learn``, one per seed.
        base: those of the baseline, with the same seeds.
    """
    success = np.array([run["success"] for run in runs])
    area = success.mean(axis=1)

    def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
        estimate = crossed_mean(values)
        return estimate.mean, *estimate.interval

    return PlayedRow(
        first=float(success[:, 0].mean()),
        last=interval(success[:, -1]),
        area=interval(area),
        gain=interval(area - np.array([run["success"] for run in base]).mean(axis=1)),
        area_by_seed=np.round(area, 6).tolist(),
        curve=[float(x) for x in success.mean(axis=(0, 2))],
        turns=float(np.mean([run["turns"] for run in runs])),
    )
