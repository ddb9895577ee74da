"""Supervised warm-up: imitate a teacher's rollouts, token by token, before reinforcement learning begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.teacher import TeacherAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.policy.batching import Packing, batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.optimizer import OptimizerConfig, learning_rate, set_learning_rate
from creditflow.train.policy.precision import autocast
from creditflow.train.policy.samples import Row, make_rows
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.run.assemble import group_env_factory
from creditflow.train.run.failures import DivergedError
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group

__all__ = ["clip", "demonstrations", "run_sft", "sft_plan", "sft_rows", "sft_step"]

EPISODES_PER_BATCH = 256


def demonstrations(settings: TrainConfig, tokenizer: Any, tasks: Sequence[Task], ends: tuple[int, ...]) -> list[Group]:
    """``sft.episodes`` teacher episodes over the training tasks, again and again in order."""
    sft = settings.sft
    conversations = settings.prompting.conversations(tokenizer, ends)
    teacher = TeacherAgent(
        conversations, make_dialect(settings.prompting.dialect), noise=sft.noise, imitate_noise=sft.imitate_noise
    )
    engine = RolloutEngine(group_env_factory(settings.env, 1, texts=settings.prompting.history == "window"))
    groups: list[Group] = []
    size = min(EPISODES_PER_BATCH, len(tasks))  # a task comes once per wave: its randomness is named by (wave, task)
    for start in range(0, sft.episodes, size):
        count = min(size, sft.episodes - start)
        wave = [tasks[(start + i) % len(tasks)] for i in range(count)]
        groups += engine.play(teacher, wave, seed=settings.seed, iteration=start // size)
    if sft.keep == "success":
        groups = [group for group in groups if group.trajectories[0].success]
    if not groups:
        raise ConfigError("sft: no demonstration is left; does the teacher ever succeed with this much noise?")
    return groups


def sft_rows(groups: Sequence[Group], observation_weight: float) -> list[Row]:
    """Rows whose ``advantage`` is the weight of each target token: 1 for what is written, less for what is read."""
    scored = [Credit.of(group, outcome=np.ones(len(group))) for group in groups]
    rows = make_rows(groups, scored)
    if not observation_weight:
        return rows
    return [_with_observations(row, observation_weight) for row in rows]


def _with_observations(row: Row, weight: float) -> Row:
    weights = np.full(len(row.ids), weight)
    weights[row.target] = 1.0
    zeros = np.zeros(len(row.ids) - 1, np.float32)
    return Row(
        row.ids, np.arange(1, len(row.ids)), weights[1:], zeros, zeros.astype(np.int32), row.trajectory, row.turn_index
    )


def sft_plan(rows: Sequence[Row], steps: int, batch_tokens: int, seed: int) -> list[list[int]]:
    """Which rows each step takes: shuffled epochs, cut at ``batch_tokens``. A pure function: a resumed run repeats it."""
    if not rows:
        raise ConfigError("sft: nothing is left to imitate: every action of the demonstrations was noise")
    plan: list[list[int]] = []
    epoch = 0
    while len(plan) < steps:
        batch: list[int] = []
        tokens = 0
        for index in np.random.default_rng([seed, 2, epoch]).permutation(len(rows)).tolist():
            batch.append(index)
            tokens += len(rows[index])
            if tokens >= batch_tokens:
                plan.append(batch)
                batch, tokens = [], 0
        if batch:
            plan.append(batch)
        epoch += 1
    return plan[:steps]


def sft_step(
    model: Any,
    optimizer: Any,
    rows: Sequence[Row],
    *,
    micro_tokens: int,
    packing: Packing,
    logits_chunk: int,
    config: OptimizerConfig,
    lr: float,
    precision: str = "none",
) -> dict[str, float]:
    """One optimiser step on the weighted cross-entropy; returns ``loss`` (nats a token), ``grad_norm``, ``tokens``."""
    device = next(model.parameters()).device
    total = float(sum(row.advantage.sum() for row in rows))
    loss_sum = 0.0
    model.train()
    set_learning_rate(optimizer, lr)
    optimizer.zero_grad(set_to_none=True)
    for batch in batches_of(rows, micro_tokens, device, packing):
        weight = np.concatenate([rows[i].advantage for i in batch.rows]) / total
        with autocast(precision, device):
            scores = token_logprobs(model, batch, logits_chunk=logits_chunk)
        loss = -(scores.logprob * torch.from_numpy(weight).to(device, torch.float32)).sum()
        loss.backward()
        loss_sum += float(loss.detach())
    if not np.isfinite(loss_sum):
        raise DivergedError("the warm-up's loss is not finite", [row.trajectory for row in rows])
    norm = clip(model, config.grad_clip)
    optimizer.step()
    return {"loss": loss_sum, "grad_norm": norm, "lr": lr, "tokens": float(sum(map(len, rows)))}


def clip(model: Any, limit: float) -> float:
    """Clip the gradient to a norm; returns the norm before.

    Raises:
        DivergedError: the norm is not finite.
    """
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit if limit else float("inf")))
    if not np.isfinite(norm):
        raise DivergedError("the gradient is not finite", [])
    return norm


def run_sft(
    model: Any,
    optimizer: Any,
    rows: Sequence[Row],
    plan: Iterable[tuple[int, list[int]]],
    total: int,
    settings: TrainConfig,
    after: Callable[[int, dict[str, float]], None],
) -> None:
    """Take the steps of a plan; ``after(step, metrics)`` is called after each, with steps counted from 1."""
    config = settings.sft.optimizer
    for step, chosen in plan:
        metrics = sft_step(
            model,
            optimizer,
            [rows[i] for i in chosen],
            micro_tokens=settings.update.batch_tokens,
            packing=settings.update.packing,
            logits_chunk=settings.update.logits_chunk,
            config=config,
            lr=learning_rate(config, step, total),
            precision=settings.model.autocast,
        )
        after(step + 1, metrics)
