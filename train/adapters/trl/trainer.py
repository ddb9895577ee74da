"""Train with TRL on our environments with per-turn credit: ``CreditGRPOTrainer``, a ``GRPOTrainer``.

TRL computes one advantage per completion. This subclass plays whole groups in our environments, assigns credit with a
scheme, and replaces TRL's (B,) advantages by a (B, T) tensor, one per token; tokens of the environment are masked.
Losses, optimizer, schedule, checkpoints, logging and distribution remain TRL's::

    from trl import GRPOConfig
    from creditflow import credit
    from creditflow.agents.language_model.models.pretrained import PromptingConfig
    from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
    from creditflow.train.run.tasks import training_tasks
    from creditflow.train.settings.schema import EnvConfig, TaskConfig

    env = EnvConfig(name="sokoban", options={"max_steps": 20})
    trainer = CreditGRPOTrainer(
        "path/to/model",
        play=EpisodeConfig(env=env, prompting=PromptingConfig(prompt="think-v1", dialect="think"), max_new_tokens=128),
        tasks=training_tasks(env, TaskConfig(panel="standard-v1:train"), seed=0),
        scheme=credit.make("gigpo"),
        args=GRPOConfig("runs/trl", per_device_train_batch_size=16, num_generations=8, loss_type="dapo", max_steps=100),
    )
    trainer.train()  # or trainer.train(resume_from_checkpoint=True)

The loss type must aggregate token losses as the scheme does ("dapo" over tokens, "grpo" over episodes; TRL has none over
turns), unless ``averaging="loss_type"`` selects TRL's aggregation. An episode without a token in the loss counts in the
mean of "grpo" as an episode of loss 0.

A checkpoint is an ordinary model folder that also holds the prompting settings: ``creditflow eval --agent hf:FOLDER``. A
resumed run repeats the uninterrupted one if no generation batch was partly used when it was saved (``save_steps`` a
multiple of steps_per_generation × num_iterations / gradient_accumulation_steps); otherwise TRL generates a new one.

With several processes, each plays its own whole groups, so per_device_train_batch_size × steps_per_generation must be a
multiple of num_generations. That is checked before training and on every batch. Two processes on a CPU update the weights
as one does, launched by torchrun and by accelerate (tested)::

    torchrun --nproc-per-node 8 script.py
    accelerate launch --config_file train/adapters/trl/accelerate_ddp.yaml --num_processes 8 script.py
    accelerate launch --config_file train/adapters/trl/accelerate_fsdp2.yaml --num_processes 8 script.py    # not run here

Schemes that couple the groups of a batch see only the groups of their process.

Not run here: GPUs, PEFT adapters, DeepSpeed and FSDP2. A sharded model cannot be sampled in place, because processes
play different numbers of turns and would wait for each other: such runs are rejected unless ``make_backend`` returns a
sampler with its own copy of the weights, such as a server, whose ``sync`` is called before every generation batch and
must fetch the trained weights.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.models.agent_file import write_agent_file
from creditflow.agents.language_model.models.pretrained import AGENT_FILE, open_tokenizer, require_torch
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.tasks import Task
from creditflow.train.adapters.trl.support import TRL, check_arguments

require_torch()
TRL.require()

import torch
from datasets import Dataset
from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer

from creditflow.train.adapters.trl.rollout import (
    ADVANTAGES,
    LOSS_MASK,
    CreditRollout,
    EpisodeConfig,
    SyncedBackend,
    episode_return,
)
from creditflow.train.annotate import Annotator
from creditflow.wrappers.credit.base import Scheme

__all__ = ["CreditGRPOTrainer", "EpisodeConfig"]

RESERVED_ARGUMENTS = frozenset(
    {"reward_funcs", "train_dataset", "eval_dataset", "reward_processing_classes", "tools", "rollout_func",
     "environment_factory"}
)  # fmt: skip


class CreditGRPOTrainer(GRPOTrainer):
    """GRPO with per-turn credit.

    Args:
        model: as for ``GRPOTrainer``.
        play: environment, prompting and limits of episodes.
        tasks: training tasks; TRL determines their order.
        scheme: credit scheme.
        args: TRL's settings. ``num_generations`` is the group size, ``temperature`` that of the sampler; ``scale_rewards``
            and reward weights have no effect.
        processing_class: the tokenizer; default: that of the model folder.
        eval_tasks: tasks of ``evaluate()``.
        annotators, averaging, make_backend: as for ``CreditRollout``.
        **others: for ``GRPOTrainer`` (callbacks, optimizers, peft_config, …).

    Raises:
        ConfigError: settings under which the loss would not use the scheme's advantages.
    """

    def __init__(
        self,
        model: Any,
        *,
        play: EpisodeConfig,
        tasks: Sequence[Task],
        scheme: Scheme,
        args: GRPOConfig,
        processing_class: Any = None,
        eval_tasks: Sequence[Task] = (),
        annotators: Sequence[Annotator] = (),
        averaging: Literal["scheme", "loss_type"] = "scheme",
        make_backend: Callable[[Any], SyncedBackend] | None = None,
        **others: Any,
    ) -> None:
        if taken := sorted(RESERVED_ARGUMENTS & others.keys()):
            raise ConfigError(f"{', '.join(taken)}: rewards, prompts and rollouts come from the environment and scheme")
        check_arguments(args, len(tasks))
        if processing_class is None:
            folder = model if isinstance(model, str) else model.config.name_or_path
            if not folder:
                raise ConfigError("this model was not loaded from a folder: pass its tokenizer as processing_class")
            processing_class = open_tokenizer(folder)
        self.credit_play = play
        rollout = CreditRollout(
            play,
            (*tasks, *eval_tasks),
            scheme,
            processing_class,
            annotators=annotators,
            averaging=averaging,
            make_backend=make_backend,
        )
        with warnings.catch_warnings():  # rollout functions are experimental in TRL, which is why releases are checked
            warnings.filterwarnings("ignore", message=".*'rollout_func', which is an experimental feature")
            super().__init__(
                model=model,
                reward_funcs=[episode_return],
                args=args,
                train_dataset=_dataset(tasks),
                eval_dataset=_dataset(eval_tasks) if eval_tasks else None,
                processing_class=processing_class,
                rollout_func=rollout,
                **others,
            )
        if make_backend is None and (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            raise ConfigError(
                "a sharded model cannot be sampled in place: processes play different numbers of turns and would "
                "wait for each other; pass a make_backend that returns a sampler with its own copy of the weights, or "
                "train without FSDP and DeepSpeed"
            )

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """TRL's order of tasks, redrawn for every epoch: after resuming, TRL alone would start with the first epoch's order."""
        return _EpochOrder(super()._get_train_sampler(dataset), self)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch with (B, T) advantages; TRL splits and shuffles the batch later, so they must be in it now."""
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if any(ADVANTAGES not in row for row in inputs):
            raise TrajectoryError(
                "TRL did not keep this adapter's columns in its inputs; this release is not supported"
            )
        ours = _padded([row[LOSS_MASK] for row in inputs], batch["completion_mask"])
        theirs = batch["completion_mask"] * batch["tool_mask"]
        if not torch.equal(theirs, ours.to(theirs.dtype)):
            raise TrajectoryError(
                "the mask in TRL's batch is not the one passed; this release or a setting is not supported"
            )
        batch["advantages"] = _padded([row[ADVANTAGES] for row in inputs], batch["completion_mask"])
        self._log_advantages(batch["advantages"], theirs)
        return batch

    def _log_advantages(self, advantages: Any, mask: Any) -> None:
        """Log the mean advantage of each episode's tokens in TRL's table of completions, instead of TRL's own estimate."""
        means = (advantages * mask).sum(1) / mask.sum(1).clamp(min=1)
        shown = self.accelerator.gather(means).tolist()
        log = self._logs["advantages"]
        for _ in range(min(len(shown), len(log))):
            log.pop()
        log.extend(shown)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model folder with the prompting settings beside the weights."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            folder = Path(self.args.output_dir if output_dir is None else output_dir)
            sampling = Sampling(max_new_tokens=self.credit_play.max_new_tokens, temperature=self.args.temperature)
            write_agent_file(folder / AGENT_FILE, self.credit_play.prompting, sampling)


class _EpochOrder(Sampler[int]):
    """A sampler whose order is a function of seed and epoch, so that a resumed run continues at the same place."""

    def __init__(self, sampler: Any, trainer: Any) -> None:
        self.sampler, self.trainer = sampler, trainer

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        if self.sampler.shuffle:
            epoch = math.floor((self.trainer.state.epoch or 0.0) + 1e-6)  # a sum of fractions of an epoch
            self.sampler.generator.manual_seed(self.trainer.args.seed + epoch)
        return iter(self.sampler)


def _dataset(tasks: Sequence[Task]) -> Any:
    """TRL's data set: the prompt is the task id, from which the rollout starts.

    Raises:
        ConfigError: a task occurs twice.
    """
    ids = [task.task_id for task in tasks]
    if len(set(ids)) != len(ids):
        raise ConfigError("a task occurs twice: list each task once, TRL repeats it for its group")
    return Dataset.from_dict({"prompt": ids})


def _padded(rows: Sequence[Sequence[float]], like: Any) -> Any:
    """float32 (B, T), rows padded with zeros to the width of ``like``, on its device."""
    width = like.shape[1]
    return torch.tensor([[*row, *([0.0] * (width - len(row)))] for row in rows], dtype=torch.float32).to(like.device)
