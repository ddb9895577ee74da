"""One episode in our environments, played by another trainer by messages: text in, text out, a record at the end.

For trainers that own the conversation and sample themselves: they send a completion and receive the next user message. The
history is append-only. What credit needs (states, actions, rewards) is in the record, a line of our trajectory log, which
travels in a field that the trainer leaves alone; the bridge (``wrappers/credit/bridge.py``) reads it. ``EpisodeConfig`` says what
is played and how, and ``panel_tasks`` lists tasks for trainers that take them at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from creditflow.agents.language_model.parsing import decision_of, make_dialect
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import Budget
from creditflow.train.rollout.play import episode_rng
from creditflow.train.rollout.running import RunningEpisode
from creditflow.train.rollout.tasks import listed_tasks, on_panel
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.group_env import GroupEnv, member_seed, payload
from creditflow.wrappers.records.jsonl_lines import encode_line
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = [
    "MAX_CHARACTERS",
    "EpisodeConfig",
    "Reply",
    "TextEpisode",
    "metrics_of",
    "one_member",
    "panel_tasks",
    "task_content",
    "with_thought",
]


@dataclass(frozen=True, kw_only=True)
class EpisodeConfig:
    """How episodes are run.

    Attributes:
        env: environment and its options.
        prompting: prompt, dialect and history.
        max_new_tokens: maximum length of one turn's completion. (A trainer's maximum completion length does not limit
            episodes; ``budget`` does.)
        budget: limits of one episode in turns and tokens.
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    prompting: PromptingConfig = field(default_factory=PromptingConfig)
    max_new_tokens: int = 256
    budget: Budget = field(default_factory=Budget)

    @property
    def windowed(self) -> bool:
        """Whether every turn has a prompt of its own, and so a row of its own."""
        return self.prompting.history == "window"

    def require_one_row(self) -> None:
        """Raise ConfigError for a windowed history, where the trainer takes one row per episode."""
        if self.windowed:
            raise ConfigError(
                "this trainer takes one row per episode, a windowed history needs one per turn: use history='append' "
                "here, or creditflow's own trainer, verl or TRL"
            )


def panel_tasks(env: EnvConfig, *, panel: str = "", count: int = 0) -> list[Task]:
    """The tasks of a panel "NAME:SPLIT", or of the environment's own source.

    Args:
        env: the environment.
        panel: replaces the source that its options name.
        count: only the first tasks; 0 takes all.

    Raises:
        ConfigError: an endless source, whose tasks have no order, or a negative count.
    """
    if count < 0:
        raise ConfigError(f"count must be a number of tasks (0 = all), got {count}")
    return listed_tasks(on_panel(env, panel) if panel else env, count)


def task_content(row: Any) -> Mapping[str, Any]:
    """The content of the task that a row of a trainer's data set names under ``task``, as an object or as JSON text.

    Raises:
        DataError: the row names none.
    """
    content = row.get("task") if isinstance(row, Mapping) else None
    if isinstance(content, str):
        content = parse_json(content, where="task")
    if not isinstance(content, Mapping):
        raise DataError(
            "a row's 'task' must be the task as JSON text or as an object; write the data set with "
            f"creditflow data build verl, or from panel_tasks; this row is {short_repr(row)}"
        )
    return content


def with_thought(thought: str | None, content: str | None) -> str:
    """A completion as the model wrote it, where a server or a trainer took its reasoning apart."""
    text = content or ""
    return f"<think>{thought}</think>{text}" if thought and "<think>" not in text else text


def metrics_of(played: Trajectory) -> dict[str, float]:
    """What trainers log of a finished episode."""
    return {"success": float(played.success), "score": played.score, "turns": float(len(played.turns))}


def one_member(env: EnvConfig) -> GroupEnv:
    """A group of one, which records texts."""
    make_env = maker(env.name, env.options)
    return GroupEnv(make_env, size=1, invalid_actions=env.invalid_actions, texts=True, policy="lm")


MAX_CHARACTERS: Final = 100_000  # of a completion; longer ones are an invalid action
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the environment answers to a completion.

    Attributes:
        text: the next user message; "" at the end.
        reward: reward of this turn.
        done: whether the episode is over.
    """

    text: str
    reward: float
    done: bool


class TextEpisode:
    r"""Plays one task from its first message to its end.

    >>> from creditflow.train.settings.schema import EnvConfig
    >>> play = EpisodeConfig(env=EnvConfig(name="sokoban", options={"max_steps": 5}))
    >>> episode = TextEpisode(play, {"xsb": "#####\n#@$.#\n#####"}, group_id="a")
    >>> [message["role"] for message in episode.messages]
    ['user']
    >>> episode.step("<think>The goal is on the right.</think><action>right</action>").done
    True
    >>> episode.trajectory.success
    True

    Args:
        play: environment, prompting and limits.
        content: the task's content (``Task.content``).
        group_id: name of the episode's group; with ``replica`` it seeds the environment's own noise.
        replica: number of the episode in its group.
        env: a group of one to play in, kept from episode to episode; default a new one. The next episode in it ends this one.

    Raises:
        ConfigError: a windowed history, or a budget of tokens, which only the trainer can count.
        DataError: the content is no task of this environment.
    """

    def __init__(
        self,
        play: EpisodeConfig,
        content: Mapping[str, Any],
        *,
        group_id: str,
        replica: int = 0,
        env: GroupEnv | None = None,
    ) -> None:
        play.require_one_row()
        if play.budget.tokens:
            raise ConfigError("this trainer samples by itself; set its own token limit instead of budget.tokens")
        if not isinstance(content, Mapping):
            raise DataError(f"a task's content must be a mapping, got {short_repr(content)}")
        self._prompt, self._dialect = make_prompt(play.prompting.prompt), make_dialect(play.prompting.dialect)
        self._budget = play.budget
        [self._recorder] = (one_member(play.env) if env is None else env).members
        self._recorder.set_next_episode(group_id=group_id, replica=replica)
        seed = member_seed(0, group_id, replica)
        observation, info = self._recorder.reset(seed=seed, options={"task": dict(content)})
        rng = episode_rng(0, 0, info["task_id"], replica)
        self._episode = RunningEpisode(self._recorder, observation, info, rng)
        slots = slots_of(self._prompt, self._episode.view)
        system, user = self._prompt.fill("system", slots), self._prompt.fill("first", slots).strip()
        self.messages: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []
        self.messages.append({"role": "user", "content": user})

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._recorder.finished

    @property
    def info(self) -> Mapping[str, Any]:
        """The environment's ``info`` after the last turn."""
        return self._episode.info

    @property
    def last_valid(self) -> bool:
        """Whether the last turn's completion stated an admissible action; True before the first."""
        turns = self._recorder.turns
        return not turns or turns[-1].valid

    @property
    def reveals_answer(self) -> bool:
        """Whether the listed actions may contain the answer."""
        return self._recorder.base.actions_reveal_answer

    def write(self, action: str) -> str:
        """The shortest completion that states an action."""
        return self._dialect.write(action)

    def step(self, completion: str) -> Reply:
        """Take the action that a completion states; one that follows no format is an invalid action.

        Raises:
            EpisodeError: the episode has ended.
            DataError: the completion is not a text.
        """
        if not isinstance(completion, str):
            raise DataError(f"a completion must be a text, got {short_repr(completion)}")
        error = self._episode.step(decision_of(self._dialect, completion, MAX_CHARACTERS), self._budget)
        if error is not None:
            _log.warning("%s: %s: %s", self._recorder.identity["trajectory_id"], type(error).__name__, error)
            return Reply("", 0.0, True)
        reward = float(self._episode.reward)
        if self.done:
            return Reply("", reward, True)
        return Reply(self._prompt.fill("later", slots_of(self._prompt, self._episode.view)).strip(), reward, False)

    def stop(self, reason: StopReason = "token_limit") -> None:
        """End a running episode at a limit of the trainer; nothing happens to one that has ended."""
        if not self.done:
            self._recorder.stop(reason)

    @property
    def trajectory(self) -> Trajectory:
        """The finished episode, without tokens.

        Raises:
            EpisodeError: it has not ended.
        """
        return self._episode.trajectory()

    def record(self) -> str:
        """The finished episode as a line of our log, with the task's payload."""
        base = self._recorder.base
        return encode_line(self.trajectory, payload(base.task, [base]))
