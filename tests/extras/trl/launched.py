"""The script that a launcher starts in every process: two training steps; writes the process's prompts and the model.

python launched.py MODEL LEVELS OUT EPISODES_PER_PROCESS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig

from creditflow import credit
from creditflow.agents.language_model.pretrained import read_agent_file
from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.settings.schema import EnvConfig, TaskConfig


def main(model: str, levels: str, out: str, episodes: str) -> None:
    torch.set_num_threads(1)
    env = EnvConfig(name="sokoban", options={"levels": levels, "max_steps": 5, "symbols": "ascii"})
    prompting, sampling = read_agent_file(Path(model) / "creditflow_agent.json")
    args = GRPOConfig(
        out, use_cpu=True, bf16=False, report_to=[], disable_tqdm=True, save_strategy="no", gradient_checkpointing=False,
        per_device_train_batch_size=int(episodes), num_generations=4, max_steps=2, learning_rate=0.05, optim="sgd",
        lr_scheduler_type="constant", seed=5,
    )  # fmt: skip
    trainer = CreditGRPOTrainer(
        model,
        play=EpisodeConfig(env=env, prompting=prompting, max_new_tokens=sampling.max_new_tokens),
        tasks=training_tasks(env, TaskConfig(), seed=0),
        scheme=credit.make("gigpo"),
        args=args,
    )
    rollout, played = trainer.rollout_func, []

    def watched(prompts: Any, trainer: Any) -> Any:
        played.append(list(prompts))
        return rollout(prompts, trainer)

    trainer.rollout_func = watched
    trainer.train()
    trainer.save_model()
    path = Path(out) / f"prompts-{trainer.accelerator.process_index}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(played), encoding="utf-8")
    trainer.accelerator.end_training()  # ends the process group: its threads must not outlive the interpreter


if __name__ == "__main__":
    main(*sys.argv[1:])
