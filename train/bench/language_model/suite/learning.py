"""Reinforcement learning of one model with one method, evaluated exactly along the curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.critics import StateFeatures
from creditflow.train.bench.exact.values import success, visitation
from creditflow.train.bench.language_model.suite.model_policy import ModelPolicy
from creditflow.train.bench.language_model.suite.setting import Setting
from creditflow.train.bench.language_model.suite.work import LearningWork
from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.bench.learning.batch import Draw, Sampling
from creditflow.train.bench.learning.learner import AdamUpdate, Learning
from creditflow.train.policy.optimizer import learning_rate
from creditflow.train.settings.update import LossConfig, OptimizerConfig
from creditflow.wrappers.credit import CreditError

__all__ = ["assess", "prompt_features", "reinforce"]

Floats = NDArray[np.float64]


def reinforce(setting: Setting, method: str, work: LearningWork, seed: int) -> list[dict[str, Any]]:
    """Train the setting's model, whose own parameters stay as they are.

    Tasks and random numbers of an iteration depend on ``seed`` alone: methods are compared on common random numbers.

    Args:
        setting: the family with the warm-up's model.
        method: name of a scheme or control.
        work: sizes.
        seed: seed of tasks and rollouts.

    Returns:
        The points of the learning curve, start and end included: iteration, turns, tokens, and ``assess`` of each set.

    Raises:
        CreditError: the scheme cannot score one of the groups.
    """
    config = OptimizerConfig(lr=work.lr, schedule="linear", warmup_fraction=0.05, min_lr_fraction=0.1)
    rates = [learning_rate(config, iteration, work.iterations) for iteration in range(work.iterations)]
    sampling = Sampling(work.tasks, work.size, LossConfig(aggregation=work.aggregation), together=False)
    policy, mdps = setting.policy, [task.mdp for task in setting.pool]
    update = AdamUpdate(rates, betas=(0.9, 0.98), unit=True)
    learning = Learning(policy, mdps, [method], sampling, update, prompt_features(setting.pool))
    points = {round(work.iterations * k / work.points) for k in range(work.points + 1)}

    def point(iteration: int, turns: int, policy: ModelPolicy) -> dict[str, Any]:
        sets = setting.evaluated_policies(model=policy.model)
        evaluated = {name: assess(of_set) for name, of_set in sets.items()}
        return {"iteration": iteration, "turns": turns, "tokens": policy.tokens, **evaluated}

    curve = [point(0, 0, policy)]
    for iteration, learners in enumerate(learning.over(_draws(len(mdps), work, seed)), 1):
        if iteration in points and learners:
            (learner,) = learners.values()
            curve.append(point(iteration, learner.turns, learner.policy))
    if learning.undefined:
        raise CreditError(learning.undefined[method])
    return curve


def _draws(tasks: int, work: LearningWork, seed: int) -> Iterator[Draw]:
    """Yield the draw of every iteration; each has a generator of its own."""
    order = np.random.default_rng([seed, 11]).permutation(tasks * 64) % tasks
    for iteration in range(work.iterations):
        chosen = order[np.arange(iteration * work.tasks, (iteration + 1) * work.tasks) % len(order)].tolist()
        yield Draw.of(chosen, np.random.default_rng([seed, 12, iteration]), f"{iteration}", (seed, 13, iteration))


def prompt_features(tasks: Sequence[PromptTable]) -> StateFeatures:
    """What fitted critics see of a state: the tokens of its prompt, in any order."""
    tokens: dict[int, NDArray[np.int64]] = {}
    for task in tasks:
        longest = max(map(len, task.prompts))
        rows = [np.pad(prompt, (0, longest - len(prompt)), constant_values=-1) for prompt in task.prompts]
        tokens[id(task.mdp)] = np.array(rows, np.int64)
    return StateFeatures(int(max(of_task.max() for of_task in tokens.values())) + 1, lambda mdp: tokens[id(mdp)])


def assess(policy: ModelPolicy) -> dict[str, Any]:
    """Evaluate a policy exactly on its tasks.

    Returns:
        ``sampled`` and ``greedy`` success by task; mean ``entropy`` (nats) and rate of ``invalid`` actions per turn.
    """
    tables = policy.probabilities(range(len(policy.tasks)))
    sampled, greedy, entropies, invalid = [], [], [], []
    for task, table in zip(policy.tasks, tables, strict=True):
        best = np.zeros_like(table)
        best[np.arange(len(table)), table.argmax(axis=1)] = 1.0
        rates = success(task.mdp, np.stack([table, best]))
        sampled.append(round(float(rates[0]), 5))
        greedy.append(round(float(rates[1]), 5))
        visited = visitation(task.mdp, table)
        entropies.append(float(visited @ -(table * np.log(np.maximum(table, 1e-30))).sum(axis=1)))
        invalid.append(float(visited @ table[:, -1]))
    return {
        "sampled": sampled,
        "greedy": greedy,
        "entropy": float(np.mean(entropies)),
        "invalid": float(np.mean(invalid)),
    }
