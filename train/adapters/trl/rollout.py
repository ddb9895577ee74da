"""The rollout function for TRL: plays whole groups in our environments and assigns credit to them.

TRL's data set holds task ids, each repeated once per episode of its group; the loss takes token ids, log-probabilities, a
mask and further columns. The advantages are such a column.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from creditflow.agents.backends.base import Backend, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.adapters.trl.batch import TrlColumns, check_averaging, group_tasks, make_columns
from creditflow.train.annotate import Annotator, annotate
from creditflow.train.rollout.engine import RolloutEngine, RolloutReport
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.registry import assigned
from creditflow.wrappers.records.group import Group

__all__ = [
    "ADVANTAGES",
    "EPISODE",
    "LOSS_MASK",
    "RETURN",
    "TASK",
    "CreditRollout",
    "EpisodeConfig",
    "SyncedBackend",
    "episode_return",
    "masked_row",
]

ADVANTAGES = "creditflow_advantages"
LOSS_MASK = "creditflow_loss_mask"
TASK, EPISODE = "creditflow_task", "creditflow_episode"
RETURN, SUCCESS, TURNS = "creditflow_return", "creditflow_success", "creditflow_turns"
EVALUATION_SEED = 1_000_003  # added to the seed, so that evaluation episodes differ from training episodes
_log = logging.getLogger(__name__)


class SyncedBackend(Backend, Protocol):
    """A backend that samples from the model being trained."""

    def sync(self, version: str = "") -> None:
        """Use the current weights of the trained model from now on."""
        ...


class CreditRollout:
    """Plays, annotates and credits the groups of one process in a generation batch.

    Args:
        play: how episodes are run.
        tasks: all training and evaluation tasks.
        scheme: credit scheme.
        tokenizer: tokenizer of the model.
        annotators: annotators that write the values which the scheme requires, in order.
        averaging: "scheme" requires a loss type that aggregates token losses as the scheme does; "loss_type" keeps TRL's.
        make_backend: builds the sampler from the trainer before the first episode.

    Raises:
        ConfigError: a scheme whose annotations nothing writes.
    """

    def __init__(
        self,
        play: EpisodeConfig,
        tasks: Sequence[Task],
        scheme: Scheme,
        tokenizer: Any,
        *,
        annotators: Sequence[Annotator] = (),
        averaging: Literal["scheme", "loss_type"] = "scheme",
        make_backend: Callable[[Any], SyncedBackend] | None = None,
    ) -> None:
        needed = (*scheme.needs, *scheme.requires_tokens)
        if needed and not annotators:
            raise ConfigError(f"scheme {scheme.name!r} needs {', '.join(needed)}: pass annotators that write them")
        self.play, self.scheme, self.annotators, self.averaging = play, scheme, tuple(annotators), averaging
        self._tasks: Mapping[str, Task] = {task.task_id: task for task in tasks}
        self._tokenizer = tokenizer
        self._make_backend = make_backend or (lambda trainer: TransformersBackend(trainer.model))
        self._backend: SyncedBackend | None = None
        self._engines: dict[int, RolloutEngine] = {}
        self._step, self._round = -1, 0

    def __call__(self, prompts: Sequence[str], trainer: Any) -> list[dict[str, Any]]:
        """Play and credit the batch; return its rows, each with the columns that TRL and the loss need.

        The rows of an episode follow one another, in the order of the prompts. RETURN repeats on every row of an
        episode; SUCCESS and TURNS stand on its first row and are None on the rest.

        Args:
            prompts: task ids, each repeated once per episode of its group.
            trainer: the ``GRPOTrainer``, whose model, settings and step are read.

        Raises:
            ConfigError: groups are split; the loss type does not fit; the scheme trains a critic.
        """
        training = bool(trainer.model.training)
        size = trainer.num_generations if training else trainer.num_generations_eval
        names = group_tasks(prompts, size)
        groups, credits_ = self._score(trainer, [self._tasks[name] for name in names], size, training)
        # sampling may have left the model in evaluation mode, in which TRL scales losses differently
        trainer.model.train(training)
        filler = trainer.processing_class.eos_token_id
        episodes = make_columns(groups, credits_, names, size=size, filler=filler)
        by_name = {group.task_id: group for group in groups}
        members = [
            member for name in names for member in (by_name[name].trajectories if name in by_name else [None] * size)
        ]
        returns = {name: group.arrays.returns.tolist() for name, group in by_name.items()}
        episode_returns = [value for name in names for value in returns.get(name, [None] * size)]
        rows: list[dict[str, Any]] = []
        for number, columns in enumerate(episodes):
            for i, column in enumerate(columns):
                counted = members[number] if i == 0 else None
                rows.append(
                    _row(column)
                    | {
                        TASK: prompts[number],
                        EPISODE: number,
                        RETURN: episode_returns[number],
                        SUCCESS: None if counted is None else float(counted.success),
                        TURNS: None if counted is None else float(len(counted.turns)),
                    }
                )
        return rows

    def _score(
        self, trainer: Any, tasks: Sequence[Task], size: int, training: bool
    ) -> tuple[list[Group], list[Credit]]:
        args = trainer.args
        if self._backend is None:
            self._backend = self._make_backend(trainer)
        self._backend.sync(f"step-{trainer.state.global_step}")
        sampling = Sampling(max_new_tokens=self.play.max_new_tokens, temperature=args.temperature)
        agent = self.play.prompting.agent(self._backend, self._tokenizer, sampling, name="policy")
        if size not in self._engines:
            texts = bool(self.scheme.texts or self.annotators)
            self._engines[size] = RolloutEngine(group_env_factory(self.play.env, size, texts=texts), self.play.budget)
        report = RolloutReport()
        groups = self._engines[size].play(
            agent,
            tasks,
            seed=args.seed if training else args.seed + EVALUATION_SEED,
            iteration=self._iteration(trainer) if training else trainer.state.global_step,
            report=report,
        )
        if report.errors:
            _log.warning("%d environment errors, the first: %s", len(report.errors), report.errors[0])
        for annotator in self.annotators:
            groups = annotate(groups, annotator)
        credits_ = assigned(self.scheme, groups)
        for credit in credits_:
            if credit.value_targets is not None:
                raise ConfigError(f"scheme {self.scheme.name!r} trains a critic, TRL's GRPO trainer has none")
            if self.averaging == "scheme":
                check_averaging(credit.aggregation, args.loss_type)
        return groups, credits_

    def _iteration(self, trainer: Any) -> int:
        """Index of this generation in the run; a function of the step alone, so that a resumed run repeats it."""
        args, step = trainer.args, trainer.state.global_step
        per_step = math.ceil(args.gradient_accumulation_steps / (args.steps_per_generation * args.num_iterations))
        self._round = self._round + 1 if step == self._step else 0
        self._step = step
        return int(step * per_step + self._round)


def _row(columns: TrlColumns) -> dict[str, Any]:
    return {
        "prompt_ids": columns.prompt_ids,
        "completion_ids": columns.completion_ids,
        "logprobs": columns.logprobs,
        "env_mask": columns.loss_mask,
        LOSS_MASK: columns.loss_mask,
        ADVANTAGES: columns.advantages,
    }


def masked_row(row: dict[str, Any], filler: int) -> dict[str, Any]:
    """A row of one masked token that belongs to the episode of ``row`` and counts in no metric."""
    return row | _row(TrlColumns([filler], [filler], [0], [0.0], [0.0])) | {SUCCESS: None, TURNS: None}


def episode_return(*, log_metric: Callable[[str, float], None], **columns: Any) -> list[float | None]:
    """The reward that TRL logs: the episode's return. The advantage that TRL computes from it is not used.

    Also logs the success rate and the mean number of turns. None for an episode that failed to start.
    """
    for name, column in (("success", SUCCESS), ("turns", TURNS)):
        values = [value for value in columns[column] if value is not None]
        if values:
            log_metric(name, sum(values) / len(values))
    return list(columns[RETURN])
