"""Train with TRL on our environments with per-turn credit: ``CreditGRPOTrainer``, a ``GRPOTrainer``.

TRL computes one advantage per completion. This subclass plays whole groups in our environments, assigns credit with a
scheme, and replaces TRL's (B,) advantages by a (B, T) tensor, one per token; tokens of the environment are masked.
It changes only the advantages. Losses, optimizer, schedule, checkpoints, logging and distributed training are TRL's::

    from trl import GRPOConfig
    from creditflow import credit
    from creditflow.agents.language_model.pretrained import PromptingConfig
    from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
    from creditflow.train.rollout.tasks import training_tasks
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

With a windowed history every turn is a row of its own, with its own prompt: the loss then has as many rows as there are
turns (plus masked ones, where processes or micro-batches have fewer), so a micro-batch holds
``per_device_train_batch_size`` times the turns of an episode. The means that average over tokens do not change by that;
"grpo", a mean over rows, is refused. TRL's table of completions then has a line per turn, its metrics of rewards one
value per episode.

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
from creditflow.agents.language_model.pretrained import AGENT_FILE, open_tokenizer, require_torch, write_agent_file
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.tasks import Task
from creditflow.train.adapters.trl.batch import TRL, check_arguments

require_torch()
TRL.require()

import torch
from datasets import Dataset
from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer

from creditflow.train.adapters.trl.rollout import (
    ADVANTAGES,
    EPISODE,
    LOSS_MASK,
    RETURN,
    TASK,
    CreditRollout,
    EpisodeConfig,
    SyncedBackend,
    episode_return,
    masked_row,
)
from creditflow.train.annotate import Annotator
from creditflow.wrappers.credit.base import Scheme

__all__ = ["CreditGRPOTrainer", "EpisodeConfig"]

RESERVED_ARGUMENTS = frozenset(
    {
        "reward_funcs",
        "train_dataset",
        "eval_dataset",
        "reward_processing_classes",
        "tools",
        "rollout_func",
        "environment_factory",
    }
)


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
        if reserved := sorted(RESERVED_ARGUMENTS & others.keys()):
            raise ConfigError(
                f"do not pass {', '.join(reserved)}: the environment and the scheme provide rewards, prompts and rollouts"
            )
        check_arguments(args, len(tasks), windowed=play.windowed)
        if processing_class is None:
            folder = model if isinstance(model, str) else model.config.name_or_path
            if not folder:
                raise ConfigError("this model was not loaded from a folder: pass its tokenizer as processing_class")
            processing_class = open_tokenizer(folder)
        self.credit_play = play
        self.credit_rows: list[dict[str, Any]] = []  # those of the generation batch in TRL's hands
        self.credit_rollout = CreditRollout(
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
                rollout_func=_columns,
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
        rows = self.credit_rollout([row["prompt"] for row in inputs], self)
        returns = {row[EPISODE]: row[RETURN] for row in rows}
        if self.credit_play.windowed:
            filler = self.processing_class.eos_token_id
            rows += [masked_row(rows[-1], filler)] * (self._rows_needed(len(rows)) - len(rows))
        self.credit_rows = rows
        inputs = [{"prompt": row[TASK]} for row in rows]
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
        self._log_returns(list(returns.values()))
        return batch

    def _rows_needed(self, rows: int) -> int:
        """The number of rows, the same in every process, that TRL can split into micro-batches and view as groups."""
        most = int(self.accelerator.gather(torch.tensor([rows], device=self.accelerator.device)).max())
        if self.model.training:
            step = math.lcm(self.num_generations, self.args.steps_per_generation)
        else:
            step = self.num_generations_eval
        return math.ceil(most / step) * step

    def _log_returns(self, returns: Sequence[float | None]) -> None:
        """Log the statistics of rewards over episodes, where TRL's are over rows."""
        numbers = [math.nan if value is None else value for value in returns]
        everyone = self.accelerator.gather(torch.tensor(numbers, device=self.accelerator.device))
        training = self.model.training
        groups = everyone.view(-1, self.num_generations if training else self.num_generations_eval)
        equal = (groups == groups[:, :1]).all(1)
        everyone = everyone[~everyone.isnan()]
        mean, deviation = float(everyone.mean()), float(everyone.std())
        metrics = self._metrics["train" if training else "eval"]
        for name in ("reward", "rewards/episode_return/mean"):
            metrics[name][-1] = mean
        for name in ("reward_std", "rewards/episode_return/std"):
            metrics[name][-1] = deviation
        metrics["frac_reward_zero_std"][-1] = float(equal.float().mean())

    def _log_advantages(self, advantages: Any, mask: Any) -> None:
        """Log the mean advantage of each episode's tokens in TRL's table of completions, instead of TRL's own estimate."""
        means = (advantages * mask).sum(1) / mask.sum(1).clamp(min=1)
        per_row = self.accelerator.gather(means).tolist()
        log = self._logs["advantages"]
        for _ in range(min(len(per_row), len(log))):
            log.pop()
        log.extend(per_row)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model folder with the prompting settings beside the weights."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            folder = Path(self.args.output_dir if output_dir is None else output_dir)
            sampling = Sampling(max_new_tokens=self.credit_play.max_new_tokens, temperature=self.args.temperature)
            write_agent_file(folder / AGENT_FILE, self.credit_play.prompting, sampling)


def _columns(_prompts: Sequence[str], trainer: CreditGRPOTrainer) -> dict[str, list[Any]]:
    """TRL's rollout function: the columns of the rows that the trainer has played for these prompts."""
    rows = trainer.credit_rows
    return {name: [row[name] for row in rows] for name in rows[0]}


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
