"""Supervised fine-tuning (SFT) on rollouts of a scripted expert or on recorded ones, before reinforcement learning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from creditflow.agents.base import TurnTokens
from creditflow.agents.language_model.chat import Chat
from creditflow.agents.language_model.demonstrator import DemonstratingExpert, RecordedDemonstrations
from creditflow.agents.language_model.parsing import Dialect, make_dialect
from creditflow.agents.language_model.tokens import join_tokens
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.tasks import Task
from creditflow.train.policy.batching import Packing, batches_of
from creditflow.train.policy.failures import DivergedError, memory_errors
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.network.adapter import seeded_dropout
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.optimizer import OptimizerConfig, clip_gradient, learning_rate, set_learning_rate
from creditflow.train.policy.samples import Row, make_rows
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_jsonl
from creditflow.wrappers.records.trajectory import PARENT, Trajectory

__all__ = ["demonstrations", "describe_demonstrations", "run_sft", "sft_plan", "sft_rows", "sft_step"]

EPISODES_PER_BATCH = 256


def demonstrations(settings: TrainConfig, tokenizer: Any, tasks: Sequence[Task], ends: tuple[int, ...]) -> list[Group]:
    """``sft.episodes`` demonstrations: of ``sft.log``, or of the noisy expert on the training tasks, repeated in order.

    Raises:
        ConfigError: no demonstration is left after rejection.
        DataError: the log cannot be read, or was recorded in another environment.
    """
    sft = settings.sft
    if sft.log:
        return _recorded(settings, tokenizer, ends)
    conversations = settings.prompting.conversations(tokenizer, ends)
    expert = DemonstratingExpert(
        conversations, make_dialect(settings.prompting.dialect), noise=sft.noise, imitate_noise=sft.imitate_noise
    )
    engine = RolloutEngine(group_env_factory(settings.env, 1, texts=settings.prompting.history == "window"))
    groups: list[Group] = []
    size = min(EPISODES_PER_BATCH, len(tasks))  # a task is played once per batch: its seed is (batch, task)
    for start in range(0, sft.episodes, size):
        count = min(size, sft.episodes - start)
        batch = [tasks[(start + i) % len(tasks)] for i in range(count)]
        groups += engine.play(expert, batch, seed=settings.seed, iteration=start // size)
    if sft.keep == "success":
        groups = [group for group in groups if group.trajectories[0].success]
    if not groups:
        raise ConfigError(
            "sft: no demonstration succeeded and sft.keep is success: lower sft.noise, or set sft.keep=all"
        )
    return groups


def _recorded(settings: TrainConfig, tokenizer: Any, ends: tuple[int, ...]) -> list[Group]:
    """The demonstrations of a log that are not rejected, repeated in the run's environment or as they were written."""
    sft = settings.sft
    conversations, dialect = settings.prompting.conversations(tokenizer, ends), make_dialect(settings.prompting.dialect)
    useful = (
        trajectory
        for trajectory in read_jsonl(sft.log)
        if trajectory.score >= sft.min_score and (trajectory.success or sft.keep == "all")
        if trajectory.turns and not trajectory.parent
    )
    if not sft.replay:
        useful = (_as_written(trajectory, conversations.chat, dialect) for trajectory in useful)
        if limit := settings.prompting.max_context:
            useful = (episode for episode in useful if episode.tokens is not None and len(episode.tokens.ids) <= limit)
        groups = [Group((trajectory,)) for trajectory in islice(useful, sft.episodes)]
        if not groups:
            raise _nothing_left(sft.log)
        return groups
    episodes: dict[str, list[Trajectory]] = {}
    for trajectory in useful:
        episodes.setdefault(trajectory.task_id, []).append(trajectory)
    if not episodes:
        raise _nothing_left(sft.log)
    make_group = group_env_factory(settings.env, 1, texts=settings.prompting.history == "window")
    source = make_group().members[0].base.tasks
    groups = []
    for repetition in range(max(map(len, episodes.values()))):  # a task is played once per call
        batch = {task: members[repetition] for task, members in episodes.items() if repetition < len(members)}
        names = list(batch)[: sft.episodes - len(groups)]
        for start in range(0, len(names), EPISODES_PER_BATCH):
            tasks = [source.get(task_id) for task_id in names[start : start + EPISODES_PER_BATCH]]
            agent = RecordedDemonstrations(conversations, dialect, batch)
            groups += RolloutEngine(make_group).play(agent, tasks, seed=settings.seed, iteration=repetition)
    return groups


def _nothing_left(log: str) -> ConfigError:
    return ConfigError(f"sft: no episode of {log} is left after rejection: lower sft.min_score, or set sft.keep=all")


def _as_written(trajectory: Trajectory, chat: Chat, dialect: Dialect) -> Trajectory:
    """An episode with the tokens of its own conversation.

    Recorded messages are rendered by the model's own template. Otherwise observations are messages of a user, responses completions.
    """
    if any(PARENT in turn.values for turn in trajectory.turns):
        raise DataError(
            f"trajectory {trajectory.trajectory_id!r} has turns of several contexts (compaction, sub-agents), expected one conversation "
            "to imitate: leave it out of sft.log"
        )
    if trajectory.messages:
        pieces = chat.pieces(list(map(json.loads, trajectory.messages)))
        if len(pieces) != len(trajectory.turns):
            raise DataError(
                f"trajectory {trajectory.trajectory_id!r} has {len(trajectory.turns)} turns and messages of {len(pieces)}"
            )
    else:
        prompts = [
            chat.next_prompt_ids(turn.observation, ended=True) if t else chat.first_prompt_ids("", turn.observation)
            for t, turn in enumerate(trajectory.turns)
        ]
        responses = [turn.response or dialect.write(turn.action, turn.thought) for turn in trajectory.turns]
        pieces = list(zip(prompts, map(chat.encode_completion, responses), strict=True))
    turns = [
        TurnTokens(prompt, ids, np.zeros(len(ids), np.float32), in_loss=turn.valid)
        for turn, (prompt, ids) in zip(trajectory.turns, pieces, strict=True)
    ]
    return replace(trajectory, tokens=join_tokens(turns))


def describe_demonstrations(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """Their number, success rate, rows and tokens, as text."""
    success = np.mean([group.trajectories[0].success for group in groups])
    tokens = sum(map(len, rows))
    return f"{len(groups)} demonstrations (success rate {success:.3f}), {len(rows)} rows, {tokens:,} tokens"


def sft_rows(groups: Sequence[Group]) -> list[Row]:
    """Rows whose ``advantage``, the loss weight of each target token, is 1."""
    return make_rows(groups, [Credit.of(group, outcome=np.ones(len(group))) for group in groups])


def sft_plan(rows: Sequence[Row], steps: int, batch_tokens: int, seed: int) -> list[list[int]]:
    """Indices of the rows of every step: shuffled epochs, split at ``batch_tokens``.

    A pure function of its arguments, so that a resumed run repeats it.

    Raises:
        ConfigError: there are no rows.
    """
    if not rows:
        raise ConfigError(
            "sft: nothing is left to imitate: every action of the demonstrations was noise; set sft.imitate_noise=true or lower sft.noise"
        )
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
    """Take one optimiser step on the weighted cross-entropy of rows.

    Returns:
        ``loss`` (nats per token), ``grad_norm`` (before clipping), ``lr``, ``tokens``.

    Raises:
        DivergedError: the loss or the gradient is not finite.
    """
    device = next(model.parameters()).device
    total = float(sum(row.advantage.sum() for row in rows))
    loss_sum = 0.0
    model.train()
    set_learning_rate(optimizer, lr)
    optimizer.zero_grad(set_to_none=True)
    for batch in batches_of(rows, micro_tokens, device, packing):
        weight = np.concatenate([rows[i].advantage for i in batch.rows]) / total
        with autocast(precision, device):
            policy = token_logprobs(model, batch, logits_chunk=logits_chunk)
        loss = -(policy.logprob * torch.from_numpy(weight).to(device, torch.float32)).sum()
        loss.backward()
        loss_sum += float(loss.detach())
    if not np.isfinite(loss_sum):
        raise DivergedError("the SFT loss is not finite", [row.trajectory for row in rows])
    norm = clip_gradient(model, config.grad_clip)
    optimizer.step()
    return {"loss": loss_sum, "grad_norm": norm, "lr": lr, "tokens": float(sum(map(len, rows)))}


def run_sft(
    model: Any, optimizer: Any, rows: Sequence[Row], plan: Sequence[Sequence[int]], start: int, settings: TrainConfig
) -> Iterator[tuple[int, dict[str, float]]]:
    """Take the optimiser steps of a plan, from step ``start`` on; yields steps done and metrics after each.

    Args:
        model, optimizer: changed in place.
        rows: the demonstrations.
        plan: indices of the rows of every step, see ``sft_plan``.
        start: number of steps that were taken already.
        settings: settings of the run.
    """
    config = settings.sft.optimizer
    for step in range(start, len(plan)):
        with seeded_dropout(model, (settings.seed, 5, step)), memory_errors(settings.update.batch_tokens):
            metrics = sft_step(
                model,
                optimizer,
                [rows[i] for i in plan[step]],
                micro_tokens=settings.update.batch_tokens,
                packing=settings.update.packing,
                logits_chunk=settings.update.logits_chunk,
                config=config,
                lr=learning_rate(config, step, len(plan)),
                precision=settings.model.autocast,
            )
        yield step + 1, metrics
