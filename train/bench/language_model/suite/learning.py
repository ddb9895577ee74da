"""Reinforcement learning of one model with one method, evaluated exactly along the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.critics import StateFeatures
from creditflow.train.bench.exact.simulate import ArrayGroup, simulate
from creditflow.train.bench.exact.values import success, visitation
from creditflow.train.bench.language_model.suite.model_policy import ModelPolicy
from creditflow.train.bench.language_model.suite.updates import merged_weights
from creditflow.train.bench.language_model.suite.work import LearningWork
from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.bench.shared.credits import batch_credit
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["assess", "prompt_features", "reinforce", "sample_groups"]

Floats = NDArray[np.float64]


def reinforce(
    policy: ModelPolicy, method: str, work: LearningWork, seed: int, evaluated: dict[str, ModelPolicy]
) -> list[dict[str, Any]]:
    """Train the policy's model in place.

    Tasks and random numbers of an iteration depend on ``seed`` alone: methods are compared on common random numbers.

    Args:
        policy: the model with the training tasks.
        method: name of a scheme or control.
        work: sizes.
        seed: seed of tasks and rollouts.
        evaluated: the same model on the sets of tasks to evaluate, by name.

    Returns:
        The points of the learning curve, start and end included: iteration, turns, tokens, and ``assess`` of each set.
    """
    config = OptimizerConfig(
        lr=work.lr, schedule="linear", warmup_fraction=0.05, min_lr_fraction=0.1, betas=(0.9, 0.98), grad_clip=0.0
    )
    optimizer = make_optimizer(policy.model, config)
    source = open_annotation_source(method, policy.tasks[0].mdp.horizon, "state", prompt_features(policy.tasks))
    points = {round(work.iterations * k / work.points) for k in range(work.points + 1)}
    curve, turns = list[dict[str, Any]](), 0
    order = np.random.default_rng([seed, 11]).permutation(len(policy.tasks) * 64) % len(policy.tasks)
    for iteration in range(work.iterations + 1):
        if iteration in points:
            policy.model.eval()
            sets = {name: assess(one) for name, one in evaluated.items()}
            curve.append({"iteration": iteration, "turns": turns, "tokens": policy.tokens, **sets})
        if iteration == work.iterations:
            break
        start = iteration * work.tasks
        chosen = [int(order[(start + k) % len(order)]) for k in range(work.tasks)]
        rng = np.random.default_rng([seed, 12, iteration])
        tables = policy.probabilities(chosen)
        groups = sample_groups(policy, chosen, tables, work.size, rng)
        turns += sum(len(group.number) for group in groups)
        credits_ = batch_credit(method, groups, tables, source, [seed, 13, iteration])
        for group in groups:
            source.update(group)
        weights = merged_weights(groups, credits_, work.aggregation)
        if not any(weight.any() for weight in weights):
            continue  # no credit in the batch, no step
        policy.model.train()
        set_learning_rate(optimizer, learning_rate(config, iteration, work.iterations))
        optimizer.zero_grad(set_to_none=True)
        policy.accumulate(chosen, weights)
        clip_gradient(policy.model, config.grad_clip)
        optimizer.step()
    return curve


def prompt_features(tasks: Sequence[PromptTable]) -> StateFeatures:
    """What fitted critics see of a state: the tokens of its prompt, in any order."""
    known: dict[int, NDArray[np.int64]] = {}
    for task in tasks:
        longest = max(map(len, task.prompts))
        rows = [np.pad(prompt, (0, longest - len(prompt)), constant_values=-1) for prompt in task.prompts]
        known[id(task.mdp)] = np.array(rows, np.int64)
    return StateFeatures(int(max(part.max() for part in known.values())) + 1, lambda mdp: known[id(mdp)])


def sample_groups(
    policy: ModelPolicy, tasks: Sequence[int], tables: Sequence[Floats], size: int, rng: np.random.Generator
) -> list[ArrayGroup]:
    """One group of ``size`` rollouts for each of a policy's tasks, with its action probabilities in ``tables``."""
    return [
        simulate(policy.tasks[i].mdp, table[None], size, rng, name=f"{i}")[0]
        for i, table in zip(tasks, tables, strict=True)
    ]


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
        both = success(task.mdp, np.stack([table, best]))
        sampled.append(round(float(both[0]), 5))
        greedy.append(round(float(both[1]), 5))
        visited = visitation(task.mdp, table)
        entropies.append(float(visited @ -(table * np.log(np.maximum(table, 1e-30))).sum(axis=1)))
        invalid.append(float(visited @ table[:, -1]))
    return {
        "sampled": sampled,
        "greedy": greedy,
        "entropy": float(np.mean(entropies)),
        "invalid": float(np.mean(invalid)),
    }
