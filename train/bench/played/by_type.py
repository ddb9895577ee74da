"""What a played suite's policies reach after training, by task type and overall, as papers report it.

ALFWorld: success by the six types; WebShop: score and success; search: exact match and F1 by question type or data set. Of the rollouts after
the last update, on the training tasks, with 95 % intervals over tasks and seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from creditflow.envs.tasks import Task
from creditflow.train.rollout.answers import ANSWER_METRICS, answer_scores, dialect_of
from creditflow.train.rollout.evaluation import task_type
from creditflow.train.rollout.score_table import ANSWER_NAMES, estimate, row_groups
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

__all__ = ["final_scores", "scores_by_type"]


def final_scores(env: GroupEnv, groups: Sequence[Group]) -> dict[str, list[float]]:
    """Return means of each task's rollouts by measure: "score", and of search "em" and "f1".

    Args:
        env: the environment that played them.
        groups: one group per task.
    """
    scores = {"score": [_mean([member.score for member in group.trajectories]) for group in groups]}
    dialect = dialect_of(env.members[0].base)
    if dialect is not None:
        scores |= {name: [] for name in ANSWER_METRICS}
        for group in groups:
            answers = [answer_scores(group, i, dialect) for i in range(len(group))]
            for name in ANSWER_METRICS:
                scores[name].append(_mean([answer[name] for answer in answers]))
    return scores


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def scores_by_type(runs: Sequence[dict[str, Any]], tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Return a row for every task type or data set, and one for all tasks: name, number of tasks, and estimates by measure.

    Args:
        runs: results of ``learn``, one per seed.
        tasks: their tasks.
    """
    measures = {"Success": np.array([run["success"][-1] for run in runs])}
    for name in runs[0]["final"]:
        measures[ANSWER_NAMES.get(name, "Score")] = np.array([run["final"][name] for run in runs])
    rows = []
    for name, groups in row_groups([task_type(task) for task in tasks]).items():
        estimates = {}
        for measure, values in measures.items():
            estimates[measure] = estimate([values[:, group] for group in groups]).to_json()
        rows.append({"name": name, "tasks": sum(map(len, groups)), "estimates": estimates})
    return rows
