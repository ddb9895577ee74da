"""Transfer of a small language model: trained on generated houses or released games, played on released validation games.

    python tests/evidence/alfworld/transfer/language_model.py ../shared/data/alfworld/alfworld_games_full.tar.xz --seeds 0 1 2

Per seed and kind of training games: a Qwen2 of 136 thousand weights and its tokenizer, both from scratch, imitate a noisy oracle
(whose random commands are shown, but not imitated) on as many games, over as many tokens. The model reads the raw observations of
its episode and writes commands as text; nothing tells it which are admissible. It is judged by playing, and, which is more sensitive for so small a
model, by the probability that it gives to the oracle's commands in episodes on the validation games. Results by game go to
``OUT/language_model-KIND-SEED.json``, from which ``summarize.py`` makes the evidence. Needs torch; one to two CPU minutes per run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from evidence.alfworld.released import Content
from evidence.alfworld.transfer.play import MAX_STEPS
from evidence.alfworld.transfer.stored_runs import store_runs
from evidence.alfworld.transfer.training_sets import evaluation_games, training_sets

from creditflow.agents.language_model.pretrained import generation_ends
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.tasks import build_task
from creditflow.envs.alfworld.world import World
from creditflow.envs.tasks import Task
from creditflow.train.policy.batching import batches_of, split_by_row
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.optimizer import make_optimizer
from creditflow.train.policy.sft import demonstrations, run_sft, sft_plan, sft_rows
from creditflow.train.run import assemble
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping, read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.records.group import Group

SETTINGS = Path(__file__).with_name("language_model.yaml")
GAMES = 400
KINDS = ("released", "generated")
SPLITS = ("valid_seen", "valid_unseen")
WAVE = 140  # evaluation episodes at a time


def settings_of(seed: int, overrides: Sequence[str] = ()) -> TrainConfig:
    fields = apply_overrides(load_mapping(SETTINGS), [*overrides, f"seed={seed}"])
    return read_dataclass(TrainConfig, fields)


def train(settings: TrainConfig, tasks: list[Task]) -> tuple[Any, Any, dict[str, float]]:
    """Return the model and tokenizer after imitation, and numbers about it."""
    model, tokenizer = assemble.make_policy(settings, None, tasks)
    rows = sft_rows(demonstrations(settings, tokenizer, tasks, generation_ends(model)), settings.sft.observation_weight)
    plan = sft_plan(rows, settings.sft.steps, settings.sft.batch_tokens, settings.seed)
    optimizer, losses, tokens = make_optimizer(model, settings.sft.optimizer), [], 0.0
    for _, metrics in run_sft(model, optimizer, rows, plan, 0, settings):
        losses.append(metrics["loss"])
        tokens += metrics["tokens"]
    numbers = {
        "weights": sum(p.numel() for p in model.parameters()),
        "tokens_of_demonstrations": sum(map(len, rows)),
        "tokens_trained": tokens,
        "last_loss": float(np.mean(losses[-20:])),
    }
    return model, tokenizer, numbers


def judge(
    settings: TrainConfig, model: Any, tokenizer: Any, tasks: Sequence[Task], temperature: float
) -> dict[str, list[float]]:
    """Return success and commands (50 if it failed) by game."""
    backend = assemble.make_backend(model, settings, tokenizer=tokenizer)
    agent = assemble.make_policy_agent(settings, backend, tokenizer, temperature=temperature)
    engine, won, commands = assemble.make_eval_engine(settings), [], []
    for start in range(0, len(tasks), WAVE):
        for group in engine.play(agent, tasks[start : start + WAVE], seed=settings.seed, iteration=start):
            episode = group.trajectories[0]
            won.append(float(episode.success))
            commands.append(float(len(episode.turns) if episode.success else MAX_STEPS))
    if len(won) != len(tasks):
        raise RuntimeError(f"only {len(won)} of {len(tasks)} games could start")
    return {"success": won, "commands": commands}


def uniform_nats(group: Group, task: Task) -> float:
    """Return the mean logarithm of the number of admissible commands in an episode: the cross-entropy of a uniform choice."""
    world, logarithms = World(Game(task.content)), []
    for turn in group.trajectories[0].turns:
        offered = admissible_commands(world).by_text
        logarithms.append(np.log(len(offered)))
        act(world, offered[turn.action])
    return round(float(np.mean(logarithms)), 6)


def surprise(settings: TrainConfig, model: Any, tokenizer: Any, tasks: list[Task]) -> dict[str, list[float]]:
    """Return by game the mean cross-entropy, in nats per command, of the oracle's commands in episodes with as much noise as in training."""
    settings = replace(settings, sft=replace(settings.sft, episodes=len(tasks), observation_weight=0.0))
    groups = demonstrations(settings, tokenizer, tasks, generation_ends(model))
    rows = sft_rows(groups, 0.0)
    found = np.full(len(tasks), np.nan)
    with torch.no_grad():
        model.eval()
        for batch in batches_of(rows, settings.update.batch_tokens, torch.device("cpu"), settings.update.packing):
            for number, logprobs in split_by_row(token_logprobs(model, batch).logprob, batch, rows):
                found[rows[number].trajectory] = -logprobs.sum() / len(np.unique(rows[number].turn))
    if np.isnan(found).any():
        raise RuntimeError(f"{int(np.isnan(found).sum())} of {len(tasks)} games have no command of the oracle")
    return {
        "nats": [round(float(value), 6) for value in found],
        "uniform_nats": [uniform_nats(group, task) for group, task in zip(groups, tasks, strict=True)],
    }


def one_run(
    games: Mapping[str, Content],
    kind: str,
    seed: int,
    number: int = GAMES,
    overrides: Sequence[str] = (),
    limit: int | None = None,
) -> dict[str, Any]:
    """Train one model and judge it on the validation games."""
    began, settings = time.process_time(), settings_of(seed, overrides)
    chosen = dict(islice(training_sets(games, seed, (number,), 0), len(KINDS)))[kind]
    played = evaluation_games(games)
    model, tokenizer, numbers = train(settings, [build_task(game) for game in chosen])
    results: dict[str, dict[str, list[float]]] = {}
    for split in SPLITS:
        tasks = [build_task(game) for game in played[split].values()][:limit]
        results[split] = surprise(settings, model, tokenizer, tasks) | judge(settings, model, tokenizer, tasks, 0.0)
    numbers |= {"games": len(chosen), "cpu_seconds": round(time.process_time() - began)}
    return {"seed": seed, "kind": kind, "numbers": numbers, "results": results}


def main() -> None:
    store_runs(
        __doc__,
        lambda seeds: (
            (f"language_model-{kind}-{seed}", partial(one_run, kind=kind, seed=seed))
            for seed, kind in product(seeds, KINDS)
        ),
    )


if __name__ == "__main__":
    main()
