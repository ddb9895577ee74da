"""An environment manager with verl-agent's interface over our environments: groups, prompts, parsing, records.

verl-agent's rollout loop (``agent_system/multi_turn_rollout/rollout_loop.py``) calls ``reset`` once, ``step`` with the
completions of all episodes until all are done, and ``success_evaluator`` at the end; episode i belongs to group
i // n. Every turn is a prompt of its own that shows the last turns. The manager records what is played, so that its
``compute_advantage`` assigns any scheme's credit to the rows that the loop makes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Decision
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.tasks import Task
from creditflow.train.adapters.completions import check_completions
from creditflow.train.adapters.verl_agent.anchors import Anchor, PlayedGroup, compute_recorded_advantages
from creditflow.train.adapters.verl_agent.settings import LoopSettings
from creditflow.train.adapters.verl_agent.task_order import TaskOrder, given_tasks
from creditflow.train.rollout.engine import NoGroupError
from creditflow.train.rollout.running import RolloutReport, RunningEpisode, RunningGroup
from creditflow.train.rollout.starting import EpisodeStarter
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["EnvironmentManager"]

MAX_ACTION_CHARACTERS: Final = 100_000  # of a completion; longer ones are not parsed
NOT_STARTED: Final = "This episode could not be started and ends here."
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Slot:
    """One place in the batch: an episode of a group, None if the group could not start; what its last step gave."""

    played: PlayedGroup
    member: int
    episode: RunningEpisode | None
    task_id: str
    steps: int = 0
    text: str = NOT_STARTED
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self.episode is not None and self.episode.running


class EnvironmentManager:
    """Plays ``groups`` tasks at a time, ``size`` episodes each.

    Args:
        settings: prompts, dialect, anchors and limits.
        make_group: makes the environments of one group.
        tasks: draws the tasks of each rollout.
        scheme: assigns credit, and says which actions count as invalid.
        window: number of past turns that a prompt shows (``env.history_length``).
        seed: of the environments' own randomness.
        by_type: report success by task type too, for validation.
    """

    def __init__(
        self,
        settings: LoopSettings,
        make_group: Callable[[], GroupEnv],
        tasks: TaskOrder,
        scheme: Scheme,
        *,
        window: int,
        seed: int,
        by_type: bool = False,
    ) -> None:
        if window < 0:
            raise ConfigError(f"env.history_length must be at least 0, got {window}")
        self.settings, self.scheme = settings, scheme
        self._prompt, self._dialect = make_prompt(settings.prompt), make_dialect(settings.dialect)
        self._make_group, self._tasks, self._window, self._seed = make_group, tasks, window, seed
        self._by_type = by_type
        self._envs = [make_group()]
        self._source, self._size = self._envs[0].tasks, len(self._envs[0])
        self._rollouts, self._slots = 0, list[_Slot]()
        self._groups: list[tuple[PlayedGroup, RunningGroup]] = []
        self._pool = ThreadPoolExecutor(settings.threads) if settings.threads else None

    def reset(self, kwargs: Any = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Start the next rollout.

        Args:
            kwargs: the data set's column ``env_kwargs``, if it has one; see ``given_tasks``.

        Returns:
            Observations under "text" (the prompts), "image" (None) and "anchor"; infos per episode.

        Raises:
            NoGroupError: not one group could start.
        """
        self._end_rollout()
        tasks = self._tasks.draw() if kwargs is None else given_tasks(list(kwargs), self._source, self._size)
        while len(self._envs) < len(tasks):
            self._envs.append(self._make_group())
        report = RolloutReport()
        starter = EpisodeStarter(self._seed, self._rollouts, 0, report, iter(()))
        self._rollouts += 1
        started = self._over_groups(lambda pair: starter.start_group(*pair), list(zip(self._envs, tasks, strict=False)))
        if not any(group.episodes for group in started):
            raise NoGroupError(f"no group could start; the first error was: {report.errors[0]}")
        for error in report.errors:
            _log.warning("a group could not start: %s", error)
        self._groups, self._slots = [], []
        for task, group in zip(tasks, started, strict=True):
            played = PlayedGroup(group.group_id if group.episodes else task.task_id)
            self._groups.append((played, group))
            episodes = group.episodes or [None] * self._size
            self._slots += [self._slot(played, i, episode, task) for i, episode in enumerate(episodes)]
        return self._observations(), [dict(slot.info) for slot in self._slots]

    def step(
        self, text_actions: Sequence[str]
    ) -> tuple[dict[str, Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Parse one completion per episode and step those that run; the others keep their last observation.

        Returns:
            Observations; float32 (B,) rewards; bool (B,) whether each episode is over; infos.

        Raises:
            EpisodeError: no rollout is running.
            ConfigError: another number of completions than episodes, or completions that are not texts.
        """
        if not self._slots:
            raise EpisodeError("no rollout is running: call reset() before step()")
        check_completions(text_actions, len(self._slots))
        batches = [(self._slots[at : at + self._size], text_actions[at : at + self._size])
                   for at in range(0, len(self._slots), self._size)]  # fmt: skip
        rewards = self._over_groups(
            lambda pair: [self._act(slot, text) for slot, text in zip(*pair, strict=True)], batches
        )
        done = np.array([not slot.running for slot in self._slots])
        flat = np.array([reward for group in rewards for reward in group], np.float32)
        return self._observations(), flat, done, [dict(slot.info) for slot in self._slots]

    def build_text_obs(self) -> list[str]:
        """The present prompt of every episode."""
        return [slot.text for slot in self._slots]

    def success_evaluator(self, *_: Any, **played: Any) -> dict[str, NDArray[np.float64]]:
        """End the rollout; success and score per episode, and for validation success by task type.

        Args:
            **played: ``total_infos`` and ``total_batch_list``, as the loop passes them: infos and rows by episode.
        """
        self._end_rollout()
        found: dict[str, list[float]] = defaultdict(list)
        for infos, rows in zip(played["total_infos"], played["total_batch_list"], strict=True):
            last = max((t for t, row in enumerate(rows) if row["active_masks"]), default=0)
            info = infos[last]
            found["success_rate"].append(float(info["won"]))
            found["score (beside success_rate)"].append(float(info["task_score"]))  # logged only under such a name
            if self._by_type and info.get("task_type"):
                found[f"{info['task_type']}_success_rate"].append(float(info["won"]))
        return {name: np.array(values) for name, values in found.items()}

    def compute_advantage(self, data: Any, **_: Any) -> Any:
        """In place of the trainer's function of this name: write ``advantages`` and ``returns`` into the batch."""
        self._end_rollout()
        data.batch["advantages"], data.batch["returns"] = compute_recorded_advantages(data, scheme=self.scheme)
        return data

    def close(self) -> None:
        """Drop all environments."""
        self._end_rollout()
        self._envs, self._slots = [], []
        if self._pool is not None:
            self._pool.shutdown()

    def _over_groups(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``work`` on the parts of every group, in order; in threads if the settings say so, never two in one group."""
        return list(self._pool.map(work, items) if self._pool is not None else map(work, items))

    def _slot(self, played: PlayedGroup, member: int, episode: RunningEpisode | None, task: Task) -> _Slot:
        slot = _Slot(played, member, episode, task.task_id)
        self._show(slot, valid=True)
        return slot

    def _act(self, slot: _Slot, text: str) -> float:
        """Step one episode; its reward, 0 if it is over or its environment fails."""
        episode, slot.steps = slot.episode, slot.steps + 1
        if episode is None or not episode.running:
            slot.info = {**slot.info, "is_action_valid": np.array(True), "tool_calling": 0}
            return 0.0
        recorder = episode.recorder
        long = len(text) > MAX_ACTION_CHARACTERS
        parsed = self._dialect.parse("" if long else text)
        reason = "" if parsed.valid else parsed.reason
        if long:
            reason = f"the answer has {len(text)} characters, more than {MAX_ACTION_CHARACTERS}"
        error = episode.step(Decision(parsed.action, parsed.thought, "" if long else text, reason))
        if error is not None:
            _log.warning("%s: %s: %s", recorder.identity["trajectory_id"], type(error).__name__, error)
            self._show(slot, valid=True)
            return 0.0
        wanted = "action_parsed" if getattr(self.scheme, "invalid", "") == "unparsed" else "action_valid"
        self._show(slot, valid=parsed.valid and bool(episode.info[wanted]))
        return recorder.turns[-1].reward

    def _show(self, slot: _Slot, *, valid: bool) -> None:
        """Set the prompt and the info that the loop gets next."""
        episode = slot.episode
        info = {} if episode is None else episode.info
        searches = len(episode.recorder.turns[-1].queries) if episode is not None and episode.recorder.turns else 0
        revealing = episode is None or episode.recorder.base.actions_reveal_answer
        slot.info = {
            "is_action_valid": np.array(valid),
            "won": bool(info.get("success", False)),
            "task_score": float(info.get("score", 0.0)),
            "task_id": slot.task_id,
            "task_type": str(info.get("task_type", "")),
            "tool_calling": searches,
            "admissible_commands": [] if revealing else list(info.get("admissible_actions", ())),
        }
        if episode is not None and slot.running:
            slot.text = self._text(episode)

    def _text(self, episode: RunningEpisode) -> str:
        """The prompt of the next turn, with as many past turns as the limit allows."""
        view, limit = episode.view, self.settings.max_characters
        text = ""
        for window in range(self._window, -1, -1):
            slots = slots_of(self._prompt, view, window)
            system = self._prompt.fill("system", slots)
            user = self._prompt.fill("windowed" if view.turns else "first", slots)
            text = f"{system}\n\n{user}" if system else user
            if not limit or len(text) <= limit:
                break
        return text

    def _observations(self) -> dict[str, Any]:
        anchors = [Anchor(self._key(slot), slot.played, member=slot.member, turn=slot.steps) for slot in self._slots]
        return {"text": self.build_text_obs(), "image": None, "anchor": anchors}

    def _key(self, slot: _Slot) -> str:
        """The state by which verl-agent's own estimators compare rows."""
        if slot.episode is None:
            return f"{slot.played.name}/{slot.member} #start"  # a state of its own
        return str(slot.episode.info["state_key" if self.settings.anchor == "state" else "text_key"])

    def _end_rollout(self) -> None:
        """Record the groups; episodes that still run were cut by the loop's own limit."""
        for played, group in self._groups:
            for episode in group.episodes:
                if episode.running:
                    episode.stop("env_limit")
            played.group, played.over = (group.record("") if group.episodes else None), True
        self._groups = []
