"""Base and warm-up by imitation: a base model from scratch, then per seed more imitation, from which all arms of the seed start.

The faulty demonstrator plays in many worlds of the same names with other facts, so that the model learns to read, not the facts.
In the study the base is shared by all seeds, as a pretrained model is; in its replication each seed has its own. Its demonstrator has
fewer faults.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from evidence.entity_learning.demonstrator import Demonstrator, Faults
from evidence.entity_learning.world import WORLD_SEED, write_others

import creditflow
from creditflow.agents.language_model.pretrained import generation_ends, open_pretrained
from creditflow.envs.tasks import Task
from creditflow.train.policy.network.scratch import build_model, build_tokenizer
from creditflow.train.policy.optimizer import make_optimizer
from creditflow.train.policy.sft import run_sft, sft_plan, sft_rows
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping, read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.records.group import Group

SETTINGS: Final = Path(__file__).with_name("setting.yaml")
WORLDS: Final = 32  # of the base
BASE_SEED: Final = 0
BASE_FAULTS: Final = Faults(
    wrong=0.05, early=0.03, early_third=0.15, repeat=0.03, beyond=0.05
)  # a third: it learns to read
WARM_UP_WORLDS: Final = 6
WARM_UP_EPISODES: Final = 480
WARM_UP_STEPS: Final = 24
WARM_UP_RATE: Final = 1e-3
WAVE: Final = 480  # demonstrations played at a time: each question once


def settings_of(world: Path, seed: int, overrides: Sequence[str] = ()) -> TrainConfig:
    """The study's settings over a written world; its environments open a file of one question, since tasks are given to them."""
    fields = apply_overrides(load_mapping(SETTINGS), [*overrides, f"seed={seed}"])
    return settings_at(read_dataclass(TrainConfig, fields), world)


def settings_at(settings: TrainConfig, world: Path) -> TrainConfig:
    """The settings over another world."""
    options = {**settings.env.options, "questions": str(world / "one.jsonl"), "corpus": str(world / "corpus.jsonl")}
    return replace(settings, env=replace(settings.env, options=options))


@lru_cache(maxsize=8)
def tasks_of(world: Path, split: str) -> tuple[Task, ...]:
    """The questions of a split."""
    env: Any = creditflow.make(
        "wikisearch", questions=str(world / f"{split}.jsonl"), corpus=str(world / "corpus.jsonl")
    )
    source = env.unwrapped.tasks
    return tuple(source.get(task_id) for task_id in source.task_ids())


def single_engine(settings: TrainConfig) -> RolloutEngine:
    """An engine of single episodes that records texts."""
    return RolloutEngine(group_env_factory(settings.env, 1, texts=True))


def play(engine: RolloutEngine, agent: Any, tasks: Sequence[Task], count: int, seed: int) -> list[Group]:
    """``count`` episodes on the tasks in order, again and again."""
    groups: list[Group] = []
    while len(groups) < count:
        wave = list(tasks[: min(WAVE, count - len(groups))])
        groups += engine.play(agent, wave, seed=seed, iteration=len(groups))
    return groups


def study_tokenizer(settings: TrainConfig, world: Path) -> Any:
    """The tokenizer: of one episode of the demonstrator on every question and of all articles; the same for all seeds."""
    tasks = [task for split in ("train", "valid", "test") for task in tasks_of(world, split)]
    played = single_engine(settings).play(Demonstrator(Faults()), tasks, seed=0)
    turns = [turn for group in played for turn in group.turns]
    articles = [json.loads(line)["text"] for line in (world / "corpus.jsonl").read_text("utf-8").splitlines()]
    names = [f" {name}" for task in tasks for name in (entity["name"] for entity in task.content["entities"])]
    texts = [text for turn in turns for text in (turn.observation, turn.response)]
    return build_tokenizer([*texts, *(f" {text}" for text in articles), *names], settings.model.scratch)


def pretrain(settings: TrainConfig, world: Path, out: Path, world_seed: int = WORLD_SEED) -> dict[str, Any]:
    """Train a base model from scratch and write it with its tokenizer to ``out``; returns its numbers."""
    tokenizer = study_tokenizer(settings, world)
    model = build_model(settings.model.scratch, tokenizer, seed=settings.seed)
    weights = sum(parameter.numel() for parameter in model.parameters())
    return {"weights": weights} | _imitate_worlds(model, tokenizer, settings, WORLDS, BASE_FAULTS, out, world_seed)


def warm_up(settings: TrainConfig, base: Path, out: Path, world_seed: int = WORLD_SEED) -> dict[str, Any]:
    """Imitate on from the base, in worlds of the seed's own, and write the warm-up to ``out``; returns its numbers."""
    model, tokenizer = open_pretrained(str(base), device="cpu", dtype="float32")
    optimizer = replace(settings.sft.optimizer, lr=WARM_UP_RATE)
    sft = replace(settings.sft, steps=WARM_UP_STEPS, episodes=WARM_UP_EPISODES, optimizer=optimizer)
    return _imitate_worlds(model, tokenizer, replace(settings, sft=sft), WARM_UP_WORLDS, Faults(), out, world_seed)


def _imitate_worlds(
    model: Any, tokenizer: Any, settings: TrainConfig, worlds: int, faults: Faults, out: Path, world_seed: int
) -> dict[str, Any]:
    began = time.process_time()
    agent = Demonstrator(faults, settings.prompting.conversations(tokenizer, generation_ends(model)))
    groups = list[Group]()
    with tempfile.TemporaryDirectory() as folder:
        passages = settings.env.options["top_k"]
        size = settings.sft.episodes // worlds
        for other in write_others(Path(folder), worlds, size, settings.seed, world_seed, passages):
            engine = single_engine(settings_at(settings, other))
            groups += engine.play(agent, tasks_of(other, "train"), seed=settings.seed)
    losses = imitate(model, groups, settings)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    success = sum(group.trajectories[0].success for group in groups) / len(groups)
    return {
        "demonstrations": len(groups), "demonstrator_success": round(success, 4), "steps": len(losses),
        "loss": round(losses[-1], 4), "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def imitate(model: Any, groups: Sequence[Group], settings: TrainConfig) -> list[float]:
    """Supervised fine-tuning of a model on recorded demonstrations, in place; returns the losses of its steps."""
    rows = sft_rows(groups, settings.sft.observation_weight)
    plan = sft_plan(rows, settings.sft.steps, settings.sft.batch_tokens, settings.seed)
    optimizer = make_optimizer(model, settings.sft.optimizer)
    return [metrics["loss"] for _, metrics in run_sft(model, optimizer, rows, plan, 0, settings)]
