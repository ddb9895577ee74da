"""Search-R1's ``execute_predictions`` over our search environment: a batch of episodes, recorded.

Texts are the published ones (dialect ``search_r1``). What differs from the released function: an empty search or answer, and a
completion of more than 50,000 characters, is an invalid action; a server that fails ends the row's episode, and no other;
``<access>`` opens a page, as in ASearcher; protocol tags in passages are escaped, and long passages cut (``max_passage_chars``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from creditflow.agents.base import Decision
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.tasks import Task
from creditflow.train.adapters.completions import check_completions
from creditflow.train.rollout.play import episode_rng
from creditflow.train.rollout.running import RunningEpisode
from creditflow.wrappers.group_env import GroupEnv, member_seed, payload
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Executed", "RecordedBatch", "SearchEpisodes"]

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
        alive = [True] * len(self._rows) if active is None else [bool(one) for one in active]
        if len(alive) != len(self._rows):
            raise ConfigError(f"expected a truth value for each of the {len(self._rows)} episodes, got {len(alive)}")
        check_completions(predictions, len(self._rows))
        self.stepped = [one and self._rows[row][1].running for row, one in enumerate(alive)]
        work = [(row, predictions[row], self.stepped[row], do_search) for row in range(len(alive))]
        done = list((self._pool.map if self._pool is not None else map)(lambda one: self._turn(*one), work))
        return Executed(*(list(column) for column in zip(*done, strict=True)))

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
        groups = tuple(
            Group(
                tuple(played[row] for row in rows),
                payload(self._rows[rows[0]][0], [self._rows[row][1].recorder.base for row in rows]),
            )
            for rows in members.values()
        )
        place = {row: (g, k) for g, rows in enumerate(members.values()) for k, row in enumerate(rows)}
        self._rows = []
        return RecordedBatch(groups, tuple(place[row] for row in range(len(played))))

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
