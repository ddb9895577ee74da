"""What every environment here shares: text spaces, the info schema, and the episode rules of ``AgentEnv``.

An environment is a *rules core* (pure functions of its own folder) behind this one class, which owns what must not
differ between environments: how a task is chosen, how actions are refused, when an episode ends, what ``info`` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypedDict, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Space

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr
from creditflow.envs.reset_options import read_reset_options
from creditflow.envs.tasks import Task, TaskSource

__all__ = ["INFO_TYPES", "AgentEnv", "AgentInfo", "Oracle", "Outcome", "TextSpace"]

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")
ParsedT = TypeVar("ParsedT")


class TextSpace(Space[str]):
    r"""All strings, newlines and any Unicode included.

    ``gymnasium.spaces.Text`` has a closed character set: it warns on newlines, breaks ``AsyncVectorEnv`` and costs
    milliseconds per check. Here membership is one ``isinstance``.

    Args:
        samples: what ``sample()`` draws from (uniformly), so that random agents make sense. Default: the empty string.
        seed: as in every Gymnasium space.

    >>> "two\nlines" in TextSpace()
    True
    """

    def __init__(self, samples: Sequence[str] = ("",), seed: int | np.random.Generator | None = None) -> None:
        if not samples or not all(isinstance(text, str) for text in samples):
            raise ConfigError(f"TextSpace samples must be a non-empty sequence of strings, got {short_repr(samples)}")
        self.samples = tuple(samples)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed-size vector."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """One of ``samples``, uniformly. Masks are not supported."""
        if mask is not None or probability is not None:
            raise ConfigError("TextSpace.sample takes no mask or probability")
        return self.samples[int(self.np_random.integers(len(self.samples)))]

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string."""
        return isinstance(x, str)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """The strings themselves."""
        return list(sample_n)

    def from_jsonable(self, sample_n: Sequence[Any]) -> list[str]:
        """The strings themselves."""
        return [str(text) for text in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.samples == other.samples

    def __hash__(self) -> int:
        return hash((TextSpace, self.samples))

    def __repr__(self) -> str:
        return f"TextSpace({list(self.samples)!r})" if self.samples != ("",) else "TextSpace()"


class AgentInfo(TypedDict):
    """The keys that ``info`` has at ``reset`` and after every ``step``; environments add flat keys of their own.

    Vector environments take each column's dtype from the first environment, so every key has one type, always.
    """

    task_id: str
    state_key: str  # printable, ≤ 64 characters; equal keys ⇔ equal future up to the step limit
    text_key: str  # the state as a text-only method would see it
    admissible_actions: tuple[str, ...]  # () once the episode is over
    action_parsed: bool
    action_admissible: bool
    action_valid: bool  # parsed and admissible
    action_effective: bool  # the state changed
    invalid_reason: str  # "" if valid
    success: bool
    score: float  # in [0, 1]
    elapsed_steps: int


INFO_TYPES: Mapping[str, type] = {
    "task_id": str,
    "state_key": str,
    "text_key": str,
    "admissible_actions": tuple,
    "action_parsed": bool,
    "action_admissible": bool,
    "action_valid": bool,
    "action_effective": bool,
    "invalid_reason": str,
    "success": bool,
    "score": float,
    "elapsed_steps": int,
}


class Oracle(Protocol):
    """Exact (or, with ``exact`` False, approximate) knowledge about a state, given as a snapshot of ``get_state()``."""

    exact: bool

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """Best reachable score in [0, 1], within ``steps_left`` env steps when given."""
        ...

    def distance(self, state: str) -> float:
        """Fewest env steps to the best reachable score; ``inf`` if success is out of reach."""
        ...

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Sorted texts of all actions that begin a shortest way; () if there is none."""
        ...


class Outcome(NamedTuple):
    """What one accepted action did."""

    reward: float
    terminated: bool
    effective: bool


class AgentEnv(gym.Env[ObsT, ActT], Generic[ObsT, ActT, ParsedT]):
    """Base of all environments: one task per episode, refused actions explained, the limit owned here.

    A subclass sets ``env_name``, its spaces, and the methods marked abstract; it never overrides ``reset`` or ``step``.

    Args:
        tasks: where tasks come from.
        max_steps: the episode is truncated after this many steps (refused actions count). Gymnasium's ``TimeLimit``
            would keep its own count and ignore restored snapshots, so the limit lives here.
    """

    env_name: ClassVar[str]  # "sokoban"; prefix of task ids
    # True: the observation answers the last action, so a refusal is seen in it; False: it pictures the state
    observation_is_reply: ClassVar[bool] = False
    # True: the list of admissible actions gives the solution away; it is for scripted players, never for prompts
    actions_reveal_answer: ClassVar[bool] = False
    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, *, tasks: TaskSource, max_steps: int) -> None:
        if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
            raise ConfigError(f"max_steps must be a positive integer, got {short_repr(max_steps)}")
        self.tasks = tasks
        self.max_steps = max_steps
        self.elapsed_steps = 0
        self.num_starts = (
            0  # resets and restored snapshots so far: how wrappers see that the state was changed beneath them
        )
        self._task: Task | None = None
        self._over = True

    # -- what a subclass defines ------------------------------------------------------------------------------------
    @abstractmethod
    def _start(self, task: Task) -> None:
        """Put the rules core into the initial state of ``task``."""

    @abstractmethod
    def _parse(self, action: Any) -> tuple[ParsedT | None, str]:
        """The action as the rules core takes it, and ""; or None and the reason why it cannot be understood."""

    @abstractmethod
    def _rejection_reason(self, action: ParsedT) -> str:
        """Why the rules do not admit this action now; "" if they do."""

    @abstractmethod
    def _apply(self, action: ParsedT) -> Outcome:
        """Do an admitted action."""

    @abstractmethod
    def _invalid_action_reward(self) -> float:
        """The reward of a step whose action was refused."""

    @abstractmethod
    def _observe(self) -> ObsT:
        """The observation of the present state."""

    @abstractmethod
    def _keys(self) -> tuple[str, str]:
        """``state_key`` and ``text_key`` of the present state."""

    @abstractmethod
    def _admissible(self) -> tuple[str, ...]:
        """Action texts admitted in the present state, in a fixed order."""

    @abstractmethod
    def _progress(self) -> tuple[bool, float]:
        """``success`` and ``score`` of the present state."""

    def action_from_text(self, text: str) -> Any:
        """The action this environment takes for an entry of ``admissible_actions`` (here the text itself)."""
        return text

    def _extra_info(self) -> dict[str, Any]:
        """Flat, environment-specific info keys, each of one type."""
        return {}

    def documents(self) -> dict[str, dict[str, str]]:
        """The texts that this episode's ``doc_ids`` name and those that support its answer: id to title and text."""
        return {}

    @abstractmethod
    def get_state(self) -> str:
        """An immutable, JSON-able, self-contained snapshot of the episode, step count included."""

    @abstractmethod
    def set_state(self, snapshot: str) -> tuple[ObsT, dict[str, Any]]:
        """Restore a snapshot, in this or any other instance of the environment; returns what ``reset`` would.

        Raises:
            DataError: the text is not a snapshot of this environment.
        """

    @property
    @abstractmethod
    def oracle(self) -> Oracle:
        """The environment's oracle; takes snapshots."""

    # -- the episode ------------------------------------------------------------------------------------------------
    @property
    def task(self) -> Task:
        """The present task.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._task is None:
            raise EpisodeError("there is no task yet: call reset() first")
        return self._task

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[ObsT, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: picks the task, the same one on every machine and in every process.
            options: ``{"task_id": "sokoban1:…"}`` names the task instead, ``{"task": {…}}`` gives its payload: the content
                (``env.unwrapped.task.content``, also in every log) or whatever else the environment makes a task from.
                The id is enough where the source lists its tasks (panels, files); id and payload together are enough
                everywhere, and the payload must then be that of the id.

        Raises:
            UnknownTaskError: the task source does not hold this id.
            ConfigError: an unknown option, or a value of the wrong type.
            DataError: a malformed payload, or one of another task than the id's.
        """
        task_id, payload = read_reset_options(options)
        super().reset(seed=seed)
        if payload is not None:
            task = self.tasks.from_content(payload)
            if task_id is not None and task.task_id != task_id:
                raise DataError(
                    f"{self.env_name}: options['task'] is the payload of task {task.task_id!r}, not of {short_repr(task_id, 80)}; "
                    "give one of the two, or both of the same task"
                )
        elif task_id is not None:
            task = self.tasks.get(task_id)
        else:
            task = self.tasks.sample(self.np_random)
        self._begin(task, elapsed=0)
        return self._observe(), self._info(True, True, False, "")

    def step(self, action: ActT) -> tuple[ObsT, float, bool, bool, dict[str, Any]]:
        """Do one action. A refused action changes nothing but the step count, and ``info`` says why.

        Raises:
            EpisodeError: before ``reset`` or after the end of the episode.
        """
        if self._over:
            raise EpisodeError("the episode is over (or has not begun): call reset() before step()")
        self.elapsed_steps += 1
        parsed, reason = self._parse(action)
        admissible = False
        if parsed is not None:
            reason = self._rejection_reason(parsed)
            admissible = not reason
        if admissible:
            reward, terminated, effective = self._apply(parsed)  # type: ignore[arg-type]  # admissible: not None
        else:
            reward, terminated, effective = self._invalid_action_reward(), False, False
        truncated = not terminated and self.elapsed_steps >= self.max_steps
        self._over = terminated or truncated
        return (
            self._observe(),
            reward,
            terminated,
            truncated,
            self._info(parsed is not None, admissible, effective, reason),
        )

    def undo_step_count(self) -> tuple[ObsT, dict[str, Any]]:
        """Take back the step count of the action just refused; returns the unchanged observation and fresh info.

        Only the caller knows that the last action was refused; ``InvalidActions`` uses this for its retries.
        """
        if self.elapsed_steps == 0:
            raise EpisodeError("there is no step to undo_step_count")
        self.elapsed_steps -= 1
        self._over = self._progress()[0]
        return self._observe(), self._info(True, True, False, "")

    def _begin(self, task: Task, elapsed: int) -> None:
        """Start ``task``; with a restored snapshot ``elapsed`` is its step count."""
        self._start(task)
        self._task, self.elapsed_steps = task, elapsed
        self.num_starts += 1
        self._over = self._progress()[0] or elapsed >= self.max_steps

    def _info(self, parsed: bool, admissible: bool, effective: bool, reason: str) -> dict[str, Any]:
        state_key, text_key = self._keys()
        success, score = self._progress()
        return {
            "task_id": self._task.task_id if self._task else "",
            "state_key": state_key,
            "text_key": text_key,
            "admissible_actions": () if self._over else self._admissible(),
            "action_parsed": parsed,
            "action_admissible": admissible,
            "action_valid": admissible,
            "action_effective": effective,
            "invalid_reason": reason,
            "success": success,
            "score": score,
            "elapsed_steps": self.elapsed_steps,
            **self._extra_info(),
        }
