"""Training with TRL on our environments and our credit: ``CreditGRPOTrainer``, a ``GRPOTrainer``.

TRL computes one advantage per completion. This subclass plays whole groups in our environments, scores them with a
credit scheme, and puts a (B, T) tensor, one number per token, where TRL's (B,) numbers were; what the environment
wrote is masked. Losses, optimiser, schedule, checkpoints, logging and distribution stay TRL's::

    from trl import GRPOConfig
    from creditflow import credit
    from creditflow.agents.language_model.pretrained import PromptingConfig
    from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, Play
    from creditflow.train.run.assemble import training_tasks
    from creditflow.train.settings.schema import EnvConfig, TaskConfig

    env = EnvConfig(name="sokoban", options={"max_steps": 20})
    trainer = CreditGRPOTrainer(
        "path/to/model",
        play=Play(env=env, prompting=PromptingConfig(prompt="think-v1", dialect="think"), max_new_tokens=128),
        tasks=training_tasks(env, TaskConfig(panel="standard-v1:train"), seed=0),
        scheme=credit.make("gigpo"),
        args=GRPOConfig("runs/trl", per_device_train_batch_size=16, num_generations=8, loss_type="dapo", max_steps=100),
    )
    trainer.train()  # or trainer.train(resume_from_checkpoint=True)

The loss type must average token losses as the scheme does ("dapo" over tokens, "grpo" over episodes; TRL has none that
averages over turns), or ``averaging="loss_type"`` must say that TRL's is wanted. An episode with nothing to learn from
counts in the average of "grpo" as an episode of loss 0.

A checkpoint is an ordinary model folder and says how its model is spoken to: ``creditflow eval --agent hf:FOLDER``. A
resumed run repeats the uninterrupted one if no batch of rollouts was half used when it was saved (``save_steps`` a
multiple of steps_per_generation × num_iterations / gradient_accumulation_steps); TRL then plays a new one.

Several processes: every one plays its own whole groups, so per_device_train_batch_size × steps_per_generation must be a
multiple of num_generations. That is checked before training and on every batch. Two processes on a CPU move the weights
as one does, launched by torchrun and by accelerate (tested)::

    torchrun --nproc-per-node 8 script.py
    accelerate launch --config_file train/adapters/trl/accelerate_ddp.yaml --num_processes 8 script.py
    accelerate launch --config_file train/adapters/trl/accelerate_fsdp2.yaml --num_processes 8 script.py    # not run here

Schemes that couple the groups of a batch see the groups of their process only.

Not run here: GPUs, PEFT adapters, DeepSpeed and FSDP2. A sharded model cannot be sampled from in place, because processes
play different numbers of turns and would wait for each other: such runs are refused unless ``make_backend`` gives a
sampler with weights of its own, such as a server, whose ``sync`` is called before every batch of rollouts and has to
fetch the trained weights.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.pretrained import AGENT_FILE, open_tokenizer, require_torch
from creditflow.agents.language_model.saved import write_agent_file
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
    Play,
    SyncedBackend,
    episode_return,
)
from creditflow.train.annotate import Annotator
from creditflow.wrappers.credit.base import Scheme

__all__ = ["CreditGRPOTrainer", "Play"]

OURS = frozenset(
    {"reward_funcs", "train_dataset", "eval_dataset", "reward_processing_classes", "tools", "rollout_func",
     "environment_factory"}
)  # fmt: skip


class CreditGRPOTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is not typed
    """GRPO with per-turn credit.

    Args:
        model: as ``GRPOTrainer`` takes it.
        play: environment, prompting and limits of episodes.
        tasks: to train on; a step draws them in TRL's order.
        scheme: scores groups.
        args: TRL's settings. ``num_generations`` is the group size, ``temperature`` the sampler's; ``scale_rewards``
            and reward weights have no effect on what is learned.
        processing_class: the tokenizer; by default the model folder's.
        eval_tasks: for ``evaluate()``.
        annotators, averaging, make_backend: as ``CreditRollout`` takes them.
        **others: for ``GRPOTrainer`` (callbacks, optimizers, peft_config, …).

    Raises:
        ConfigError: settings under which our credit would not be what is learned from.
    """

    def __init__(
        self,
        model: Any,
        *,
        play: Play,
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
        if taken := sorted(OURS & others.keys()):
            raise ConfigError(f"{', '.join(taken)}: rewards, prompts and rollouts come from the environment and scheme")
        check_arguments(args, len(tasks))
        if processing_class is None:
            folder = model if isinstance(model, str) else model.config.name_or_path
            if not folder:
                raise ConfigError("this model was not opened from a folder: give its tokenizer as processing_class")
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
        with warnings.catch_warnings():  # rollout functions may change: that is why releases are checked
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
                "a model in shards cannot be sampled from in place: processes play different numbers of turns and "
                "would wait for each other; give make_backend a sampler with weights of its own, or train without FSDP "
                "and DeepSpeed"
            )

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """TRL's order of tasks, drawn anew for every epoch: TRL's own begins with the first epoch's after resuming."""
        return _EpochOrder(super()._get_train_sampler(dataset), self)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch with our (B, T) advantages; TRL cuts and shuffles it later, so they must be in it now."""
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if any(ADVANTAGES not in row for row in inputs):
            raise TrajectoryError("TRL did not keep our columns beside its inputs; this release is not supported")
        ours = _padded([row[LOSS_MASK] for row in inputs], batch["completion_mask"])
        theirs = batch["completion_mask"] * batch["tool_mask"]
        if not torch.equal(theirs, ours.to(theirs.dtype)):
            raise TrajectoryError("the mask in TRL's batch is not ours; this release or a setting is not supported")
        batch["advantages"] = _padded([row[ADVANTAGES] for row in inputs], batch["completion_mask"])
        self._log_advantages(batch["advantages"], theirs)
        return batch

    def _log_advantages(self, advantages: Any, mask: Any) -> None:
        """TRL's table of completions shows the mean over each episode's tokens, not TRL's own estimate."""
        means = (advantages * mask).sum(1) / mask.sum(1).clamp(min=1)
        shown = self.accelerator.gather(means).tolist()
        log = self._logs["advantages"]
        for _ in range(min(len(shown), len(log))):
            log.pop()
        log.extend(shown)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The model folder, and beside it how the model is spoken to."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            folder = Path(self.args.output_dir if output_dir is None else output_dir)
            sampling = Sampling(max_new_tokens=self.credit_play.max_new_tokens, temperature=self.args.temperature)
            write_agent_file(folder / AGENT_FILE, self.credit_play.prompting, sampling)


class _EpochOrder(Sampler[int]):  # type: ignore[misc]  # torch is not typed for the checker
    """A sampler whose order is a function of seed and epoch, so that a resumed run finds its place in it."""

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
    """TRL's data set: the prompt is the task's id, which the rollout plays.

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
