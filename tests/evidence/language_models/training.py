"""The two trainings of a suite's model: a supervised warm-up, from which all methods of a seed start, and reinforcement learning.

The warm-up imitates a noisy expert on the training tasks. Every curve is evaluated exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from evidence.adam import AdamUpdate
from evidence.language_models.model_policy import ModelPolicy
from evidence.language_models.setting import Setting
from evidence.language_models.work import LearningWork, WarmUpWork
from evidence.settings.cells import StudySampling
from helpers.worlds.tabulated import noisy_expert
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import StateFeatures
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.values import success, visitation
from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.bench.learning.batch import Draw
from creditflow.train.bench.learning.learner import Learning
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.settings.update import LossConfig, OptimizerConfig
from creditflow.wrappers.credit import CreditError

__all__ = ["assess", "demonstrated_states", "expert_table", "imitate", "prompt_features", "reinforce"]

LOOK: Final = 10  # steps between two questions whether the warm-up is enough


def demonstrated_states(
    tasks: Sequence[PromptTable], episodes: int, noise: float, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Indices (task, state) of the states that the noisy expert visits, without repetition.

    Args:
        tasks: tasks to play, cyclically.
        episodes: number of episodes.
        noise: fraction of random actions.
        rng: source of randomness.
    """
    visited = dict[tuple[int, int], None]()
    for episode in range(episodes):
        number = episode % len(tasks)
        mdp = tasks[number].mdp
        [[group]] = sample_groups(StackedTasks([mdp]), expert_table(mdp, noise)[None], 1, rng)
        visited |= dict.fromkeys((number, state) for state in group.number.tolist())
    return list(visited)


def expert_table(mdp: FiniteMDP, noise: float) -> NDArray[np.float64]:
    """The noisy expert without the invalid action: float64 (S, A); the last column, the invalid action, is 0.

    Where plans come before an action, they are shortest paths, and the expert follows them up to its noise.
    """
    moves = len(set(mdp.actions)) - 1
    table = noisy_expert(mdp, noise) if len(mdp.actions) == moves + 1 else _planning_expert(mdp, moves, noise)
    table[:, -1] = 0.0
    valid: NDArray[np.float64] = table / table.sum(axis=1, keepdims=True)
    return valid


def _planning_expert(mdp: FiniteMDP, moves: int, noise: float) -> NDArray[np.float64]:
    """float64 (S, moves³ + 1): two optimal moves, then the first of them or, by ``noise``, a random one."""
    best = noisy_expert(mdp, 0.0)[:, :moves]
    best /= best.sum(axis=1, keepdims=True)
    after = np.concatenate([best, np.full((len(mdp.keys) - mdp.size, moves), 1.0 / moves)])[mdp.likely[:, :moves]]
    followed = (1.0 - noise) * np.eye(moves) + noise / (moves + 1)
    table = np.einsum("sp,spq,pa->spqa", best, after, followed).reshape(mdp.size, -1)
    return np.concatenate([table, np.zeros((mdp.size, 1))], axis=1)


def imitate(
    policy: ModelPolicy,
    visited: Sequence[tuple[int, int]],
    work: WarmUpWork,
    steps: int,
    rng: np.random.Generator,
    *,
    enough: Callable[[], bool] | None = None,
) -> float:
    """Train the policy's model in place by cross-entropy to the noisy expert.

    The target of a state is the expert's distribution over actions, the limit of many demonstrations of that state.

    Args:
        policy: the model with its tasks.
        visited: the states to train on, from ``demonstrated_states``.
        work: noise of the expert, batch size and learning rate.
        steps: optimiser steps; every epoch is shuffled.
        rng: source of randomness.
        enough: asked at every tenth step whether to stop; the learning rate is that of all steps.

    Returns:
        The mean loss of the last tenth of the steps.
    """
    config = OptimizerConfig(
        lr=work.lr, schedule="cosine", warmup_fraction=0.05, min_lr_fraction=0.05, betas=(0.9, 0.98), weight_decay=0.01
    )
    optimizer = make_optimizer(policy.model, config)
    experts = [expert_table(task.mdp, work.noise) for task in policy.tasks]
    policy.model.train()
    losses, order = list[float](), np.zeros(0, np.int64)
    for step in range(steps):
        if len(order) < work.batch:
            order = np.concatenate([order, rng.permutation(len(visited))])
        chosen, order = [visited[i] for i in order[: work.batch].tolist()], order[work.batch :]
        set_learning_rate(optimizer, learning_rate(config, step, steps))
        optimizer.zero_grad(set_to_none=True)
        prompts = [policy.tasks[task].prompts[state] for task, state in chosen]
        target = torch.from_numpy(np.stack([experts[task][state] for task, state in chosen]))
        logs = policy.log_probabilities(prompts)
        loss = -(target.to(logs.device, logs.dtype) * logs).sum() / len(chosen)
        loss.backward()
        policy.tokens += 3 * policy.processed(prompts)
        clip_gradient(policy.model, config.grad_clip)
        optimizer.step()
        losses.append(float(loss.detach()))
        if enough is not None and (step + 1) % LOOK == 0 and enough():
            break
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))


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
    sampling = StudySampling(
        work.tasks, work.size, LossConfig(aggregation=work.aggregation), key="text" if work.keys == "merged" else "state",
        fresh=work.keys == "fresh", together=False, wrong=work.wrong,
    )  # fmt: skip
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
