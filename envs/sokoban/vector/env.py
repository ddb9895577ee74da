"""The vector environment of Sokoban: the boards of all episodes in one array, moved at once.

Infos are computed when they are read, because task ids, state keys and texts of a thousand boards cost more than their moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.envs.reset_options import RESET_OPTIONS, read_reset_options
from creditflow.envs.sokoban.actions import make_parser, make_vocabulary
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.observations.views import OBS_KEYS, planes
from creditflow.envs.sokoban.oracle import SokobanOracle
from creditflow.envs.sokoban.rewards import reward_preset
from creditflow.envs.sokoban.rules import state_key, to_position
from creditflow.envs.sokoban.snapshot import cached_level, write_snapshot
from creditflow.envs.sokoban.vector.boards import GAINS, MOVED, NOTHING, PUSH, PUSHED, Boards, level_start
from creditflow.envs.tasks import Task

__all__ = ["INFO_KEYS", "LazyInfos", "Moment", "SokobanVectorEnv"]

MAX_ENVS: Final = 1 << 20
VECTOR_OPTIONS: Final = ("reset_mask", "task_ids")
INFO_KEYS: Final = (
    "task_id", "state_key", "text_key", "admissible_actions", "action_parsed", "action_admissible", "action_valid",
    "action_effective", "invalid_reason", "success", "score", "elapsed_steps",
    "boxes_on_target", "boxes", "player_moved", "moved_box",
)  # fmt: skip
_ALL_KEYS: Final = dict.fromkeys(name for key in INFO_KEYS for name in (key, f"_{key}"))
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class SokobanVectorEnv(VectorEnv[Any, Any, Any]):
    r"""N episodes of ``SokobanEnv``, move for move the same, at millions of steps per second.

    >>> envs = SokobanVectorEnv(3, level="######\n#@ $.#\n######", obs_mode="grid", action_mode="discrete")
    >>> codes, infos = envs.reset(seed=0)
    >>> codes.shape, codes.dtype
    ((3, 3, 6), dtype('uint8'))
    >>> _ = envs.step([3, 3, 0])
    >>> _, rewards, terminations, _, infos = envs.step(np.array([3, 0, 0]))
    >>> rewards, terminations, infos["success"]
    (array([1., 0., 0.]), array([ True, False, False]), array([ True, False, False]))

    Environment i is seeded with ``seed + i`` and then plays what a ``SokobanEnv`` with that seed plays. Infos are those of
    ``SokobanEnv`` in Gymnasium's form (an array per key), computed when they are read (see ``LazyInfos``).

    Args:
        num_envs: number of environments, N.
        autoreset_mode: "NextStep", "SameStep" or "Disabled", or Gymnasium's ``AutoresetMode``. With "Disabled", ended
            episodes must be reset, by ``reset(options={"reset_mask": …})``, before the next step.
        **arguments: arguments of ``SokobanEnv``, but for turns of several moves.
            Every level must fit into ``grid_shape``.

    ``reset`` takes seeds as an integer or a list, and the options of ``SokobanEnv.reset``, ``reset_mask`` (bool (N,): the
    environments that are reset) and ``task_ids`` (one per environment). ``np_random`` is that of environment 0.

    Raises:
        ConfigError: an invalid argument.
        LevelError: a malformed level.
    """

    metadata: dict[str, Any] = {**SokobanEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self, num_envs: int = 1, *, autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP, **arguments: Any
    ) -> None:
        if type(num_envs) is not int or not 1 <= num_envs <= MAX_ENVS:
            raise ConfigError(f"num_envs must be an integer from 1 to {MAX_ENVS:,}, got {short_repr(num_envs)}")
        self.num_envs, self.autoreset_mode = num_envs, _reset_mode(autoreset_mode)
        self._single = single = SokobanEnv(**arguments)
        if single.moves_per_turn > 1:
            raise ConfigError(
                "the vector environment makes one move per step; use vectorization_mode='sync' for moves_per_turn"
            )
        self.metadata = {**single.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode, self.max_steps = single.render_mode, single.max_steps
        self.single_action_space, self.single_observation_space = single.action_space, single.observation_space
        self.action_space = batch_space(single.action_space, num_envs)
        self.observation_space = batch_space(single.observation_space, num_envs)

        mode, obs_mode = arguments.get("action_mode", "text"), arguments.get("obs_mode", "text")
        vocabulary = make_vocabulary(arguments.get("n_actions", 4))
        self._texts, self._as_text, self._parse = vocabulary.texts, mode == "text", make_parser(mode, vocabulary)[1]
        # index -1, of an invalid action, is the last entry: no direction, so no move
        directions = np.array([*(direction for direction, _ in vocabulary.moves), -1])
        columns = single.grid_shape[1]
        self._offsets = np.array([-columns, columns, -1, 1, 0])[directions]
        self._pushes = np.array([*(PUSH * push for _, push in vocabulary.moves), 0])
        rewards = reward_preset(arguments.get("reward", "sparse"))
        self._rejected = rewards.rejected
        self._rewards = np.array([rewards.of(int(gain), bool(solved)) for solved in (0, 1) for gain in GAINS])
        self._nested = obs_mode == "dict"
        self._keys: Sequence[str] = (arguments.get("obs_keys") or OBS_KEYS) if self._nested else (obs_mode,)

        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._tasks: list[Task | None] = [None] * num_envs
        self._waiting = num_envs  # environments that were never reset
        self._boards = Boards(num_envs, single.grid_shape)
        flags = np.zeros(num_envs, dtype=np.bool_)
        self._now = Moment(np.full(num_envs, "", dtype=object), np.zeros(num_envs, dtype=np.int64), flags, flags,
                           np.full(num_envs, NOTHING, dtype=np.uint8), flags, {})  # fmt: skip

    # -- Gymnasium ----------------------------------------------------------------------------------------------------
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, in all environments or in those of ``options["reset_mask"]``.

        Args:
            seed: environment i is seeded with ``seed + i``, or with its entry of a list.
            options: see the class.

        Returns:
            The observations of all environments, and the infos of those that were reset.

        Raises:
            UnknownTaskError: the task source does not have an id.
            ConfigError: an unknown option, a mask or list of the wrong type or length, a level that is too large.
            DataError: a malformed payload, or one of another task than the id's.
        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options must be a mapping, got {type(options).__name__}")
        which = _selected(options or {}, self.num_envs)
        self._seed(seed, which)
        self._begin(which, self._chosen(which, options or {}))
        return self._observe(), self._infos(which)

    def step(self, actions: Any) -> tuple[Any, npt.NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Execute one action in every environment; an invalid one changes nothing but the step count.

        Args:
            actions: N integers, or N strings with ``action_mode="text"``.

        Returns:
            Observations, rewards float64 (N,), terminations and truncations bool (N,), infos.

        Raises:
            ConfigError: actions of the wrong shape or type.
            EpisodeError: an environment was never reset, or, without autoreset, its episode has ended.
        """
        self._require_running()
        numbers, reasons = self._read(actions)
        # not empty only with NEXT_STEP, which starts these again, whatever their actions do
        ended = np.flatnonzero(self._now.over)
        events = self._boards.move(self._offsets.take(numbers), self._pushes.take(numbers))
        solved = self._boards.on_target == self._boards.boxes
        rewards = self._rewards.take(events | solved.astype(np.uint8) << 4)
        rewards[numbers < 0] = self._rejected
        elapsed = self._now.elapsed + 1
        truncated = ~solved & (elapsed >= self.max_steps)
        self._now = replace(self._now, elapsed=elapsed, solved=solved, over=solved | truncated, events=events,
                            valid=numbers >= 0, reasons=reasons)  # fmt: skip
        terminated = solved.copy()
        if len(ended):
            rewards[ended], terminated[ended], truncated[ended] = 0.0, False, False
            self._begin(ended, self._sampled(ended))
        everyone = np.arange(self.num_envs)
        if self.autoreset_mode != AutoresetMode.SAME_STEP or not self._now.over.any():
            return self._observe(), rewards, terminated, truncated, self._infos(everyone)
        over, flags = np.flatnonzero(self._now.over), self._now.over
        boards = zip(self._boards.texts(over), self._boards.sides[1, over].tolist(), strict=True)
        final_obs = np.full(self.num_envs, None)
        final_obs[over] = _objects([self._single.observe_board(board, width) for board, width in boards])
        final_info = self._infos(over)
        self._begin(over, self._sampled(over))
        infos = self._infos(everyone)
        infos.update(final_obs=final_obs, _final_obs=flags.copy(), final_info=final_info, _final_info=flags.copy())
        return self._observe(), rewards, terminated, truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        """Return the frame of every environment, as ``SokobanEnv.render`` does.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        frames = []
        for number in range(self.num_envs):
            self._single.set_state(self.get_state(number))
            frames.append(self._single.render())
        return None if self.render_mode is None else tuple(frames)

    # -- the beginning of episodes ------------------------------------------------------------------------------------
    def _seed(self, seed: Any, which: Ints) -> None:
        """Seed the generators of the environments with these numbers; None keeps those that exist."""
        if seed is None:
            seeds: list[int | None] = [None] * self.num_envs
        elif isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            seeds = [int(seed) + number for number in range(self.num_envs)]
        elif isinstance(seed, (list, tuple)) and len(seed) == self.num_envs:
            seeds = list(seed)
        else:
            raise ConfigError(
                f"seed must be None, an integer, or a list with one entry per environment ({self.num_envs}), got {short_repr(seed)}"
            )
        for number in which.tolist():
            if self._rngs[number] is None or seeds[number] is not None:
                self._rngs[number], used = seeding.np_random(seeds[number])
                if number == 0:
                    self._np_random, self._np_random_seed = self._rngs[0], used

    def _sampled(self, which: Ints) -> list[Task]:
        """Sample the next task of each of these environments, from its own generator as a single environment does."""
        return [self._single.tasks.sample(rng) for number in which.tolist() if (rng := self._rngs[number]) is not None]

    def _chosen(self, which: Ints, options: Mapping[str, Any]) -> list[Task]:
        """Return the tasks that the options of ``reset`` name for these environments, else sampled ones."""
        for name in options:
            if name not in (*RESET_OPTIONS, *VECTOR_OPTIONS):
                raise unknown_name_error("option of reset", str(name), (*RESET_OPTIONS, *VECTOR_OPTIONS))
        tasks, ids = self._single.tasks, options.get("task_ids")
        named = {name: options[name] for name in RESET_OPTIONS if name in options}
        if ids is None:
            task_id, payload = read_reset_options(named)
            if payload is not None:
                task = tasks.from_content(payload)
                if task_id is not None and task.task_id != task_id:
                    raise DataError(
                        f"options['task'] is the payload of task {task.task_id!r}, not of {short_repr(task_id, 80)}; "
                        "give one of the two, or both of the same task"
                    )
                return [task] * len(which)
            return self._sampled(which) if task_id is None else [tasks.get(task_id)] * len(which)
        if any(value is not None for value in named.values()):
            raise ConfigError("options: task_ids has a task for every environment; leave task_id and task out")
        if isinstance(ids, str) or not isinstance(ids, Sequence) or len(ids) != self.num_envs:
            raise ConfigError(
                f"options['task_ids'] must be a list of {self.num_envs} ids, one per environment, got {short_repr(ids)}"
            )
        return [tasks.get(read_reset_options({"task_id": ids[number]}).task_id or "") for number in which.tolist()]

    def _begin(self, which: Ints, tasks: Sequence[Task]) -> None:
        """Start these tasks in the environments with these numbers."""
        levels = [cached_level(task.content["xsb"]) for task in tasks]
        rows, columns = self._boards.shape
        for level in levels:
            if level.height > rows or level.width > columns:
                raise ConfigError(
                    f"a level of {level.height} x {level.width} cells does not fit into boards of {rows} x {columns};"
                    " make the environment with a larger grid_shape"
                )
        self._boards.place(which, [level_start(level) for level in levels])
        now = self._now.copied(without=set(which.tolist()))
        now.elapsed[which], now.solved[which], now.over[which] = 0, False, False
        now.events[which], now.valid[which] = NOTHING, True
        for number, task in zip(which.tolist(), tasks, strict=True):
            self._waiting -= self._tasks[number] is None
            self._tasks[number], now.task_ids[number] = task, task.task_id
        self._now = now

    # -- actions, observations and infos ------------------------------------------------------------------------------
    def _require_running(self) -> None:
        """Raise ``EpisodeError`` if an environment cannot take a step."""
        if self._waiting:
            raise EpisodeError(
                f"{self._waiting} of {self.num_envs} environments have no episode yet: call reset() before step()"
            )
        if self.autoreset_mode == AutoresetMode.DISABLED and self._now.over.any():
            raise EpisodeError(
                f"the episodes of environments {short_repr(np.flatnonzero(self._now.over).tolist())} have ended: without autoreset, "
                "call reset(options={'reset_mask': terminations | truncations}) before step()"
            )

    def _read(self, actions: Any) -> tuple[Ints, dict[int, str]]:
        """Return the numbers of the actions, int64 (N,), -1 if invalid, and the reasons of the invalid ones.

        Raises:
            ConfigError: not one action per environment, or not integers (strings with ``action_mode="text"``).
        """
        if self._as_text:
            ordered = isinstance(actions, (list, tuple)) or (isinstance(actions, np.ndarray) and actions.ndim == 1)
            if not ordered or len(actions) != self.num_envs:
                raise ConfigError(
                    f"actions must be a list or tuple of {self.num_envs} strings, one per environment, got {short_repr(actions)}"
                )
            parsed = [self._parse(action) for action in actions]
            reasons = {index: reason for index, (number, reason) in enumerate(parsed) if number is None}
            return np.array([-1 if number is None else number for number, _ in parsed]), reasons
        try:
            array = np.asarray(actions)
        except ValueError:  # a ragged list
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "iu" or array.shape != (self.num_envs,):
            raise ConfigError(
                f"actions must be {self.num_envs} integers, one per environment: an integer array of shape "
                f"({self.num_envs},), got {array.dtype} {array.shape}"
            )
        valid = (array >= 0) & (array < len(self._texts))
        reasons = {} if valid.all() else {
            number: self._parse(array[number])[1] for number in np.flatnonzero(~valid).tolist()
        }  # fmt: skip
        return np.where(valid, array, 0).astype(np.int64) - ~valid, reasons

    def _observe(self) -> Any:
        """Return the observations of all boards: uint8 arrays, or a tuple of texts; with "dict" a dictionary of these."""
        observed = {key: self._observed(key) for key in self._keys}
        return observed if self._nested else observed[self._keys[0]]

    def _observed(self, key: str) -> Any:
        codes = self._boards.codes
        if key == "text":
            return tuple([self._single.text_view.draw(board) for board in self._boards.texts(np.arange(self.num_envs))])
        if key == "rgb":
            return self._single.painter.paint(codes)
        return planes(codes) if key == "planes" else codes.copy()

    def _infos(self, which: Ints) -> LazyInfos:
        return LazyInfos(self._now, copy(self._boards), self._texts, which)

    # -- on demand ----------------------------------------------------------------------------------------------------
    @property
    def tasks(self) -> tuple[Task, ...]:
        """The present tasks.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._waiting:
            raise EpisodeError("there is no task yet: call reset() first")
        return tuple(task for task in self._tasks if task is not None)

    @property
    def task_ids(self) -> tuple[str, ...]:
        """All ids of the task source, in order; () for a generator."""
        return self._single.tasks.task_ids()

    @property
    def oracle(self) -> SokobanOracle:
        """Exact distances, values and optimal actions of the snapshots of ``get_state``."""
        return self._single.oracle

    def get_state(self, number: int) -> str:
        """Return a snapshot of one episode, from which a ``SokobanEnv`` continues.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        task = self._tasks[number]
        if task is None:
            raise EpisodeError("there is no state yet: call reset() first")
        level, (row, column) = cached_level(task.content["xsb"]), self._boards.position(number)
        [board] = self._boards.texts(np.array([number]))
        player = to_position(row * level.width + column, level.width)
        return write_snapshot(level, board, player, int(self._now.elapsed[number]))


@dataclass(frozen=True, slots=True)
class Moment:
    """All episodes after a step or a reset; infos keep it, so its arrays are not changed once it is shown.

    Attributes:
        task_ids: object (N,), ids as strings.
        elapsed: int64 (N,): steps of the episode.
        solved: bool (N,).
        over: bool (N,): whether the episode is over.
        events: uint8 (N,): what the last action did (see ``boards.py``).
        valid: bool (N,): whether it was valid.
        reasons: why it was not, by number of the environment.
    """

    task_ids: npt.NDArray[np.object_]
    elapsed: Ints
    solved: Mask
    over: Mask
    events: npt.NDArray[np.uint8]
    valid: Mask
    reasons: Mapping[int, str]

    def copied(self, without: set[int]) -> Moment:
        """Return a copy without the reasons of the environments with these numbers."""
        reasons = {number: reason for number, reason in self.reasons.items() if number not in without}
        return Moment(self.task_ids.copy(), self.elapsed.copy(), self.solved.copy(), self.over.copy(), self.events.copy(),
                      self.valid.copy(), reasons)  # fmt: skip


class LazyInfos(dict[str, Any]):
    """Infos in the form of Gymnasium's vector environments: a value is computed when its key is read, all when anything else is asked.

    Each key has an array with one value per environment, and ``_key`` an array of flags: which environments have it. An
    environment that does not has the zero of the dtype, or None.

    Args:
        moment: the episodes that the infos tell of.
        boards: their boards.
        texts: texts of the actions.
        which: numbers of the environments that have infos, ascending.
    """

    def __init__(self, moment: Moment, boards: Boards, texts: tuple[str, ...], which: Ints) -> None:
        super().__init__()
        self._moment, self._boards, self._texts, self._which = moment, boards, texts, which
        self._left: Mapping[str, None] = _ALL_KEYS

    def __missing__(self, key: str) -> Any:
        if key not in self._left:
            raise KeyError(key)
        num_envs, which = self._boards.num_envs, self._which
        if key[0] == "_":
            value: Any = np.zeros(num_envs, dtype=np.bool_)
            value[which] = True
        else:
            values = self._values(key)
            value = np.full(num_envs, None) if values.dtype == object else np.zeros(num_envs, values.dtype)
            value[which] = values
        self[key] = value
        return value

    def _values(self, key: str) -> npt.NDArray[Any]:
        """Return the info ``key`` of the environments that have infos."""
        moment, which = self._moment, self._which
        if key in ("state_key", "text_key"):
            return _objects([state_key(board) for board in self._boards.texts(which)])
        if key == "admissible_actions":
            return _objects([() if over else self._texts for over in moment.over[which].tolist()])
        if key == "invalid_reason":
            return _objects([moment.reasons.get(number, "") for number in which.tolist()])
        if key == "score":
            return moment.solved[which].astype(np.float64)
        if key in ("action_effective", "player_moved", "moved_box"):
            happened: Mask = (moment.events[which] & (PUSHED if key == "moved_box" else MOVED)) != 0
            return happened
        arrays: dict[str, npt.NDArray[Any]] = {
            "task_id": moment.task_ids, "success": moment.solved, "elapsed_steps": moment.elapsed,
            "boxes_on_target": self._boards.on_target, "boxes": self._boards.boxes,
        }  # fmt: skip
        return arrays.get(key, moment.valid)[which]

    def complete(self) -> dict[str, Any]:
        """Compute what is left; return this dictionary, which is then like any other."""
        for key in self._left:
            if not dict.__contains__(self, key):
                self.__missing__(key)
        self._left = {}
        return self

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if it has none."""
        return self[key] if key in self else default  # noqa: SIM401 (this is what ``get`` is)

    def __contains__(self, key: object) -> bool:
        return key in self._left or dict.__contains__(self, key)

    def __reduce__(self) -> Any:
        return dict, (dict(self.complete()),)


def _of_complete(name: str) -> Callable[..., Any]:
    """Return the method of a dictionary, which first computes what is left."""

    def method(self: LazyInfos, *args: Any) -> Any:
        plain = [arg.complete() if isinstance(arg, LazyInfos) else arg for arg in args]
        return getattr(dict, name)(self.complete(), *plain)

    return method


for _name in (
    "__delitem__", "__eq__", "__iter__", "__len__", "__ne__", "__or__", "__repr__", "__reversed__", "__ror__", "clear", "copy",
    "items", "keys", "pop", "popitem", "setdefault", "values",
):  # fmt: skip
    setattr(LazyInfos, _name, _of_complete(_name))


def _objects(values: Iterable[Any]) -> npt.NDArray[np.object_]:
    """Return an object array of values, tuples as they are."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    for index, value in enumerate(listed):
        array[index] = value
    return array


def _reset_mode(mode: Any) -> AutoresetMode:
    """Return the mode, given as itself, by its value ("NextStep") or by its name ("NEXT_STEP")."""
    if isinstance(mode, AutoresetMode):
        return mode
    for option in AutoresetMode:
        if mode in (option.value, option.name):
            return option
    raise unknown_name_error("autoreset_mode", mode, [option.value for option in AutoresetMode])


def _selected(options: Mapping[str, Any], num_envs: int) -> Ints:
    """Return the numbers of the environments selected by ``options["reset_mask"]``, or all numbers if there is no mask."""
    mask = options.get("reset_mask")
    if mask is None:
        return np.arange(num_envs)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        actual = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else short_repr(mask)
        raise ConfigError(f"options['reset_mask'] must be a NumPy array of bool with shape ({num_envs},), got {actual}")
    if not mask.any():
        raise ConfigError("options['reset_mask'] has no True: there is nothing to reset")
    return np.flatnonzero(mask)
