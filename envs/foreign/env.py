"""``ForeignEnv``: any Gymnasium environment under the contract of this package, so that its episodes can be recorded.

What is promised:

- ``reset(seed=s)`` and the steps after it are those of the environment itself under the same seed. The task is that seed.
- A group's members start equally: each is reset with the task's seed. When a task is named (``options``), the environment's
  own generator is then replaced, so that noise after the start differs between members, and is determined by the seed
  given beside the task. An environment that does not draw from Gymnasium's ``np_random`` keeps its noise, equal in
  all members; a deterministic one has none.
- An action that is no element of the action space is rejected without a step of the environment: it costs a turn and 0
  reward. An element is executed, whatever the environment makes of it.
- Every episode ends: at the environment's own limit, or after ``DEFAULT_LIMIT`` turns where it names none. Rejected actions count.
- What the environment returns is checked (``results.py``): a reward that is not finite is an error, not a record.
- A snapshot is what happened: the task, the actions, and the generators that were set. It is restored by doing the same again, in
  this or any other instance, so it costs as many steps. An environment that does not do the same again (it draws from elsewhere
  than ``np_random``, or asks a server) is noticed where it comes to another state, and refused.
- There is no oracle: what needs one fails with an error that says so.

Its tasks are its seeds: a task is what ``reset`` is called with, so that an id starts the same episode again. What is *learned*
about states is shared by the episodes with equal ``info["task_key"]``: by all of them, unless ``task`` says otherwise.
"""

from __future__ import annotations

import copyreg
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import gymnasium as gym
import numpy as np

from creditflow.envs.core import AgentEnv, Oracle, Outcome
from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError, short_repr
from creditflow.envs.foreign.actions import action_text, check_action_space, listed_actions, read_action, shown_text
from creditflow.envs.foreign.failures import note_failure
from creditflow.envs.foreign.keys import StateKey, content_key
from creditflow.envs.foreign.results import read_reset, read_step
from creditflow.envs.foreign.rules import Success, judged, state_rule, success_rule, task_rule
from creditflow.envs.info import INFO_TYPES
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.reset_options import RESET_OPTIONS
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Task, content_id

__all__ = ["DEFAULT_LIMIT", "ForeignEnv", "problem_name"]

DEFAULT_LIMIT: Final = 200  # turns of an episode where the environment names no limit
FORMAT: Final = "foreign/1"  # of snapshots

# names in info that the wrappers of this package read or write
_RESERVED = frozenset(
    {*INFO_TYPES, "raw_reward", "retries_left", "stop_reason", "thought", "entities", "queries", "doc_ids", "task_key"}
)


class ForeignEnv(AgentEnv[Any, Any, Any]):
    """A foreign environment, with tasks, state keys, success and rejected actions.

    >>> import gymnasium
    >>> env = ForeignEnv(gymnasium.make("FrozenLake-v1"), success="positive_reward")
    >>> _, info = env.reset(seed=7)
    >>> info["task_id"], info["state_key"], info["admissible_actions"]
    ('FrozenLake-v1:seed=7', 'int:0', ('0', '1', '2', '3'))

    Args:
        env: any Gymnasium environment, possibly wrapped.
        success: how an episode succeeds: "terminated", "positive_reward", "reported", or a function (reward, terminated, truncated,
            info) -> bool, called with an episode's last step. An episode whose last action was rejected has no such step,
            and no success. "none": no episode counts as a success, for what reads rewards alone.
        state_key: the content of a state: "observation" (default), "rounded:DECIMALS", or a function (observation, info)
            -> content; ``content_key`` makes the key. Equal keys should mean an equal future: with a partial
            observation as key, states that look alike are merged.
        task: which episodes share what is learned about states. None (default): all of them. The name of an entry of
            ``info``, or a function (observation, info) -> content, read at ``reset``: episodes with equal content.
        name: name of the problem, the prefix of task ids; default its Gymnasium id, with a digest of arguments that are
            not the default.
        only_listed: an action that the environment does not list in the step, under ``info["admissible_actions"]``, is rejected
            without a step. For text games, where most texts are elements of the action space and do nothing.
        max_steps: the episode is truncated after this many steps, rejected actions included. Default: the environment's
            own limit (``gym.make(ID, max_episode_steps=N)``); if it names none, ``DEFAULT_LIMIT``, with a warning where that ends
            an episode.

    ``reset`` takes the environment's own options too; they become part of the task.

    ``info`` has the environment's own keys too, except those that have a meaning here. ``info["admissible_actions"]`` lists a small
    finite action space, the samples of a ``TextSpace``, or what the environment itself lists under this key in each step.

    Raises:
        ConfigError: no rule of success, an unknown name, something that is not a Gymnasium environment, or one whose actions have no text.
    """

    env_name: ClassVar[str] = "foreign"

    def __reduce__(self) -> Any:
        """Copy and pickle the environment inside as it is, with what has no arguments to be made from."""
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]  # as pickle does by default

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        success: str | Success | None = None,
        state_key: str | StateKey | None = None,
        task: str | StateKey | None = None,
        name: str | None = None,
        only_listed: bool = False,
        max_steps: int | None = None,
    ) -> None:
        wrapped: Any = env  # whatever a user passes
        if not isinstance(wrapped, gym.Env):
            what = "a vector of environments" if isinstance(wrapped, gym.vector.VectorEnv) else type(wrapped).__name__
            raise ConfigError(
                f"expected a Gymnasium environment, got {what}; episodes are recorded one environment at a time"
            )
        if isinstance(env.unwrapped, AgentEnv):
            raise ConfigError(f"{type(env.unwrapped).__name__} is a creditflow environment and needs no ForeignEnv")
        check_action_space(env.action_space)
        self.inner = env
        self.name = problem_name(env) if name is None else name
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise ConfigError(f"name must be a printable text (the prefix of task ids), got {short_repr(name)}")
        self._success_rule, self._state_rule = success_rule(success, self.name), state_rule(state_key)
        self._task_rule = task_rule(task, self.name)
        own_limit = env.spec.max_episode_steps if env.spec is not None else None
        self._limit_is_default = not (max_steps or own_limit)
        super().__init__(
            tasks=SeedTasks(self.name), max_steps=(own_limit or DEFAULT_LIMIT) if max_steps is None else max_steps
        )
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self._listed = listed_actions(env.action_space)
        self.lists_all_actions = bool(self._listed) and not isinstance(env.action_space, TextSpace)
        self._only_listed = only_listed
        if only_listed:
            self.lists_all_actions = True
        self._observation: Any = None
        self._inner_info: dict[str, Any] = {}
        self._key, self._task_key, self._succeeded, self._own_noise = "", "", False, False
        # since the start: texts of actions, pairs of words that seed noise, None for a rejected action
        self._events: list[str | list[int] | None] = []

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; see ``AgentEnv.reset``.

        Overridden because here a seed without a task is the task: the episode is the environment's own under ``reset(seed=seed)``.
        Options that name no task are the environment's own.
        """
        own = None if not isinstance(options, Mapping) or set(options) & set(RESET_OPTIONS) else dict(options)
        self._own_noise = bool(options) and not own
        if own or (seed is not None and not options):
            drawn = int(np.random.default_rng().integers(2**31)) if seed is None else int(seed)
            options = {"task": {"seed": drawn, **({"options": own} if own else {})}}
        return super().reset(seed=seed, options=options)

    def _start(self, task: Task) -> None:
        options = task.content.get("options")
        try:
            started = self.inner.reset(seed=task.content["seed"], options=dict(options) if options else None)
        except Exception as error:
            note_failure(error, self.name, "reset")
            raise
        self._observation, self._inner_info = read_reset(started, self.name)
        self._events = []
        if self._own_noise:
            self._seed_noise(self.np_random)
        self._succeeded, self._key = False, self._state_key()
        self._task_key = self._task_rule(self._observation, self._inner_info)

    @property
    def np_random(self) -> np.random.Generator:
        """The generator; setting it gives the environment inside a new one, too, so that what follows differs."""
        return super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random, self._np_random_seed = value, -1
        self._seed_noise(value)

    def _seed_noise(self, rng: np.random.Generator) -> None:
        """Give the environment inside a generator that is drawn from another one."""
        words = [int(rng.bit_generator.random_raw()) for _ in range(2)]
        self._replace_noise(words)

    def _replace_noise(self, words: list[int]) -> None:
        self.inner.unwrapped.np_random = np.random.Generator(np.random.PCG64(words))
        if self._events and isinstance(self._events[-1], list):
            self._events.pop()  # nothing was drawn from that one
        self._events.append(words)

    def _state_key(self) -> str:
        function = self._state_rule
        return content_key(function(self._observation, self._inner_info), f"{self.name}: the state")

    def _parse(self, action: Any) -> tuple[Any, str]:
        try:
            return read_action(self.action_space, action), ""
        except ValueError as error:
            return None, str(error)

    def _rejection_reason(self, action: Any) -> str:
        if not self._only_listed:
            return ""
        listed = self._admissible()
        if not listed:
            raise DataError(f"{self.name}: only_listed needs info['admissible_actions'], which this step does not have")
        return "" if action_text(action) in listed else "the environment does not list this action"

    def _apply(self, action: Any) -> Outcome:
        before = self._key
        try:
            result = self.inner.step(action)
        except Exception as error:
            note_failure(error, self.name, "step")
            raise
        read = read_step(result, self.name)
        self._observation, self._inner_info = read.observation, read.info
        self._events.append(action_text(action))
        self._key, cut = self._state_key(), read.truncated
        if read.terminated or cut or self.elapsed_steps >= self.max_steps:
            cut = cut or not read.terminated
            self._succeeded = judged(self._success_rule, read.reward, read.terminated, cut, self._inner_info, self.name)
        return Outcome(read.reward, read.terminated, self._key != before, cut)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step; see ``AgentEnv.step``.

        Overridden to record rejected actions, and to warn once when the default limit ends an episode.
        """
        result = super().step(action)
        if not result[-1]["action_valid"]:
            self._events.append(None)
        if self._limit_is_default and self.elapsed_steps >= self.max_steps:
            self._limit_is_default = False
            warnings.warn(
                f"{self.name} names no limit, so its episodes end after {self.max_steps} turns; choose another one: "
                "--max-turns N for a command, gym.make(ID, max_episode_steps=N) or ForeignEnv(env, max_steps=N) in Python",
                stacklevel=2,
            )
        return result

    def _invalid_action_reward(self) -> float:
        return 0.0

    def _observe(self) -> Any:
        return self._observation

    def _keys(self) -> tuple[str, str]:
        return self._key, self._observation if isinstance(self._observation, str) else self._key

    def _admissible(self) -> tuple[str, ...]:
        reported = self._inner_info.get("admissible_actions")
        if not isinstance(reported, list | tuple):
            return self._listed
        try:
            return tuple(action_text(read_action(self.action_space, action)) for action in reported)
        except ValueError as error:
            raise DataError(f"{self.name}: info['admissible_actions'] contains an invalid action: {error}") from error

    def _progress(self) -> tuple[bool, float]:
        return self._succeeded, float(self._succeeded)

    def _extra_info(self) -> dict[str, Any]:
        own = {key: value for key, value in self._inner_info.items() if key not in _RESERVED}
        return {**own, "task_key": self._task_key}

    def observation_text(self, observation: Any) -> str | None:
        """Return the text of an observation: itself, or of numbers and what is made of them JSON; None of pictures and what is long."""
        text = super().observation_text(observation)
        return text if text is not None else shown_text(observation)

    def action_from_text(self, text: str) -> Any:
        """Return the action for an entry of ``admissible_actions``."""
        return read_action(self.action_space, text)

    def action_to_text(self, action: Any) -> str:
        """Return the text of an action, equal for equal actions: JSON, or a text itself."""
        parsed, reason = self._parse(action)
        if reason:
            return action if isinstance(action, str) else short_repr(action, 200)
        return action_text(parsed)

    def get_state(self) -> str:
        """Return what happened since the start as JSON text; see the module."""
        content = dict(self.task.content)
        return json.dumps({"format": FORMAT, "task": content, "events": self._events, "state_key": self._key})

    def set_state(self, snapshot: str) -> tuple[Any, dict[str, Any]]:
        """Restore a snapshot by doing the same again; see ``AgentEnv.set_state``.

        Raises:
            DataError: not a snapshot of this environment, or doing the same again leads to another state.
        """
        task, events, state_key = self._read(snapshot)
        self._own_noise = False  # the snapshot has its own
        self._begin(task, elapsed=0)
        for event in events:
            if isinstance(event, list):
                self._replace_noise(event)
            elif event is None:
                self._events.append(None)
                self.elapsed_steps += 1
                self._over = self.elapsed_steps >= self.max_steps
            elif self._over or not super().step(event)[-1]["action_valid"]:
                self._key = ""  # what was done cannot be done again
                break
        if self._key != state_key:
            raise DataError(
                f"{self.name}: the actions of a snapshot led to state {self._key!r} and not to {state_key!r} again. Snapshots, branches and "
                "continuations of a foreign environment need one whose steps follow from the seed of reset and its np_random"
            )
        return self._observe(), self._info(True, True, False, "")

    def _read(self, snapshot: str) -> tuple[Task, list[str | list[int] | None], str]:
        """The parts of a snapshot, checked: task, events, state key."""
        data = parse_json(snapshot, where=f"a snapshot of {self.name}")
        if (
            not isinstance(data, dict)
            or data.get("format") != FORMAT
            or set(data) != {"format", "task", "events", "state_key"}
        ):
            raise DataError(f"{self.name}: expected a snapshot as get_state() gives it, got {short_repr(snapshot, 80)}")
        events = data["events"]
        if not isinstance(events, list) or not all(map(_is_event, events)):
            raise DataError(f"{self.name}: the events of a snapshot must be texts of actions, null, or pairs of seeds")
        seeds = sum(isinstance(event, list) for event in events)
        if len(events) - seeds > self.max_steps:
            raise DataError(f"{self.name}: a snapshot has more turns than max_steps={self.max_steps}")
        if seeds > self.max_steps + 1:
            raise DataError(
                f"{self.name}: a snapshot has {seeds} pairs of seeds, and an episode of max_steps={self.max_steps} has at most "
                f"{self.max_steps + 1}: one before each turn, and one at the end"
            )
        return self.tasks.from_content(data["task"]), events, str(data["state_key"])

    @property
    def oracle(self) -> Oracle:
        """Raise, as a foreign environment has no oracle.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"{self.name} has no oracle, because it is a foreign environment. Experts and oracle values need a creditflow "
            "environment. `creditflow new env NAME` creates a template for one"
        )

    def render(self) -> Any:
        """Render the environment."""
        return self.inner.render()

    def close(self) -> None:
        """Close the environment."""
        self.inner.close()


MAX_SEED: Final = 2**63 - 1
_SEED: Final = re.compile(r"seed=(0|[1-9][0-9]{0,18})")


class SeedTasks:
    """An endless source: ``{"env": NAME, "seed": N}``, and ``"options"`` if ``reset`` is given any; ids ``NAME:seed=N``.

    Args:
        name: name of the problem, the prefix of the ids.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a seed."""
        return self.from_content({"seed": int(rng.bit_generator.random_raw()) >> 33})

    def get(self, task_id: str) -> Task:
        """Return the task of an id without options.

        Raises:
            UnknownTaskError: an id of another form, or of another environment.
        """
        name, _, rest = task_id.rpartition(":")
        match = _SEED.fullmatch(rest)
        if name != self.name or match is None or int(match[1]) > MAX_SEED:
            raise UnknownTaskError(
                f"{self.name}: task {short_repr(task_id, 80)} is unknown; expected an id such as {self.name}:seed=7. "
                "Pass a task with reset options by its content: options={'task': {'seed': 7, 'options': {…}}}"
            )
        return self.from_content({"seed": int(match[1])})

    def from_content(self, content: Any) -> Task:
        """Return the task with this content.

        Raises:
            DataError: malformed content, or that of another environment.
        """
        allowed = {"env", "seed", "options"}
        if not isinstance(content, Mapping) or not set(content) <= allowed or "seed" not in content:
            raise DataError(
                f"{self.name}: a task must be {{'seed': N}}, with 'options' if needed; got {short_repr(content)}"
            )
        seed, options = content["seed"], content.get("options")
        if type(seed) is not int or not 0 <= seed <= MAX_SEED:
            raise DataError(f"{self.name}: seed must be an integer from 0 to 2⁶³ − 1, got {short_repr(seed)}")
        if content.get("env", self.name) != self.name:
            raise DataError(f"{self.name}: the task belongs to another environment: {short_repr(content['env'])}")
        plain: dict[str, Any] = {"env": self.name, "seed": seed}
        task_id = f"{self.name}:seed={seed}"
        if options is not None and not (isinstance(options, Mapping) and all(isinstance(key, str) for key in options)):
            raise DataError(f"{self.name}: the options of a task must have strings as keys, got {short_repr(options)}")
        if options:
            try:
                plain["options"] = json.loads(json.dumps(options, allow_nan=False))
            except (TypeError, ValueError, RecursionError) as error:
                raise DataError(f"{self.name}: the options of a task must be JSON: {error}") from error
            task_id += f",{content_id('options', plain['options'])[:16]}"
        return Task(task_id, task_id, plain)

    def task_ids(self) -> tuple[str, ...]:
        """(): there are endlessly many."""
        return ()


def _is_event(event: Any) -> bool:
    """Whether an entry of a snapshot is a rejected action, the text of an action, or two words that seed a generator."""
    if isinstance(event, list):
        return len(event) == 2 and all(type(word) is int and 0 <= word < 2**64 for word in event)
    return event is None or isinstance(event, str)


def problem_name(env: gym.Env[Any, Any]) -> str:
    """Return the name of the problem that an environment poses: its id, with a digest of arguments that are not the default.

    Raises:
        ConfigError: an argument is not plain data, so that two problems could get one name.
    """
    spec = env.spec
    if spec is None:
        return type(env.unwrapped).__name__
    registered = gym.registry.get(spec.id)
    default = registered.kwargs if registered is not None else {}
    arguments = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    try:
        text, usual = (json.dumps(value, sort_keys=True, default=_listed) for value in (arguments, default))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{spec.id}: an argument is not plain data ({error}), so it cannot identify tasks. Pass a name: "
            "ForeignEnv(env, name=…, success=…)"
        ) from error
    return spec.id if text == usual else content_id(spec.id, json.loads(text)).replace(":", "+")[: len(spec.id) + 9]


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__}: {short_repr(value)}")
