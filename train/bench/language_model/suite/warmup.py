"""Supervised warm-up: a new model imitates a noisy expert on the training tasks; all methods of a seed start from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.policies import noisy_expert
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.language_model.suite.model_policy import ModelPolicy
from creditflow.train.bench.language_model.suite.work import WarmUpWork
from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["demonstrated_states", "expert_table", "imitate"]

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
        (group,) = simulate(mdp, expert_table(mdp, noise)[None], 1, rng)
        visited |= dict.fromkeys((number, state) for state in group.number.tolist())
    return list(visited)


def expert_table(mdp: FiniteMDP, noise: float) -> NDArray[np.float64]:
    """The noisy expert without the invalid action: float64 (S, A); the last column, the invalid action, is 0."""
    table = noisy_expert(mdp, noise)
    table[:, -1] = 0.0
    valid: NDArray[np.float64] = table / table.sum(axis=1, keepdims=True)
    return valid


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
        policy.tokens += 3 * sum(map(len, prompts))
        clip_gradient(policy.model, config.grad_clip)
        optimizer.step()
        losses.append(float(loss.detach()))
        if enough is not None and (step + 1) % LOOK == 0 and enough():
            break
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))
