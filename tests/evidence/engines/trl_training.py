"""TRL trains a tiny model on Sokoban with our credit: the arrays in its loss, success before and after, and resume.

  python tests/evidence/engines/trl_training.py --out tests/evidence/engines/trl.json

The model is made from scratch, fine-tuned briefly on demonstrations of a noisy expert (SFT), and trained by
``CreditGRPOTrainer``. Success is that of sampled episodes, on the training levels and on held-out ones, with 95 % intervals
over levels.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trl import GRPOConfig

from creditflow import credit
from creditflow.agents.language_model.pretrained import make_hf_agent
from creditflow.envs.files.atomic import write_json
from creditflow.envs.tasks import Task
from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.policy.samples import make_rows
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.evaluation import clustered_interval, evaluate
from creditflow.train.rollout.tasks import group_env_factory, training_tasks
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.train.trainer import Trainer

SIZE, GROUPS, SAMPLES = 8, 8, 8
SETTINGS: dict[str, Any] = {
    "seed": 8, "device": "cpu", "threads": 1,
    "env": {
        "name": "sokoban",
        "options": {
            "generator": {"height": 5, "width": 5, "boxes": 1, "min_length": 1, "max_length": 6},
            "max_steps": 10, "symbols": "ascii", "separator": "",
        },
    },
    "tasks": {"count": 128},
    "model": {
        "scratch": {
            "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 320, "init": 0.1,
            "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
        }
    },
    "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "append"},
    "sft": {"episodes": 400, "steps": 250, "batch_tokens": 1024, "noise": 0.5, "imitate_noise": True,
            "optimizer": {"lr": 2e-3}},
    "rollout": {"max_new_tokens": 3},
}  # fmt: skip


class Watched(CreditGRPOTrainer):
    """The adapter; compares the arrays in TRL's loss with the rows of our own trainer."""

    rows, gap_advantage, gap_logprob, wrong_masks = 0, 0.0, 0.0, 0
    wanted: dict[tuple[int, ...], dict[int, float]]

    def watch(self) -> None:
        """Keep the scored groups of every generation."""
        rollout: Any = self.credit_rollout
        score, self.wanted = rollout._score, {}

        def kept(*arguments: Any) -> Any:
            groups, credits_ = score(*arguments)
            rows = make_rows(groups, credits_)
            self.wanted.update({tuple(r.ids.tolist()): dict(zip(r.target, r.advantage, strict=True)) for r in rows})
            return groups, credits_

        rollout._score = kept

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        mask = inputs["completion_mask"] * inputs["tool_mask"]
        for i in range(len(mask)):
            prompt = inputs["prompt_ids"][i][inputs["prompt_mask"][i].bool()].tolist()
            completion = inputs["completion_ids"][i][inputs["completion_mask"][i].bool()].tolist()
            positions = mask[i].nonzero()[:, 0].tolist()
            wanted = self.wanted[tuple(prompt + completion)]
            self.rows += 1
            self.wrong_masks += [len(prompt) + p for p in positions] != list(wanted)
            ours = np.array(list(wanted.values()), np.float32)
            theirs = inputs["advantages"][i, positions].cpu().numpy()
            self.gap_advantage = max(self.gap_advantage, float(np.abs(ours - theirs).max(initial=0.0)))
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        with torch.no_grad():
            again, *_ = self._get_per_token_logps_and_entropies(
                model, ids, attention, inputs["completion_ids"].shape[1]
            )
        gap = (again - inputs["sampling_per_token_logps"]).abs()[mask.bool()]
        self.gap_logprob = max(self.gap_logprob, float(gap.max()))
        return super()._compute_loss(model, inputs)


def trainer_of(
    settings: TrainConfig, model: Path, out: Path, tasks: list[Task], scheme: str, **changes: Any
) -> Watched:
    """The adapter for this model and these tasks; ``changes`` are arguments of ``GRPOConfig``."""
    values: dict[str, Any] = {
        "output_dir": str(out), "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True, "seed": 5,
        "gradient_checkpointing": False, "per_device_train_batch_size": SIZE * GROUPS, "num_generations": SIZE,
        "learning_rate": 1e-3, "lr_scheduler_type": "constant", "save_strategy": "no", "logging_steps": 10,
    }  # fmt: skip
    trainer = Watched(
        str(model), play=EpisodeConfig(env=settings.env, prompting=settings.prompting, max_new_tokens=3), tasks=tasks,
        scheme=credit.make(scheme), args=GRPOConfig(**values | changes),
    )  # fmt: skip
    trainer.watch()
    return trainer


def success(settings: TrainConfig, model: Path, tasks: list[Task]) -> tuple[dict[str, float], np.ndarray[Any, Any]]:
    """Sampled success with its 95 % interval over levels, and the success rate of each level, float64 (levels,)."""
    agent = make_hf_agent(str(model), device="cpu")
    found = evaluate(RolloutEngine(group_env_factory(settings.env, 1)), agent, agent, tasks, samples=SAMPLES, seed=1)
    low, high = clustered_interval(found.success_rates)
    return {
        "success": float(found.success_rates.mean()),
        "low": low,
        "high": high,
        "levels": len(tasks),
    }, found.success_rates


def resumed(settings: TrainConfig, model: Path, folder: Path, tasks: list[Task], scheme: str) -> dict[str, Any]:
    """Whether a run of four steps and one resumed after two give bit-identical weights."""
    saving = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole = trainer_of(settings, model, folder / "whole", tasks, scheme, **saving)
    whole.train()
    again = trainer_of(settings, model, folder / "again", tasks, scheme, **saving)
    again.train(resume_from_checkpoint=str(folder / "whole" / "checkpoint-2"))
    other = again.model.state_dict()
    same = all(torch.equal(value, other[name]) for name, value in whole.model.state_dict().items())
    return {"steps": [whole.state.global_step, again.state.global_step], "weights_equal_to_the_bit": same}


def main() -> int:
    """Train, evaluate and write the results."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps of RL (default 60)")
    parser.add_argument("--scheme", default="gigpo", help="credit scheme (default gigpo)")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = read_dataclass(TrainConfig, SETTINGS | {"out": str(folder / "warm")})
        Trainer(settings, stream=io.StringIO()).run()
        warm, out = folder / "warm" / "model", folder / "trl"
        tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        drawn = training_tasks(settings.env, replace(settings.tasks, count=400), settings.seed + 1)
        trained_on = {task.canonical_id for task in tasks}
        held_out = [task for task in drawn if task.canonical_id not in trained_on]
        trainer = trainer_of(settings, warm, out, tasks, args.scheme, max_steps=args.steps)
        trainer.train()
        trainer.save_model()
        report: dict[str, Any] = {
            "what": "CreditGRPOTrainer on Sokoban, a model from scratch, CPU",
            "provenance": provenance([], 5)
            | {"command": f"python tests/evidence/engines/trl_training.py --steps {args.steps} --scheme {args.scheme} --out FILE"},
            "versions": {
                name: importlib.metadata.version(name)
                for name in ("trl", "transformers", "accelerate", "datasets", "torch")
            },
            "run": {"scheme": args.scheme, "steps": args.steps, "episodes_per_step": SIZE * GROUPS,
                    "parameters": sum(p.numel() for p in trainer.model.parameters())},
            "contract": {
                "rows_in_trl's_loss": trainer.rows,
                "rows_whose_mask_differs_from_ours": trainer.wrong_masks,
                "largest_difference_of_an_advantage": trainer.gap_advantage,
                "largest_difference_of_a_logprob_sampled_and_computed_again": trainer.gap_logprob,
            },
        }  # fmt: skip
        for title, levels in (("trained_on_levels", tasks), ("held_out_levels", held_out)):
            (before, old_rates), (after, new_rates) = (success(settings, model, levels) for model in (warm, out))
            gains = new_rates - old_rates
            gain, error = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(levels)))
            paired = {"gain": gain, "low": gain - 1.96 * error, "high": gain + 1.96 * error}
            report[title] = {"before": before, "after": after, "paired": paired}
        report["resume"] = resumed(settings, warm, folder, tasks, args.scheme)
    write_json(args.out, report)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
