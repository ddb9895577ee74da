"""The work with TRL's ``GRPOTrainer`` on its own path: ``environment_factory``.

TRL plays an environment as tools: the model's completion is parsed by a response template, a method of the environment is
called, its result is appended as a message, and the whole conversation is generated from again.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from benchmarks.peer.clock import GENERATION, REST, Clock
from benchmarks.peer.work import WARM_UP, Work
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

import creditflow
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.tasks import Task
from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.settings.schema import EnvConfig, TaskConfig

__all__ = ["RESPONSE_TEMPLATE", "SokobanTool", "run_trl"]

RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
        "tool_calls": {
            "open": "<action>",
            "close": "</action>",
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": "act", "arguments": {"action": "{content}"}}},
        },
        "content": {"close": "<|end|>", "content": "text"},
    },
}


class SokobanTool:
    """Sokoban as TRL plays it: ``reset`` returns the first message, ``act`` is the only tool.

    Args:
        env: the environment.
        tasks: tasks by id.
    """

    def __init__(self, env: EnvConfig, tasks: dict[str, Task]) -> None:
        self._env = creditflow.make(env.name, **env.options)
        self._tasks, self._return = tasks, 0.0

    def reset(self, task_id: str, **_: Any) -> str:
        """Start an episode."""
        observation, _info = self._env.reset(options={"task": dict(self._tasks[task_id].content)})
        self._return = 0.0
        return str(observation)

    def act(self, action: str) -> str:
        """Move the player.

        Args:
            action: up, down, left or right.

        Returns:
            The board afterwards.
        """
        observation, reward, *_ = self._env.step(action)
        self._return += float(reward)
        return str(observation)

    def get_reward(self) -> float:
        """The return of the episode."""
        return self._return


class TimedTrainer(GRPOTrainer):
    """``GRPOTrainer`` with a clock."""

    clock: Clock
    counts: list[dict[str, int]]

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        with self.clock.part(GENERATION):
            return super()._generate_single_turn(*args, **kwargs)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        out = super()._generate(*args, **kwargs)
        prompts, completions, mask = out[:3]
        self.counts.append(
            {
                "rows": len(prompts),
                "tokens": sum(map(len, prompts)) + sum(map(len, completions)),
                "sampled": sum(map(sum, mask)),
            }
        )
        return out

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        with self.clock.part(REST):
            return super()._generate_and_score_completions(inputs)


class Finish(TrainerCallback):
    """Ends an iteration of the clock after every optimiser step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Begin the first iteration."""
        self.clock.start()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """End an iteration."""
        self.clock.finish()


def arguments(work: Work, folder: Path) -> GRPOConfig:
    """TRL's settings of the work; what is not named here has TRL's default."""
    return GRPOConfig(
        str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no",
        disable_tqdm=True, logging_steps=1, seed=work.seed, max_steps=WARM_UP + work.iterations,
        per_device_train_batch_size=work.micro_rows, gradient_accumulation_steps=work.episodes // work.micro_rows,
        num_generations=work.group_size, learning_rate=1e-6, lr_scheduler_type="constant", loss_type="dapo", beta=0.0,
        max_completion_length=work.length, max_tool_calling_iterations=work.turns - 1,
        generation_kwargs={"max_new_tokens": work.completion},
    )  # fmt: skip


def run_trl(work: Work, start: Path, folder: Path) -> tuple[Clock, list[dict[str, int]]]:
    """Train; returns the times of the iterations, and the rows, tokens and sampled tokens of each.

    The result of the last turn's action is not asked for: ``max_tool_calling_iterations`` counts the turns after the first.
    """
    model, tokenizer = open_pretrained(str(start), device="cpu")
    tokenizer.response_template = RESPONSE_TEMPLATE
    env = work.env(start)
    tasks = {task.task_id: task for task in training_tasks(env, TaskConfig(), work.seed)}
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], "task_id": name} for name in tasks])
    clock = Clock()
    trainer = TimedTrainer(
        model=model,
        args=arguments(work, folder),
        train_dataset=data,
        processing_class=tokenizer,
        environment_factory=partial(SokobanTool, env, tasks),
        callbacks=[Finish(clock)],
    )
    trainer.clock, trainer.counts = clock, []
    trainer.train()
    dead = [log["frac_reward_zero_std"] for log in trainer.state.log_history if "frac_reward_zero_std" in log]
    for count, fraction in zip(trainer.counts, dead, strict=True):
        count["without_signal"] = round(fraction * count["rows"])
    return clock, trainer.counts
