"""Learning curves on a device: every scheme and two controls from the same SFT policy, seed by seed.

Controls: ``gigpo_shuffled`` permutes GiGPO's step advantages across turns (what remains is the outcome and noise of the
same size), ``more_sft`` continues SFT instead of learning from rewards.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu.speed import sizes_of

from creditflow.envs.errors import ConfigError
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.gigpo import GiGPO
from creditflow.wrappers.records.group import Group

__all__ = ["CONTROLS", "FIRST", "ShuffledGiGPO", "curves", "train_curve", "trainer_iterations"]

FIRST = ("grpo", "gigpo", "graphgpo", "rewardflow", "grouptd")  # trained first, in case the time limit is reached
CONTROLS = ("gigpo_shuffled", "more_sft")
ONLY_TOY = ("pica",)  # with an untrained success model, to test the code path
WITHOUT = {
    "pica": "train a success model on search logs first (kind: success_model)",
    "tips": "Sokoban's tasks have no answers",
    "igpo": "Sokoban's tasks have no answers",
    "trace": "Sokoban's tasks have no answers",
    "hcapo": "the annotator hindsight:DIR has not been run on Sokoban's actions",
    "draco": "Sokoban's tasks have no rubric",
    "agent_opsd": "Sokoban's tasks have no skill's text",
    "beacon": "no annotator writes milestones; set credit.parameters.milestones=reward",
    "vpr": "the annotator oracle is not among the settings of this script",
}


@dataclass(frozen=True, kw_only=True)
class ShuffledGiGPO(GiGPO):
    """GiGPO whose step advantages are permuted across the turns of the group: a negative control."""

    name = "gigpo_shuffled"
    source = "control"
    properties = frozenset()

    def assign(self, group: Group) -> Credit:
        """Score one group; the permutation is a function of the group's id."""
        scored = super().assign(group)
        seed = int.from_bytes(hashlib.blake2b(group.group_id.encode(), digest_size=8).digest(), "big")
        order = np.random.default_rng(seed).permutation(len(scored.flat_step_advantages))
        return replace(scored, flat_step_advantages=scored.flat_step_advantages[order])


def curves(
    folder: Path, *, seeds: Sequence[int], schemes: Sequence[str], overrides: Sequence[str], toy: bool
) -> dict[str, Callable[[], dict[str, Any]]]:
    """The runs by name: for every seed one SFT run, then one run per scheme and control.

    Args:
        folder: folder of the runs.
        seeds: random seeds; with ``toy`` only the first.
        schemes: names of the schemes and controls; if empty, the controls and all schemes that need no fields of a task.
        overrides: ``a.b=c`` overrides of the settings.
        toy: whether to use toy sizes on a CPU.
    """
    credit.register(ShuffledGiGPO)
    registered = [name for name in credit.names() if name not in (*FIRST, *CONTROLS) and not lookup(name).task_fields]
    wanted = list(schemes) or [*FIRST, *CONTROLS, *registered]
    seeds = list(seeds)[:1] if toy else list(seeds)
    runs: dict[str, Callable[[], dict[str, Any]]] = {}
    for seed in seeds:
        runs[f"sft/{seed}"] = partial(_run_sft, folder, seed, overrides, toy)
        for scheme in wanted:
            runs[f"{scheme}/{seed}"] = partial(_run_scheme, folder, scheme, seed, overrides, toy)
    return runs


def trainer_iterations(folder: Path, toy: bool, results: Mapping[str, Any]) -> dict[str, Any]:
    """Some iterations of the trainer after a short SFT: median seconds of their parts, tokens per second, fraction of the limit.

    The first iteration, in which libraries are loaded and memory is taken, is not counted. Boxes on targets are rewarded, so that
    groups have a signal early. A token is read once in the rollout, and forward and backward in the update.

    Args:
        folder: folder of the run.
        toy: whether to use toy sizes.
        results: the contents of the results file, with the device's limits if they are measured.
    """
    count = 2 if toy else 4
    shutil.rmtree(folder / "speed-0", ignore_errors=True)
    sizes = ("sft.steps=30",) if toy else ("sft.steps=150", "sft.episodes=1000")
    few = (*sizes, f"update.iterations={count}", "evaluation.panel=", "evaluation.final_panel=")
    records = train_curve(_settings(folder, "speed", 0, (), toy, "env.options.reward=gym_sokoban", *few))["train"][1:]

    def median(name: str) -> float:
        return float(np.median([record[name] or 0.0 for record in records]))

    parts = {name: median(name) for name in records[0] if name.startswith("seconds")}
    tokens = median("prompt_tokens") + median("completion_tokens")
    found = {f"iteration_{name}": value for name, value in parts.items()}
    found |= {
        "tokens_per_second": tokens / parts["seconds"],
        "episodes_per_second": median("episodes") / parts["seconds"],
    }
    limit = results.get("checks", {}).get("speed/ceilings", {}).get("flops_bfloat16")
    parameters = results.get("checks", {}).get("speed/sft", {}).get("parameters")
    if limit and parameters:  # of nearly the same network, which has a smaller vocabulary
        found["matmul_ceiling_fraction"] = 8.0 * parameters * found["tokens_per_second"] / limit
    return found


def _settings(folder: Path, name: str, seed: int, overrides: Sequence[str], toy: bool, *more: str) -> TrainConfig:
    sizes = sizes_of(toy)
    data: dict[str, Any] = {
        "out": str(folder / f"{name}-{seed}"),
        "seed": seed,
        "device": "cpu" if toy else "cuda",
        "threads": 1 if toy else 0,
        "env": {
            "name": "sokoban",
            "options": {
                "generator": {"height": 8, "width": 8, "boxes": 2, "min_length": 3, "max_length": 20},
                "max_steps": 30,
                "symbols": "ascii",
                "separator": "",
            },
        },
        "tasks": {"count": 4000, "exclude": ["standard-v1:valid", "standard-v1:test"]},
        "model": {
            "autocast": "bfloat16",
            "scratch": {
                "hidden": sizes.hidden, "layers": sizes.layers, "heads": sizes.heads, "kv_heads": sizes.kv_heads,
                "intermediate": sizes.intermediate, "vocabulary": 1024, "init": sizes.init,
                "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
            },
        },
        "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "window", "window": 0},
        "sft": {
            "episodes": 3000, "noise": 0.3, "steps": 1500, "batch_tokens": 8192,
            "optimizer": {"lr": 6e-4, "schedule": "cosine", "warmup_fraction": 0.05, "betas": [0.9, 0.95]},
        },
        "rollout": {"tasks": 64, "group_size": 8, "max_new_tokens": 3, "dtype": "bfloat16"},
        "update": {
            "iterations": 100, "batch_tokens": 131072, "logits_chunk": 8192, "loss": {"clip_high": 0.28},
            "optimizer": {"lr": 1e-4, "betas": [0.9, 0.95], "warmup_fraction": 0.05},
        },
        "evaluation": {"panel": "standard-v1:valid", "final_panel": "standard-v1:test", "every": 10, "samples": 4},
        "checkpoint": {"every": 20, "keep": 1},
    }  # fmt: skip
    if toy:
        toy_settings = (
            "env.options.max_steps=6", "tasks.count=24",
            "env.options.generator={height: 6, width: 6, boxes: 1, min_length: 2, max_length: 4}",
            "sft.episodes=60", "sft.steps=60", "sft.batch_tokens=600", "sft.optimizer.lr=3e-3", "rollout.tasks=4",
            "rollout.group_size=4", "update.iterations=2", "evaluation.limit=2", "evaluation.samples=1",
            "evaluation.every=1", "evaluation.panel=small-v1:valid",
            "evaluation.final_panel=", "checkpoint.every=1",
        )  # fmt: skip
        data = apply_overrides(data, toy_settings)
    return read_dataclass(TrainConfig, apply_overrides(apply_overrides(data, overrides), more))


def train_curve(settings: TrainConfig) -> dict[str, Any]:
    """Run or continue one training run; returns its curve."""
    from creditflow.train.trainer import Trainer

    folder = Path(settings.out)
    Trainer(settings, resume=latest_checkpoint(folder / "checkpoints") is not None).run()
    records = read_metrics(folder / "metrics.jsonl")
    seen = (
        "success",
        "entropy",
        "seconds",
        "seconds_rollout",
        "seconds_credit",
        "seconds_update",
        "episodes",
        "prompt_tokens",
        "completion_tokens",
        "sampler_mismatch_max",
    )
    return {
        "train": [{k: r.get(k) for k in ("step", *seen)} for r in records if r["kind"] == "iteration"],
        "evaluations": [r for r in records if r["kind"].startswith("eval_")],
        "model": str(folder / "model"),
    }


def _run_sft(folder: Path, seed: int, overrides: Sequence[str], toy: bool) -> dict[str, Any]:
    return train_curve(_settings(folder, "sft", seed, overrides, toy, "update.iterations=0"))


def _run_scheme(folder: Path, scheme: str, seed: int, overrides: Sequence[str], toy: bool) -> dict[str, Any]:
    start = folder / f"sft-{seed}" / "model"
    if not (start / "config.json").is_file():
        raise ConfigError(f"the SFT model of seed {seed} is missing: {start}")
    begin = (f"model.path={start}",)
    if scheme == "more_sft":
        return train_curve(_settings(folder, scheme, seed, overrides, toy, *begin, "update.iterations=0"))
    made = credit.make(scheme)
    written = _annotator_settings(scheme, start, folder) if made.needs else ()
    if written is None or (scheme in ONLY_TOY and not toy):
        return {
            "skipped": f"needs {', '.join(made.needs)}, which no annotator here writes: {WITHOUT.get(scheme, scheme)}"
        }
    return train_curve(
        _settings(folder, scheme, seed, overrides, toy, *begin, "sft.episodes=0", f"credit.scheme={scheme}", *written)
    )


def _annotator_settings(scheme: str, policy: Path, folder: Path) -> tuple[str, ...] | None:
    """Settings under which the scheme's annotations are written on Sokoban; None if they cannot be."""
    if scheme in ("mt_ppo", "ppo_gae", "steppo"):
        return ("critic.kind=shared",)
    if scheme == "prm":  # the oracle stands in for the judge: a turn that makes the level unsolvable scores low
        return ("credit.annotators=[oracle]", "credit.parameters={value: value.oracle, form: increase}")
    if scheme == "pica":
        model = _untrained_success(policy, folder / "success")
        return (
            f"credit.annotators={json.dumps([f'success:{model}'])}",
            "credit.parameters={penalty: 0.0, baseline: group}",
        )
    return None


def _untrained_success(policy: Path, path: Path) -> Path:
    """A success model initialised from the SFT policy and untrained: it predicts 1/2 for every state."""
    from creditflow.agents.language_model.pretrained import open_pretrained
    from creditflow.train.annotate.success.encoding import Encoder, TextConfig
    from creditflow.train.annotate.success.model import SuccessModel, save_success

    if not path.exists():
        backbone, tokenizer = open_pretrained(str(policy), device="cpu")
        save_success(path, SuccessModel(backbone), tokenizer, "paper", Encoder(tokenizer, TextConfig()))
    return path
