"""A language model's rollouts and updates: states that recur, prompts, and arithmetic.

    python tests/benchmarks/bench_language_model.py [--toy] [--model runs/smollm2_sokoban/model]

Three parts, with the recipes ``smollm2_*``. *States that recur*: Sokoban groups played with next-token logits known from earlier prompts of
the same weights, over playing them with none; the completions must be equal. *Prompts*: turns per second when the model answers
at once, so that only environments, prompts and records take time, over the same with every prompt encoded anew. *Arithmetic*:
FLOP/s of imitation's updates (six per token and parameter of the blocks; the output layer, which reads few tokens, is left out) over those of a
float32 product of the shape of a layer, measured beside them.

The model is one that acts, by default that of ``creditflow train smollm2_sokoban``; where it is missing, a small one from random weights, whose
first and third part say little.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import has_torch, parser_of, print_ratio, print_speed

if not has_torch("rollouts and updates of a language model"):
    sys.exit()
import torch
from helpers.models.pretrained import pretrained_folder

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.agents.language_model.text_ids import TextEncoder, text_ids
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, training_tasks
from creditflow.train.run.assemble import make_policy
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.schema import TrainConfig, load_settings
from creditflow.train.trainer import Trainer
from creditflow.wrappers.records.group import Group

ROOT = Path(__file__).resolve().parents[2]
COMPLETIONS = {
    "sokoban": ("up", "down", "left", "right"),
    "alfworld": ("look", "inventory", "go to cabinet 1", "open drawer 1"),
    "webshop": ("search[red shirt]", "click[next >]", "click[back to search]"),
    "wikisearch": (
        *(f"<search>{query}</search>" for query in ("river", "king", "city", "album")),
        "<answer>x</answer>",
    ),
}


def settings_of(name: str, model: Path, *overrides: str) -> TrainConfig:
    """The settings of a recipe, on one core."""
    return load_settings(ROOT / f"train/configs/smollm2_{name}.yaml", (f"model.path={model}", "threads=1", *overrides))


def play(settings: TrainConfig, backend: object, model: Path, groups: int) -> tuple[list[Group], float]:
    """Play groups of the training tasks; returns them, and seconds of this process."""
    rollout = settings.rollout
    sampling = Sampling(rollout.max_new_tokens, rollout.temperature)
    agent = settings.prompting.agent(backend, open_tokenizer(model), sampling, name="policy")
    engine = RolloutEngine(group_env_factory(settings.env, rollout.group_size, texts=True))
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)[:groups]
    began = time.process_time()
    played = engine.play(agent, tasks, seed=0, iteration=0)
    return list(played), time.process_time() - began


class Instant:
    """A model that answers at once, at random."""

    context = 0

    def __init__(self, completions: Sequence[str], tokenizer: Any) -> None:
        ids = text_ids(tokenizer, list(completions))
        self.completions = [np.array([*one, tokenizer.eos_token_id], np.int32) for one in ids]

    def generate(self, requests: Sequence[GenerationRequest], *_: object) -> list[Completion]:
        """Complete every prompt, by its own random number."""
        chosen = [self.completions[int(request.uniforms[0] * len(self.completions))] for request in requests]
        return [Completion(ids, np.full(len(ids), -1.0, np.float32)) for ids in chosen]


def recurring_states(model: Path, groups: int) -> None:
    """Groups played with and without known logits."""
    settings = settings_of("sokoban", model)
    policy, _ = make_policy(settings, None, training_tasks(settings.env, settings.tasks, settings.seed))
    known, seconds = play(settings, TransformersBackend(policy), model, groups)
    with patch.object(TransformersBackend, "_recurring", return_value=False):
        plain, more = play(settings, TransformersBackend(policy), model, groups)
    turns = [
        [turn.action for one in played for each in one.trajectories for turn in each.turns] for played in (known, plain)
    ]
    assert turns[0] == turns[1], "known logits changed what was sampled"
    print_ratio(
        f"{groups} groups of 8 in Sokoban, logits of recurring prompts known", "every prompt computed", more / seconds
    )


def prompts(model: Path, groups: int) -> None:
    """Turns per second without the model."""
    tokenizer = open_tokenizer(model)
    for name, completions in COMPLETIONS.items():
        settings = settings_of(name, model)
        backend = Instant(completions, tokenizer)
        play(settings, backend, model, groups)  # what is loaded once
        known = [play(settings, backend, model, groups) for _ in range(3)]
        with patch.object(TextEncoder, "__call__", _encoded):
            anew = [play(settings, backend, model, groups) for _ in range(3)]
        played, (seconds, more) = known[0][0], (min(took for _, took in runs) for runs in (known, anew))
        turns = sum(len(each.turns) for one in played for each in one.trajectories)
        print_speed(f"turns of {name} beside the model", turns / seconds)
        print_ratio(f"turns of {name} beside the model", "every prompt encoded anew", more / seconds)


def _encoded(encoder: TextEncoder, text: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Ids of a text, encoded anew."""
    return np.array(text_ids(encoder.tokenizer, [text])[0], np.int32)


def arithmetic(model: Path, steps: int) -> None:
    """FLOP/s of updates over those of a product."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(
            "sokoban", model, f"out={folder}/run", f"sft.steps={steps}", "update.iterations=0", "evaluation.panel=", "evaluation.final_panel=",
        )  # fmt: skip
        trainer = Trainer(settings)
        blocks = sum(one.numel() for name, one in trainer.model.named_parameters() if "layers" in name)
        trainer.run()
        records = [record for record in read_metrics(Path(settings.out) / "metrics.jsonl") if record["phase"] == "sft"]
    rates = [6.0 * blocks * record["tokens"] / record["seconds"] for record in records[1:]]
    a, b = torch.randn(1024, 576), torch.randn(576, 1536)
    best = min(_seconds(lambda: a @ b) for _ in range(20))
    print_ratio(
        "FLOP/s of imitation's updates",
        "a float32 product of 1024 × 576 × 1536",
        float(np.median(rates)) * best / (2.0 * 1024 * 576 * 1536),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Run the three parts."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "runs/smollm2_sokoban/model", help="folder of a model")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        given = options.model.is_dir() and not options.toy
        model = options.model if given else pretrained_folder(Path(folder), vocabulary=900)
        recurring_states(model, 1 if options.toy else 8)
        prompts(model, 1 if options.toy else 16)
        arithmetic(model, 2 if options.toy else 6)


if __name__ == "__main__":
    main()
