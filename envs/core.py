"""``AgentEnv``, the base class of all environments, and the ``Oracle`` protocol.

An environment combines its *rules* (pure functions in its own folder) with this class, which defines what must not
differ between environments: how a task is chosen, how actions are rejected, when an episode ends, the keys of ``info``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar

import gymnasium as gym

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr
from creditflow.envs.reset_options import read_reset_options
from creditflow.envs.tasks import Task, TaskSource

__all__ = ["AgentEnv", "Oracle", "Outcome"]

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")
ParsedT = TypeVar("ParsedT")


class Oracle(Protocol):
    """Exact (or, with ``exact`` False, approximate) knowledge about a state, given as a snapshot of ``get_state()``."""

    exact: bool

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """Return the best reachable score in [0, 1], within ``steps_left`` environment steps if given."""
        ...

    def distance(self, state: str) -> float:
        """Return the fewest environment steps to the best reachable score; inf if success is out of reach."""
        ...

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Return the sorted texts of all actions that begin a shortest plan; () if there is none."""
        ...


class Outcome(NamedTuple):
    """Result of one executed action.

    Attributes:
        reward: reward of the step.
        terminated: whether the task is over.
        effective: whether the state changed.
        truncated: whether a limit that the environment keeps itself has cut the episode.
    """

    reward: float
    terminated: bool
    effective: bool
    truncated: bool = False


# what a copy has besides its arguments and its snapshot
_COPIED: Final = (
    "spec",
    "max_steps",
    "action_space",
    "observation_space",
    "num_starts",
    "_np_random",
    "_np_random_seed",
    "_over",
)


def _copied(
    kind: type[AgentEnv[Any, Any, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    snapshot: str | None,
    after: Mapping[str, Any],
) -> AgentEnv[Any, Any, Any]:
    """Return an environment as ``AgentEnv.__reduce__`` describes it."""
    env = kind(*args, **kwargs)
    if snapshot is not None:
        env.set_state(snapshot)
    for name, value in after.items():
        setattr(env, name, value)
    return env


class AgentEnv(gym.Env[ObsT, ActT], Generic[ObsT, ActT, ParsedT]):
    """Base class of all environments: one task per episode, reasons for rejected actions, a step limit.

    A subclass sets ``env_name``, its spaces, and the abstract methods; it never overrides ``reset`` or ``step``.

    Args:
        tasks: source of tasks.
        max_steps: the episode is truncated after this many steps, rejected actions included. Gymnasium's ``TimeLimit``
            keeps a count of its own that ignores restored snapshots, so the limit is enforced here.
    """

    env_name: ClassVar[str]  # "sokoban"; prefix of task ids
    # True: the observation is the reply to the last action; False: it shows the state
    observation_is_reply: ClassVar[bool] = False
    # True: the list of admissible actions reveals the answer, so it is for scripted agents, never for prompts
    actions_reveal_answer: ClassVar[bool] = False
    # False: some admissible actions are free text (searches, answers), so the list of admissible actions is incomplete
    lists_all_actions: bool = True
    metadata: dict[str, Any] = {"render_modes": []}
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]  # of the constructor

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments, from which a copy is made."""
        env = super().__new__(cls)
        env._arguments = args, kwargs
        return env

    def __init__(self, *, tasks: TaskSource, max_steps: int) -> None:
        if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
            raise ConfigError(f"max_steps must be a positive integer, got {short_repr(max_steps)}")
        self.tasks = tasks
        self.max_steps = max_steps
        self.elapsed_steps = 0
        self.num_starts = 0  # resets and restored snapshots so far, from which wrappers notice a restored state
        self._task: Task | None = None
        self._last_action: ParsedT | None = None  # as parsed
        self._over = True

    # -- defined by subclasses -------------------------------------------------------------------------------------
    @abstractmethod
    def _start(self, task: Task) -> None:
        """Enter the initial state of ``task``."""

    @abstractmethod
    def _parse(self, action: Any) -> tuple[ParsedT | None, str]:
        """Return the parsed action and "", or None and the reason why it cannot be parsed."""

    @abstractmethod
    def _rejection_reason(self, action: ParsedT) -> str:
        """Return why the action is inadmissible in the present state; "" if it is admissible."""

    @abstractmethod
    def _apply(self, action: ParsedT) -> Outcome:
        """Execute an admissible action."""

    @abstractmethod
    def _invalid_action_reward(self) -> float:
        """Return the reward of a step whose action was rejected."""

    @abstractmethod
    def _observe(self) -> ObsT:
        """Return the observation of the present state."""

    @abstractmethod
    def _keys(self) -> tuple[str, str]:
        """Return ``state_key`` and ``text_key`` of the present state."""

    @abstractmethod
    def _admissible(self) -> tuple[str, ...]:
        """Return the texts of the admissible actions, in a fixed order."""

    @abstractmethod
    def _progress(self) -> tuple[bool, float]:
        """Return ``success`` and ``score`` of the present state."""

    def action_from_text(self, text: str) -> Any:
        """Return the action for an entry of ``admissible_actions`` (here the text itself)."""
        return text

    def action_to_text(self, action: Any) -> str:
        """Return the text of an action as logs record it (here of the texts that this environment takes)."""
        return action if isinstance(action, str) else str(action)

    def observation_text(self, observation: Any) -> str | None:
        """Return the text of an observation, itself or the entry "text" of a mapping, as prompts and logs show it; None without one."""
        text = observation.get("text") if isinstance(observation, Mapping) else observation
        return text if isinstance(text, str) else None

    def parse_text(self, text: str) -> ParsedT | None:
        """Return the parsed action of a text; None if it cannot be parsed. Texts with equal results are the same action."""
        return self._parse(text)[0]

    @property
    def action_spelling(self) -> str:
        """The spelling of the last action that all texts share that this environment takes for it; "" if it has none."""
        return "" if self._last_action is None else self._spell(self._last_action)

    def _spell(self, action: ParsedT) -> str:
        """The text of a parsed action, equal for equal actions (here of texts alone)."""
        return action if isinstance(action, str) else ""

    @property
    def observation_memory(self) -> str:
        """Whatever later observations depend on besides ``state_key``, the present observation and the actions; "" for nothing."""
        return ""

    def _extra_info(self) -> dict[str, Any]:
        """Return the environment's own info keys: flat, each of one type."""
        return {}

    def documents(self) -> dict[str, dict[str, str]]:
        """Return the documents that ``doc_ids`` name or that support the answer: id -> title and text."""
        return {}

    @abstractmethod
    def get_state(self) -> str:
        """Return a self-contained snapshot of the episode as JSON text, step count included."""

    @abstractmethod
    def set_state(self, snapshot: str) -> tuple[ObsT, dict[str, Any]]:
        """Restore a snapshot, in this or any other instance; return observation and info as ``reset`` does.

        Raises:
            DataError: not a snapshot of this environment.
        """

    @property
    @abstractmethod
    def oracle(self) -> Oracle:
        """The environment's oracle, which evaluates snapshots."""

    # -- the episode ------------------------------------------------------------------------------------------------
    @property
    def is_over(self) -> bool:
        """Whether no episode is running: before the first ``reset``, and from the end of an episode on."""
        return self._over

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
        """Start an episode.

        Args:
            seed: selects the task, the same one on every machine and in every process.
            options: ``{"task_id": "sokoban1:…"}`` names the task instead, ``{"task": {…}}`` gives its payload: the content
                (``env.unwrapped.task.content``, also in every log) or another description that the environment accepts.
                The id suffices where the source lists its tasks (panels, files); id and payload together suffice
                everywhere, and the payload must then be that of the id.

        Raises:
            UnknownTaskError: the task source does not have this id.
            ConfigError: an unknown option, or a value of the wrong type.
            DataError: a malformed payload, or the payload of a task other than the id's.
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
        """Execute one action. A rejected action changes nothing but the step count; ``info`` gives the reason.

        Raises:
            EpisodeError: before ``reset`` or after the end of the episode.
        """
        if self._over:
            raise EpisodeError("no episode is running: call reset() before step()")
        self.elapsed_steps += 1
        parsed, reason = self._judge(action)
        self._last_action = parsed
        admissible = parsed is not None and not reason
        if parsed is not None and admissible:
            reward, terminated, effective, cut = self._apply(parsed)
        else:
            reward, terminated, effective, cut = self._invalid_action_reward(), False, False, False
        truncated = not terminated and (cut or self.elapsed_steps >= self.max_steps)
        self._over = terminated or truncated
        return (
            self._observe(),
            reward,
            terminated,
            truncated,
            self._info(parsed is not None, admissible, effective, reason),
        )

    def refused(self, action: ActT) -> tuple[ObsT, dict[str, Any]] | None:
        """Return the observation and info with the reason for which an action would be rejected, without a step; None if it would be executed.

        Raises:
            EpisodeError: no episode is running.
        """
        if self._over:
            raise EpisodeError("no episode is running: call reset() first")
        parsed, reason = self._judge(action)
        if parsed is not None and not reason:
            return None
        return self._observe(), self._info(parsed is not None, False, False, reason)

    def __reduce__(self) -> Any:
        """Copy and pickle an environment as its arguments, the snapshot of its episode and its random numbers."""
        after = {name: getattr(self, name) for name in _COPIED}
        return _copied, (type(self), *self._arguments, None if self._task is None else self.get_state(), after)

    def _judge(self, action: ActT) -> tuple[ParsedT | None, str]:
        """The parsed action, or None, and why it would be rejected; "" if it would not."""
        parsed, reason = self._parse(action)
        return parsed, reason if parsed is None else self._rejection_reason(parsed)

    def _begin(self, task: Task, elapsed: int) -> None:
        """Start ``task``; for a restored snapshot ``elapsed`` is its step count."""
        self._start(task)
        self._task, self.elapsed_steps, self._last_action = task, elapsed, None
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
