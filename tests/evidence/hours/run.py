"""The estimate of a run's hours beside a measured run, on one core of a CPU.

  python tests/evidence/hours/run.py [--out tests/evidence/hours/results.json]

The core's peak speeds are measured (a matrix product, a copy); then ``creditflow train`` runs a few iterations of the quickstart's setting
with models of two sizes, without evaluation. Processor seconds of the rollout and of the rest, nearly all of it the update, stand
beside the range that ``train/run/estimate/hours`` computes for a device of these speeds; ``fraction`` is the part of the peak FLOP/s that
passes over the tokens that were really trained on reached.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.envs.files.atomic import write_json
from creditflow.train.rollout.task_sampling import SampledGroups
from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.run.estimate.hours import HIGH, LOW, Gpu, Hours, Panels, forward_flops, hours_of, passes
from creditflow.train.run.estimate.prompts import measured_prompts
from creditflow.train.run.estimate.sizes import ModelSizes
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.schema import TrainConfig, load_settings
from creditflow.train.trainer import Trainer

ROOT = Path(__file__).resolve().parents[3]
RECIPE = ROOT / "train" / "configs" / "quickstart.yaml"
ALONE = ("evaluation.panel=", "evaluation.final_panel=", "evaluation.every=0")
MODELS = {
    "0.1 M": ("update.iterations=4",),
    "5 M": ("update.iterations=2", "rollout.tasks=4", "sft.steps=20", "model.scratch={hidden: 256, layers: 6, heads: 4, kv_heads: 2, intermediate: 768, positions: 512}"),
}  # fmt: skip


def speeds() -> Gpu:
    """Peak FLOP/s of a float32 matrix product and bytes/s of a copy, each the best of ten."""

    def best(work: Any) -> float:
        times = []
        for _ in range(10):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return min(times)

    a, source = torch.randn(1024, 1024), torch.randn(2**26)
    target = torch.empty_like(source)
    return Gpu(2 * 1024**3 / best(lambda: a @ a), 8.0 * source.numel() / best(lambda: target.copy_(source)))


class TimedTrainer(Trainer):
    """Adds up the processor seconds of rollouts and of whole iterations."""

    rollout = whole = 0.0

    def sample(self, iteration: int) -> SampledGroups:
        """The groups of an iteration."""
        began = time.process_time()
        groups = super().sample(iteration)
        self.rollout += time.process_time() - began
        return groups

    def _train_iteration(self, iteration: int) -> None:
        began = time.process_time()
        super()._train_iteration(iteration)
        self.whole += time.process_time() - began


def compared(name: str, device: Gpu, folder: Path) -> dict[str, Any]:
    """One run, and its estimate."""
    settings = load_settings(RECIPE, (*ALONE, *MODELS[name], f"out={folder}"))
    trainer = TimedTrainer(settings)
    sizes = ModelSizes.of(trainer.model.config)
    assert sizes is not None
    trainer.run()
    iterations = [row for row in read_metrics(folder / "metrics.jsonl") if row["kind"] == "iteration"]
    seconds = {"rollout": trainer.rollout, "update": trainer.whole - trainer.rollout}
    low, high = estimated(settings, sizes, device, folder)
    tokens = sum(row.get("tokens_computed", 0.0) for row in iterations)  # groups of equal outcomes train nothing
    flops = passes(settings) * forward_flops(sizes, tokens, tokens / sum(row["turns"] for row in iterations))
    return {
        "parameters": sizes.parameters,
        "seconds": {part: round(value, 2) for part, value in seconds.items()},
        "estimated_seconds": {
            part: [float(f"{3600 * getattr(one, part):.3g}") for one in (low, high)] for part in seconds
        },
        "fraction": float(f"{flops / seconds['update'] / device.flops:.2g}"),
    }


def estimated(settings: TrainConfig, sizes: ModelSizes, device: Gpu, folder: Path) -> tuple[Hours, Hours]:
    """The range for these settings, with the run's own tokenizer."""
    tokenizer = open_tokenizer(folder / "tokenizer")
    tasks = training_tasks(settings.env, replace(settings.tasks, count=64), settings.seed)
    prompts = measured_prompts(settings, tasks, lambda text: len(tokenizer.encode(text, add_special_tokens=False)))
    settings = replace(settings, sft=replace(settings.sft, episodes=0))  # measured is what follows it
    low, high = (hours_of(sizes, settings, prompts, device, pace, Panels()) for pace in (LOW, HIGH))
    return low, high


def main() -> int:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    device = speeds()
    with tempfile.TemporaryDirectory() as folder:
        models = {name: compared(name, device, Path(folder) / str(number)) for number, name in enumerate(MODELS)}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    write_json(
        args.out,
        {
            "command": "python tests/evidence/hours/run.py",
            "commit": commit.stdout.strip(),
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "device": {
                "threads": 1,
                "flops": float(f"{device.flops:.3g}"),
                "bandwidth": float(f"{device.bandwidth:.3g}"),
            },
            "models": models,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
