"""Search-R1's ``LLMGenerationManager`` that plays, records and credits our search environment: two changed lines of its trainer.

Read at commit a14dc3a (29 October 2025) of PeterGriffinJin/Search-R1::

    # verl/trainer/ppo/ray_trainer.py: after "from search_r1.llm_agent.generation import LLMGenerationManager, GenerationConfig"
    LLMGenerationManager = playing(LLMGenerationManager, questions="train.jsonl")

    # RayPPOTrainer.fit: instead of "batch = compute_advantage(batch,"
    batch = generation_manager.compute_advantage(batch,

The loop, the tokens, the prompts and the reward function stay theirs.

Texts are the published ones (dialect ``search_r1``). What differs from the released function: an empty search or answer, and a
completion of more than 50,000 characters, is an invalid action; a server that fails ends the row's episode, and no other;
``<access>`` opens a page, as in ASearcher; protocol tags in passages are escaped, and long passages cut (``max_passage_chars``).
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Decision
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, TrajectoryError, short_repr
from creditflow.envs.registration import bare_env
from creditflow.envs.tasks import Task, TaskSource
from creditflow.train.adapters.text_episode import check_completions
from creditflow.train.rollout.play import episode_rng
from creditflow.train.rollout.running import RunningEpisode
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import assign_turns, numbers, over_spans, per_completion, require_plain
from creditflow.wrappers.group_env import GroupEnv, member_seed, payload
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = [
    "ROW",
    "Executed",
    "QuestionBook",
    "RecordedBatch",
    "SearchEpisodes",
    "Spans",
    "asked",
    "playing",
    "require_plain_rewards",
    "token_advantages",
]


_LABEL: Final = "Question:"
_SPACE: Final = re.compile(r"\s+")


def asked(prompt: str) -> str:
    r"""The question of a prompt: the line after its last label.

    >>> asked("Answer, for example <answer> Beijing </answer>. Question: who wrote it?\nassistant\n")
    'who wrote it?'

    Raises:
        DataError: the prompt has no label, or nothing after it.
    """
    _, label, rest = prompt.rpartition(_LABEL)
    lines = rest.strip().splitlines()
    if not label or not lines:
        raise DataError(
            f"a prompt asks its question after {_LABEL!r}, as Search-R1's data sets do; this one ends with "
            f"{short_repr(prompt[-80:])}"
        )
    return lines[0].strip()


class QuestionBook:
    """The tasks of a source by the text of their question; spaces and a question mark at the end do not matter.

    Raises:
        ConfigError: an endless source, or two tasks that ask the same with different content.
    """

    def __init__(self, source: TaskSource) -> None:
        self._tasks: dict[str, Task] = {}
        for name in source.task_ids():
            task = source.get(name)
            known_task = self._tasks.setdefault(_plain(str(task.content["text"])), task)
            if known_task.task_id != task.task_id:
                raise ConfigError(
                    f"tasks {known_task.task_id!r} and {task.task_id!r} ask the same question, so a prompt cannot name one: remove "
                    "one of them from the file"
                )
        if not self._tasks:
            raise ConfigError("cannot look up questions in an endless task source; pass a panel or a file")

    def find(self, prompts: Sequence[str]) -> list[Task]:
        """The task of every prompt.

        Raises:
            DataError: a question that is none of the source's; names the row.
        """
        tasks = []
        for row, prompt in enumerate(prompts):
            question = asked(prompt)
            task = self._tasks.get(_plain(question))
            if task is None:
                raise DataError(
                    f"row {row}: the question {short_repr(question, 120)} is none of the {len(self._tasks)} of the environment: "
                    "give questions= the file that the data set was made of, and a max_start_length that cuts no question"
                )
            tasks.append(task)
        return tasks


def _plain(question: str) -> str:
    return _SPACE.sub(" ", question).rstrip("? ").strip()


NOT_RUN = "the loop's last turn: a search is not run"
_log = logging.getLogger(__name__)


class Executed(NamedTuple):
    """What the loop gets for every row: four lists of equal length, as the released function returns them.

    Attributes:
        next_obs: what is appended to the row; "" for one that is over.
        dones, valid_action, is_search: 0 or 1.
    """

    next_obs: list[str]
    dones: list[int]
    valid_action: list[int]
    is_search: list[int]


class RecordedBatch(NamedTuple):
    """The episodes of one rollout.

    Attributes:
        groups: one per task, in order of first appearance. A turn in which an environment failed is not in its record.
        places: for every row the number of its group and its place in it.
    """

    groups: tuple[Group, ...]
    places: tuple[tuple[int, int], ...]


class SearchEpisodes:
    """Plays one episode per row of a batch.

    Args:
        make: makes the environment of one row.
        threads: rows stepped at once, for environments that wait for a retrieval server; 0 steps one after another.

    Attributes:
        stepped: which rows took the last turn.

    Raises:
        ConfigError: a negative number of threads.
    """

    def __init__(self, make: Callable[[], GroupEnv], *, threads: int = 0) -> None:
        if threads < 0:
            raise ConfigError(f"threads must be at least 0, got {threads}")
        self._make, self._envs = make, list[GroupEnv]()
        self._rows: list[tuple[Task, RunningEpisode]] = []
        self._names: list[str] = []
        self._unsearched: dict[int, tuple[int, str]] = {}
        self._rollouts = 0
        self.stepped: list[bool] = []
        self._pool = ThreadPoolExecutor(threads) if threads else None

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self, tasks: Sequence[Task]) -> None:
        """Start an episode per row; equal tasks are a group."""
        while len(self._envs) < len(tasks):
            self._envs.append(self._make())
        self._rows, self._names, self._unsearched = [], [], {}
        counts: dict[str, int] = {}
        for env, task in zip(self._envs, tasks, strict=False):
            [recorder] = env.members
            group, replica = f"{task.task_id}#{self._rollouts}", counts.get(task.task_id, 0)
            counts[task.task_id] = replica + 1
            recorder.set_next_episode(group_id=group, replica=replica)
            start = recorder.reset(seed=member_seed(0, group, replica), options={"task": dict(task.content)})
            rng = episode_rng(0, self._rollouts, task.task_id, replica)
            self._rows.append((task, RunningEpisode(recorder, *start, rng)))
            self._names.append(group)
        self._rollouts += 1

    def execute(
        self, predictions: Sequence[str], active: Iterable[Any] | None = None, *, do_search: bool = True
    ) -> Executed:
        """Take one turn in every active row.

        Args:
            predictions: a completion per row, cut after its first call as the loop does.
            active: truth values; None for all rows.
            do_search: whether searches run; without, only an answer has an effect.

        Raises:
            EpisodeError: before ``begin``.
            ConfigError: another number of completions or truth values than rows, or a completion that is no text.
        """
        if not self._rows:
            raise EpisodeError("no batch is being played: call begin() first")
        alive = [True] * len(self._rows) if active is None else [bool(flag) for flag in active]
        if len(alive) != len(self._rows):
            raise ConfigError(f"expected a truth value for each of the {len(self._rows)} episodes, got {len(alive)}")
        check_completions(predictions, len(self._rows))
        self.stepped = [flag and self._rows[row][1].running for row, flag in enumerate(alive)]
        work = [(row, predictions[row], self.stepped[row], do_search) for row in range(len(alive))]
        done = list((self._pool.map if self._pool is not None else map)(lambda turn: self._turn(*turn), work))
        return Executed(*map(list, zip(*done, strict=True)))

    def end(self) -> RecordedBatch:
        """End the batch; episodes that still run were cut by the loop's limit of turns.

        Raises:
            EpisodeError: before ``begin``.
        """
        if not self._rows:
            raise EpisodeError("no batch is being played: call begin() first")
        members: dict[str, list[int]] = {}
        for row, name in enumerate(self._names):
            members.setdefault(name, []).append(row)
        played = [self._trajectory(row) for row in range(len(self._rows))]
        groups, position = list[Group](), dict[int, tuple[int, int]]()
        for rows in members.values():
            position |= {row: (len(groups), k) for k, row in enumerate(rows)}
            environments = [self._rows[row][1].recorder.base for row in rows]
            task = payload(self._rows[rows[0]][0], environments)
            groups.append(Group(tuple(played[row] for row in rows), task))
        self._rows = []
        return RecordedBatch(tuple(groups), tuple(position[row] for row in range(len(played))))

    def close(self) -> None:
        """Drop the environments."""
        self._rows, self._envs = [], []
        if self._pool is not None:
            self._pool.shutdown()

    def _turn(self, row: int, text: str, active: bool, do_search: bool) -> tuple[str, int, int, int]:
        episode = self._rows[row][1]
        if not active:
            return "", 1, 0, 0
        unsearched = not do_search and _tool(episode.recorder, text) not in ("answer", "")
        error = episode.step(Decision("" if unsearched else text, response=text))
        if error is not None:
            name = episode.recorder.identity["trajectory_id"]
            _log.warning("%s: %s: %s", name, type(error).__name__, error)
            return "", 1, 0, 0
        over = int(not episode.running)
        if unsearched:
            self._unsearched[row] = (len(episode.recorder.turns) - 1, text)
            return "", over, 1, 1
        answered, valid = bool(episode.info["answer"]), int(episode.info["action_valid"])
        return "" if over else episode.info["message"], over, valid, int(valid and not answered)

    def _trajectory(self, row: int) -> Trajectory:
        episode = self._rows[row][1]
        if episode.running:
            episode.stop("env_limit")
        trajectory = episode.trajectory()
        if row not in self._unsearched:
            return trajectory
        # the loop took the call for valid and did not run it: the record says both
        at, text = self._unsearched[row]
        turns = list(trajectory.turns)
        turns[at] = replace(turns[at], action=text, parsed=True, admissible=False, invalid_reason=NOT_RUN)
        return replace(trajectory, turns=tuple(turns))


def _tool(recorder: Recorder, text: str) -> str:
    """The tool that a completion calls; "" for none."""
    base: Any = recorder.base
    call = base.dialect.parse(text)[0]
    return "" if call is None else str(call.tool)


Spans = Sequence[tuple[int, int]]  # of a row: how many tokens each turn's completion and observation have


def token_advantages(
    played: RecordedBatch, spans: Sequence[Spans], rows: Sequence[int], mask: Any, scheme: Scheme
) -> NDArray[np.float32]:
    """(B, T) advantages: of a turn on each of its sampled tokens, 0 on what the environment wrote and on padding.

    Args:
        played: the recorded episodes of the rollout.
        spans: per row of the rollout, the tokens of its turns in order; a row that was cut has fewer tokens than its spans.
        rows: for every row of the batch its row in the rollout; batches are reordered, and rows may be dropped or repeated.
        mask: (B, T), the loop's ``info_mask`` of the responses: 1 on sampled tokens.
        scheme: any that needs no annotations.

    Raises:
        TrajectoryError: rows that the rollout does not have, other turns than were recorded, or a mask that does not fit.
        ConfigError: a scheme that needs annotations, credits tokens or learns a critic.
    """
    sampled = numbers(mask) != 0
    if sampled.ndim != 2 or len(rows) != len(sampled):
        raise TrajectoryError(f"{len(rows)} rows need a mask (B, T) with as many rows, got the shape {sampled.shape}")
    if played.groups and all(len(group) == 1 for group in played.groups):
        raise TrajectoryError(
            "every task has one episode, and credit compares several: raise actor_rollout_ref.rollout.n_agent"
        )
    assigned = assign_turns(played.groups, scheme)
    width = sampled.shape[1]
    table, per_span = list[tuple[int, int, int]](), list[float]()
    for i, row in enumerate(rows):
        if not 0 <= row < len(played.places):
            raise TrajectoryError(f"row {i} is row {row} of a rollout of {len(played.places)}: is it of another one?")
        group, member = played.places[row]
        numbers_ = per_completion(played.groups[group].trajectories[member], assigned[group][member], len(spans[row]))
        table.append((i, 0, 0))
        per_span.append(0.0)
        start = 0
        for number, (written, observed) in zip(numbers_, spans[row], strict=True):
            table.append((i, min(start, width), min(start + written, width)))
            per_span.append(number)
            start += written + observed
    try:
        return over_spans(np.array(per_span), table, sampled, exact=True).astype(np.float32)
    except TrajectoryError as error:
        raise TrajectoryError(
            f"{error}; info_mask must separate sampled from shown tokens where they were joined: is the pad token one that the "
            "model writes?"
        ) from error


def require_plain_rewards(batch: Any) -> None:
    """Raise ConfigError if rewards hold a KL penalty, which this credit does not know."""
    names = ("token_level_rewards", "token_level_scores")
    if all(name in batch for name in names) and (numbers(batch[names[0]]) != numbers(batch[names[1]])).any():
        raise ConfigError(
            "token_level_rewards contain a KL penalty, which credit per turn does not support; set actor_rollout_ref.actor.use_kl_loss=true"
        )


ROW: Final = "creditflow_row"  # the column that leads a row, wherever it goes, back to its episode


def playing(
    manager: type[Any],
    *,
    scheme: str = "gigpo",
    parameters: Mapping[str, Any] | None = None,
    threads: int = 0,
    **options: Any,
) -> type[Any]:
    """A subclass of Search-R1's generation manager.

    Args:
        manager: ``search_r1.llm_agent.generation.LLMGenerationManager``.
        scheme, parameters: arguments of ``credit.make``; any scheme without annotations.
        threads: rows that search at once, for a retrieval server; 0 searches one after another.
        **options: arguments of ``WikiSearchEnv``: ``questions`` with ``corpus``, or ``panel``. With ``questions`` alone passages
            come from the loop's own server (``retriever.url``); ``top_k`` is ``retriever.topk`` unless it is given.

    Raises:
        ConfigError: a scheme that needs annotations, or options that the manager sets itself.
    """
    credit_scheme = credit.make(scheme, **(parameters or {}))
    require_plain(credit_scheme)
    if reserved := {"dialect", "max_steps"} & set(options):
        raise ConfigError(
            f"{', '.join(sorted(reserved))} cannot be given: the loop has its own protocol and limit of turns"
        )

    settings = _Settings(credit_scheme, dict(options), threads)
    return type("RecordingManager", (_Recording, manager), {"_settings": settings})


class _Settings(NamedTuple):
    """What ``playing`` was given: the scheme, the environment's arguments, rows that search at once."""

    scheme: Scheme
    options: dict[str, Any]
    threads: int


class _Recording:
    """The methods that replace, or go around, those of Search-R1's manager, which is the next class in line."""

    _settings: _Settings
    tokenizer: Any
    config: Any

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._episodes, self._book = _open(self.config, self._settings)
        self._played: RecordedBatch | None = None
        self._spans: list[list[tuple[int, int]]] = []
        self._rollouts = 0

    def run_llm_loop(self, gen_batch: Any, initial_input_ids: Any) -> Any:
        prompts = self.tokenizer.batch_decode(gen_batch.batch["input_ids"], skip_special_tokens=True)
        self._episodes.begin(self._book.find(prompts))
        self._spans, self._played = [[] for _ in prompts], None
        released: Any = super()
        output = released.run_llm_loop(gen_batch, initial_input_ids)
        self._played = self._episodes.end()
        self._rollouts += 1
        output.batch[ROW] = initial_input_ids.new_tensor([[self._rollouts, row] for row in range(len(prompts))])
        return output

    def execute_predictions(
        self, predictions: Any, pad_token: str, active_mask: Any = None, do_search: bool = True
    ) -> tuple[list[str], list[int], list[int], list[int]]:
        del pad_token
        executed = self._episodes.execute(predictions, active_mask, do_search=do_search)
        return executed.next_obs, executed.dones, executed.valid_action, executed.is_search

    def _update_right_side(self, right_side: Any, cur_responses: Any, next_obs_ids: Any = None) -> Any:
        pad = self.tokenizer.pad_token_id
        written = _lengths(cur_responses, pad)
        observed = [0] * len(written) if next_obs_ids is None else _lengths(next_obs_ids, pad)
        for row in np.flatnonzero(self._episodes.stepped).tolist():
            self._spans[row].append((written[row], observed[row]))
        released: Any = super()
        return released._update_right_side(right_side, cur_responses, next_obs_ids)

    def compute_advantage(self, batch: Any, *_: Any, **__: Any) -> Any:
        """In place of the trainer's function of this name: write ``advantages`` and ``returns`` into the batch."""
        import torch

        if self._played is None or ROW not in batch.batch:
            raise TrajectoryError(
                f"the batch has no column {ROW!r} of a rollout of this manager: call run_llm_loop first"
            )
        require_plain_rewards(batch.batch)
        column, responses = numbers(batch.batch[ROW]).astype(int), batch.batch["responses"]
        if (column[:, 0] != self._rollouts).any():
            raise TrajectoryError("rows of an earlier rollout: credit is computed before the next rollout begins")
        mask = batch.batch["info_mask"][:, -responses.shape[-1] :]
        rows = column[:, 1].tolist()
        advantages = torch.from_numpy(token_advantages(self._played, self._spans, rows, mask, self._settings.scheme))
        batch.batch["advantages"] = advantages.to(mask.device)
        batch.batch["returns"] = batch.batch["advantages"].clone()
        return batch


def _open(config: Any, settings: _Settings) -> tuple[SearchEpisodes, QuestionBook]:
    """The episodes of the loop's configuration, and the tasks that its prompts name; files are read once for all rows."""
    options = {"top_k": config.topk, **settings.options}
    if "questions" in options and not {"corpus", "retriever"} & set(options):
        options["retriever"] = {"url": config.search_url, "path": ""}
    first = bare_env("wikisearch", {**options, "dialect": "search_r1", "max_steps": config.max_turns + 2})

    def make() -> GroupEnv:
        return GroupEnv(lambda: copy.copy(first), size=1, texts=True, policy="lm")

    return SearchEpisodes(make, threads=settings.threads), QuestionBook(first.tasks)


def _lengths(ids: Any, pad: int) -> list[int]:
    """The number of tokens of each row that are no padding."""
    return [int(count) for count in (numbers(ids) != pad).sum(1)]
