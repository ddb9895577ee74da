"""The vector environment of Sokoban: the boards of all episodes in one array, moved at once.

Infos are computed when they are read, because task ids, state keys and texts of a thousand boards cost more than their moves.
An info is therefore a dictionary that knows its keys, and computes a value from the boards of its own step when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.observations.views import OBS_KEYS
from creditflow.envs.sokoban.oracle import SokobanOracle
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rewards import reward_preset
from creditflow.envs.sokoban.rules import (
    BOX,
    BOX_ON_TARGET,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    state_key,
    to_position,
)
from creditflow.envs.sokoban.snapshot import cached_level, write_snapshot
from creditflow.envs.sokoban.turns import MoveTurns
from creditflow.envs.sokoban.vector.boards import MOVED, PUSHED, Boards, Change, board_texts, level_start
from creditflow.envs.sokoban.vector.players import (
    TURN_KEYS,
    Actions,
    Moves,
    OneMove,
    Played,
    Player,
    SeveralMoves,
    check_supported,
    checked_count,
    checked_mask,
    reset_mode,
)
from creditflow.envs.tasks import Task, TaskSource

__all__ = ["INFO_KEYS", "VECTOR_OPTIONS", "BatchView", "Frames", "Snapshot", "SokobanVectorEnv", "Starts", "planes"]

VECTOR_OPTIONS: Final = ("reset_mask", "task_ids")
Ints = npt.NDArray[np.int64]


class Starts:
    """Chooses tasks. Each environment has its own random generator, as a single environment has.

    The members of a group have equal generators, so the n-th episode of each begins in the same state, whatever the
    lengths of the episodes before.

    Args:
        tasks: source of tasks.
        num_envs: number of environments.
        group_size: consecutive environments that begin alike.

    Attributes:
        rngs: the generators, one per environment; made by the first ``seed``.
        first_seed: the seed of environment 0.
    """

    def __init__(self, tasks: TaskSource, num_envs: int, group_size: int) -> None:
        self.tasks, self.num_envs, self.group_size = tasks, num_envs, group_size
        self.rngs: list[np.random.Generator] = []
        self.first_seed = 0

    def seed(self, seed: int | Sequence[int | None] | None, which: Ints) -> None:
        """Seed generators: group g with ``seed + g``, or with its entry of a list; None keeps those that exist.

        Args:
            seed: one seed, or a list with one entry per group.
            which: numbers of the environments that are reset.

        Raises:
            ConfigError: a list of another length, or something else.
        """
        groups = self.num_envs // self.group_size
        if seed is None:
            seeds: list[int | None] = [None] * groups
        elif isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            seeds = [int(seed) + group for group in range(groups)]
        elif isinstance(seed, (list, tuple)) and len(seed) == groups:
            seeds = list(seed)
        else:
            kind = "environment" if self.group_size == 1 else f"group of {self.group_size} environments"
            raise ConfigError(
                f"seed must be None, an integer, or a list with one entry per {kind} ({groups}), got {short_repr(seed)}"
            )
        if not self.rngs:
            generators = [seeding.np_random(seeds[number // self.group_size]) for number in range(self.num_envs)]
            self.rngs, self.first_seed = [rng for rng, _ in generators], generators[0][1]
            self._join(np.arange(self.num_envs))
            return
        for number in which.tolist():
            env_seed = seeds[number // self.group_size]
            if env_seed is not None:
                self.rngs[number], used = seeding.np_random(env_seed)
                self.first_seed = self.first_seed if number else used

    def _join(self, which: Ints) -> None:
        """Let the members of a group continue as the first of them that is reset."""
        if self.group_size == 1:
            return
        first: dict[int, int] = {}
        for number in which.tolist():
            leader = first.setdefault(number // self.group_size, number)
            self.rngs[number].bit_generator.state = self.rngs[leader].bit_generator.state

    def sample(self, which: Ints) -> list[Task]:
        """Sample the next task of each of these environments."""
        return [self.tasks.sample(self.rngs[number]) for number in which.tolist()]

    def choose(self, which: Ints, options: Mapping[str, Any]) -> list[Task]:
        """Return the tasks that the options of ``reset`` name, else sampled ones, equal within a group.

        Args:
            which: numbers of the environments that are reset.
            options: ``task_id`` or ``task`` for all, or ``task_ids``, one for each of the N environments.

        Raises:
            UnknownTaskError: the source does not have an id.
            ConfigError: an unknown option, or a value of the wrong type.
            DataError: a malformed payload, or one of another task than the id's.
        """
        options = dict(options)
        for name in options:
            if name not in (*RESET_OPTIONS, *VECTOR_OPTIONS):
                raise unknown_name_error("option of reset", str(name), (*RESET_OPTIONS, *VECTOR_OPTIONS))
        options.pop("reset_mask", None)
        self._join(which)
        ids = options.pop("task_ids", None)
        if ids is not None:
            if options.get("task_id") is not None or options.get("task") is not None:
                raise ConfigError("options: task_ids has a task for every environment; leave task_id and task out")
            if isinstance(ids, str) or not isinstance(ids, Sequence) or len(ids) != self.num_envs:
                raise ConfigError(
                    f"options['task_ids'] must be a list of {self.num_envs} ids, one per environment, got {short_repr(ids)}"
                )
            return [self.tasks.get(read_reset_options({"task_id": ids[number]}).task_id or "") for number in which]
        task_id, payload = read_reset_options(options)
        if payload is not None:
            task = self.tasks.from_content(payload)
            if task_id is not None and task.task_id != task_id:
                raise DataError(
                    f"options['task'] is the payload of task {task.task_id!r}, not of {short_repr(task_id, 80)}; "
                    "give one of the two, or both of the same task"
                )
            return [task] * len(which)
        if task_id is not None:
            return [self.tasks.get(task_id)] * len(which)
        return self.sample(which)


Codes = npt.NDArray[np.uint8]
_PLANES: Final = ((WALL,), (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET), (BOX, BOX_ON_TARGET), (PLAYER, PLAYER_ON_TARGET))
_IN_PLANE: Final = np.array([[code in members for code in range(8)] for members in _PLANES], dtype=np.uint8)


def planes(codes: Codes) -> Codes:
    """Return uint8 (n, 4, rows, columns) of 0 and 1 (walls, targets, boxes, player) from codes (n, rows, columns)."""
    channels = np.empty((len(codes), 4, *codes.shape[1:]), dtype=np.uint8)
    for number, table in enumerate(_IN_PLANE):
        channels[:, number] = table.take(codes)
    return channels


class Frames:
    """Images of N boards that are updated at every step, which redraws at most three tiles per board.

    Args:
        painter: draws the seven tiles, the same as for a single environment.
        num_envs: number of boards, N.
        shape: rows and columns of a board.

    Attributes:
        pixels: uint8 (N, rows * tile_size, columns * tile_size, 3), a view of the images, which are changed in place.
    """

    def __init__(self, painter: Painter, num_envs: int, shape: tuple[int, int]) -> None:
        size, (rows, columns) = painter.tile_size, shape
        line = np.dtype(f"V{3 * size}")  # one line of a tile's pixels is one item
        strip = painter.paint(np.arange(7, dtype=np.uint8)[None])
        tiles = np.ascontiguousarray(strip.reshape(size, 7, 3 * size).swapaxes(0, 1))
        self._tiles: npt.NDArray[Any] = tiles.view(line)[:, :, 0]
        self._images: npt.NDArray[Any] = np.zeros((num_envs, rows, size, columns), dtype=line)
        self.pixels: Codes = self._images.view(np.uint8).reshape(num_envs, rows * size, columns * size, 3)

    def draw(self, codes: Codes, which: npt.NDArray[np.int64]) -> None:
        """Draw the boards with these numbers anew, uint8 (len(which), rows, columns)."""
        self._images[which] = self._tiles[codes].transpose(0, 1, 3, 2)

    def redraw(self, boards: Boards, change: Change) -> None:
        """Draw the tiles that a step changed."""
        cells, (rows, columns) = change.cells[change.changed], boards.shape
        board, cell = np.divmod(cells - columns, rows * columns)
        row, column = np.divmod(cell, columns)
        self._images[board, row, :, column] = self._tiles[boards.flat[cells]]


class BatchView:
    """The observations of N boards, in one of the modes of ``observations/views.py``.

    Args:
        obs_mode: the mode.
        keys: its keys if it is "dict".
        env: the single environment with these observations.
        num_envs: number of boards, N.
        copy: whether observations are the caller's own (see ``SokobanVectorEnv``).

    Attributes:
        single: function from a board and its width to the observation of a single environment.
    """

    def __init__(
        self, obs_mode: str, env: SokobanEnv, num_envs: int, *, copy: bool, keys: Sequence[str] | None = None
    ) -> None:
        self._copy = copy
        self._keys = tuple(OBS_KEYS if keys is None else keys) if obs_mode == "dict" else (obs_mode,)
        self._nested = obs_mode == "dict"
        self.single: Callable[[bytes, int], Any] = env.observe_board
        self._draw = env.text_view.draw
        self._frames = Frames(env.painter, num_envs, env.grid_shape) if "rgb" in self._keys else None

    def observe(self, boards: Boards) -> Any:
        """Return the observations of all boards: uint8 arrays, or a tuple of texts; with "dict" a dictionary of these."""
        observed = {key: self._observe(key, boards) for key in self._keys}
        return observed if self._nested else observed[self._keys[0]]

    def _observe(self, key: str, boards: Boards) -> Any:
        if key == "rgb" and self._frames is not None:
            return self._frames.pixels.copy() if self._copy else self._frames.pixels
        if key == "text":
            return tuple(
                [self._draw(board) for board in board_texts(boards.codes, boards.sides, np.arange(boards.num_envs))]
            )
        if key == "planes":
            return planes(boards.codes)
        if self._copy:
            return boards.codes.copy()
        codes = boards.codes
        codes.setflags(write=False)
        return codes

    def moved(self, boards: Boards, change: Change) -> None:
        """Take note of a step."""
        if self._frames is not None:
            self._frames.redraw(boards, change)

    def began(self, boards: Boards, which: npt.NDArray[np.int64]) -> None:
        """Take note of the beginning of episodes on the boards with these numbers."""
        if self._frames is not None:
            self._frames.draw(boards.codes[which], which)

    def require_size(self, levels: Sequence[Level], shape: tuple[int, int]) -> None:
        """Check that these levels, of which one is larger than ``shape``, can be observed.

        Raises:
            ConfigError: observations are arrays, of this shape.
        """
        if self._keys == ("text",):
            return
        rows, columns = shape
        level = next(level for level in levels if level.height > rows or level.width > columns)
        raise ConfigError(
            f"a level of {level.height} x {level.width} cells does not fit into observations of {rows} x {columns};"
            " make the environment with a larger grid_shape"
        )


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
    >>> print(envs.texts([1])[0])
    # # # # # #
    # _ P X O #
    # # # # # #

    Environment i is seeded with ``seed + i`` and then plays what a ``SokobanEnv`` with that seed plays. Infos are those of
    ``SokobanEnv`` in Gymnasium's form (an array per key), computed when they are read (see ``LazyInfos``).

    Args:
        num_envs: number of environments, N.
        autoreset_mode: "NextStep", "SameStep" or "Disabled", or Gymnasium's ``AutoresetMode``. With "Disabled", ended
            episodes must be reset, by ``reset(options={"reset_mask": …})``, before the next step.
        group_size: consecutive environments that begin alike: their n-th episodes have the same task, and seeds count
            groups instead of environments. A reset of all, or of some by a mask, lets the members of a group that it resets
            begin alike again.
        copy: whether observations are the caller's own. Else a grid is a read-only view, and images are one array that
            the next step changes in place.
        **arguments: arguments of ``SokobanEnv``, all but a window (``render_mode="human"``).

    ``reset`` takes seeds as an integer or a list, and the options of ``SokobanEnv.reset``, ``reset_mask`` (bool (N,): the
    environments that are reset) and ``task_ids`` (one per environment). ``np_random`` is that of environment 0.

    Raises:
        ConfigError: an invalid argument.
        LevelError: a malformed level.
    """

    metadata: dict[str, Any] = {**SokobanEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        group_size: int = 1,
        copy: bool = True,
        **arguments: Any,
    ) -> None:
        self.num_envs, self.group_size = checked_count(num_envs, group_size)
        self.autoreset_mode, self.copy = reset_mode(autoreset_mode), bool(copy)
        check_supported(arguments)
        self._single = single = SokobanEnv(**arguments)
        self.metadata = {**single.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode, self.max_steps, self.text_view = single.render_mode, single.max_steps, single.text_view
        self.single_action_space, self.single_observation_space = single.action_space, single.observation_space
        self.action_space = batch_space(single.action_space, num_envs)
        self.observation_space = batch_space(single.observation_space, num_envs)

        vocabulary = make_vocabulary(arguments.get("n_actions", 4))
        mode = arguments.get("action_mode", "text")
        texts, rewards = vocabulary.texts, reward_preset(arguments.get("reward", "sparse"))
        actions = Actions(num_envs, len(texts), make_parser(mode, vocabulary)[1], as_text=mode == "text")
        self._texts, moves = texts, Moves(vocabulary, rewards)
        limit, policy = arguments.get("moves_per_turn", 1), arguments.get("moves_policy", "strict")
        self._player: Player = OneMove(actions, moves, num_envs)
        if arguments.get("max_moves"):
            raise ConfigError(
                "the vector environment has no limit of an episode's moves (max_moves); use single environments"
            )
        if limit > 1:
            turns = MoveTurns(vocabulary, limit, policy, mode)
            self._player = SeveralMoves(turns, actions, moves, texts, num_envs, rewards.rejected)

        self._starts = Starts(single.tasks, num_envs, group_size)
        self._boards = Boards(num_envs, single.grid_shape)
        self._view = BatchView(
            arguments.get("obs_mode", "text"), single, num_envs, copy=self.copy, keys=arguments.get("obs_keys")
        )
        self._tasks: list[Task | None] = [None] * num_envs
        self._task_ids = np.full(num_envs, "", dtype=object)
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._waiting = num_envs  # environments that were never reset

    # -- Gymnasium ----------------------------------------------------------------------------------------------------
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, in all environments or in those of ``options["reset_mask"]``.

        Args:
            seed: environment (group) i is seeded with ``seed + i``, or with its entry of a list.
            options: see the class.

        Returns:
            The observations of all environments, and the infos of those that were reset.

        Raises:
            UnknownTaskError: the task source does not have an id.
            ConfigError: an unknown option, a mask or list of the wrong type or length.
            DataError: a malformed payload, or one of another task than the id's.
        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options must be a mapping, got {type(options).__name__}")
        which = checked_mask(options or {}, self.num_envs)
        self._starts.seed(seed, which)
        self._np_random, self._np_random_seed = self._starts.rngs[0], self._starts.first_seed
        self._begin(which, self._starts.choose(which, options or {}))
        infos = self._infos(which, self._player.nothing(), np.zeros(self.num_envs, dtype=np.bool_))
        return self._view.observe(self._boards), infos

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
        over = np.flatnonzero(
            self._over
        )  # not empty only with NEXT_STEP, which starts these again, whatever their actions did
        played = self._player.play(self._boards, actions, self._view.moved)
        rewards, solved = played.rewards, self._boards.on_target == self._boards.boxes
        self._elapsed = self._elapsed + 1
        truncated = ~solved & (self._elapsed >= self.max_steps)
        self._over = solved | truncated
        if len(over):
            played = played.restarted(over)
            rewards[over] = 0.0
            solved[over] = truncated[over] = False
            self._begin(over, self._starts.sample(over))
        infos = self._step_infos(played, solved)
        return self._view.observe(self._boards), rewards, solved, truncated, infos

    def _step_infos(self, played: Played, solved: Mask) -> dict[str, Any]:
        """Return the infos of a step; with SAME_STEP, first begin the next episodes."""
        everyone = np.arange(self.num_envs)
        if self.autoreset_mode != AutoresetMode.SAME_STEP or not self._over.any():
            return self._infos(everyone, played, solved.copy())
        over, flags = np.flatnonzero(self._over), self._over
        final = np.full(self.num_envs, None, dtype=object)
        for number, board in zip(over.tolist(), self._boards_of(over), strict=True):
            final[number] = self._view.single(board, int(self._boards.sides[1, number]))
        more = {
            "final_obs": final,
            "_final_obs": flags.copy(),
            "final_info": self._infos(over, played, solved.copy()),
            "_final_info": flags.copy(),
        }
        self._begin(over, self._starts.sample(over))
        return self._infos(everyone, played.restarted(over), solved & ~flags, more)

    def _require_running(self) -> None:
        """Check that every environment can take a step.

        Raises:
            EpisodeError: one cannot.
        """
        if self._waiting:
            raise EpisodeError(
                f"{self._waiting} of {self.num_envs} environments have no episode yet: call reset() before step()"
            )
        if self.autoreset_mode == AutoresetMode.DISABLED and self._over.any():
            raise EpisodeError(
                f"the episodes of environments {short_repr(np.flatnonzero(self._over).tolist())} have ended: without autoreset, "
                "call reset(options={'reset_mask': terminations | truncations}) before step()"
            )

    def _begin(self, which: Ints, tasks: Sequence[Task]) -> None:
        """Start these tasks in the environments with these numbers."""
        levels = [cached_level(task.content["xsb"]) for task in tasks]
        rows, columns = max(level.height for level in levels), max(level.width for level in levels)
        if rows > self._boards.shape[0] or columns > self._boards.shape[1]:
            self._view.require_size(levels, self._boards.shape)
            self._boards.grow((rows, columns))
        self._boards.place(which, [level_start(level) for level in levels])
        self._task_ids, self._elapsed, self._over = self._task_ids.copy(), self._elapsed.copy(), self._over.copy()
        self._elapsed[which], self._over[which] = 0, False
        for number, task in zip(which.tolist(), tasks, strict=True):
            self._waiting -= self._tasks[number] is None
            self._tasks[number], self._task_ids[number] = task, task.task_id
        self._view.began(self._boards, which)

    def _infos(self, which: Ints, played: Played, solved: Mask, more: Mapping[str, Any] | None = None) -> LazyInfos:
        boards = self._boards
        snapshot = Snapshot(
            partial(board_texts, boards.codes, boards.sides), self._task_ids, self._texts, self._over, played, solved,
            self._elapsed, boards.on_target, boards.boxes,
        )  # fmt: skip
        return LazyInfos(snapshot, which, self.num_envs, more)

    def _boards_of(self, which: Ints) -> list[bytes]:
        return board_texts(self._boards.codes, self._boards.sides, which)

    # -- on demand ----------------------------------------------------------------------------------------------------
    def texts(self, which: Sequence[int] | Ints | None = None) -> list[str]:
        """Return the boards of these environments (all by default) as texts, for any kind of observation."""
        numbers = np.arange(self.num_envs) if which is None else np.asarray(which, dtype=np.int64)
        return [self.text_view.draw(board) for board in self._boards_of(numbers)]

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
        level = self._level(number)
        columns = self._boards.shape[1]
        cell = int(self._boards.players[number]) - columns - number * self._boards.shape[0] * columns
        row, column = divmod(cell, columns)
        board = self._boards_of(np.array([number]))[0]
        return write_snapshot(
            level, board, to_position(row * level.width + column, level.width), int(self._elapsed[number])
        )

    def _level(self, number: int) -> Level:
        task = self._tasks[number]
        if task is None:
            raise EpisodeError("there is no state yet: call reset() first")
        return cached_level(task.content["xsb"])

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


INFO_KEYS: Final = (
    "task_id", "state_key", "text_key", "admissible_actions", "action_parsed", "action_admissible", "action_valid",
    "action_effective", "invalid_reason", "success", "score", "elapsed_steps",
    "boxes_on_target", "boxes", "player_moved", "moved_box",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the infos of one step or reset tell; its arrays are never changed afterwards.

    Attributes:
        boards: makes the boards of given numbers, as bytes.
        task_ids: object (N,), ids as strings.
        actions: texts of the actions.
        over: bool (N,): whether the episode is over.
        played: the results of the step; of a reset, none.
        solved: bool (N,).
        elapsed: int64 (N,): steps of the episode.
        on_target: int64 (N,): boxes on targets.
        boxes: int64 (N,): boxes.
    """

    boards: Callable[[Ints], list[bytes]]
    task_ids: npt.NDArray[np.object_]
    actions: tuple[str, ...]
    over: Mask
    played: Played
    solved: Mask
    elapsed: Ints
    on_target: Ints
    boxes: Ints

    def value(self, key: str, which: Ints) -> Any:
        """Return a new array of the info ``key`` of the environments with these numbers."""
        if key in ("state_key", "text_key"):
            return _objects([state_key(board) for board in self.boards(which)])
        if key == "admissible_actions":
            return _objects([() if over else self.actions for over in self.over[which].tolist()])
        if key == "invalid_reason":
            return _objects([self.played.reasons.get(number, "") for number in which.tolist()])
        if key in ("action_parsed", "action_admissible", "action_valid"):
            return self.played.valid[which]
        if key in ("action_effective", "player_moved"):
            return (self.played.events[which] & MOVED) != 0
        if key == "moved_box":
            return (self.played.events[which] & PUSHED) != 0
        if key == "score":
            return self.solved[which].astype(np.float64)
        if key in TURN_KEYS and self.played.record is not None:
            values = self.played.record.value(key, which)
            return np.array(values, dtype=np.int64) if key == "ignored_words" else _objects(values)
        arrays = {"task_id": self.task_ids, "success": self.solved, "elapsed_steps": self.elapsed}
        arrays |= {"boxes_on_target": self.on_target, "boxes": self.boxes}
        return arrays[key][which]


class LazyInfos(dict[str, Any]):
    """A dictionary of infos in the form of Gymnasium's vector environments, computed when they are read.

    Each key has an array with one value per environment, and ``_key`` an array of flags: which environments have it. An
    environment that does not has the zero of the dtype, or None.

    Args:
        snapshot: what the infos tell.
        which: numbers of the environments that have infos, ascending.
        num_envs: number of environments.
        more: further entries, not computed.
    """

    def __init__(self, snapshot: Snapshot, which: Ints, num_envs: int, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(more or {})
        self._snapshot, self._which, self._num_envs = snapshot, which, num_envs
        self._left = _ALL_KEYS if snapshot.played.record is None else _ALL_TURN_KEYS

    def __missing__(self, key: str) -> Any:
        if key not in self._left:
            raise KeyError(key)
        if key[0] == "_":
            value = np.zeros(self._num_envs, dtype=np.bool_)
            value[self._which] = True
        else:
            values = self._snapshot.value(key, self._which)
            value = values
            if len(self._which) != self._num_envs:
                value = (
                    np.full(self._num_envs, None) if values.dtype == object else np.zeros(self._num_envs, values.dtype)
                )
                value[self._which] = values
        self[key] = value
        return value

    def _complete(self) -> dict[str, Any]:
        """Compute what is left, and return this dictionary, which is then like any other."""
        for key in self._left:
            if not dict.__contains__(self, key):
                self.__missing__(key)
        self._left = {}
        return self

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self._left

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if it has none."""
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._complete())

    def __reversed__(self) -> Iterator[str]:
        return dict.__reversed__(self._complete())

    def __len__(self) -> int:
        return dict.__len__(self._complete())

    def keys(self) -> Any:
        """Return all keys."""
        return dict.keys(self._complete())

    def values(self) -> Any:
        """Return all values."""
        return dict.values(self._complete())

    def items(self) -> Any:
        """Return all keys with their values."""
        return dict.items(self._complete())

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key, and return its value."""
        return dict.pop(self._complete(), key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key, and return it with its value."""
        return dict.popitem(self._complete())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, set to ``default`` if it had none."""
        return dict.setdefault(self._complete(), key, default)

    def clear(self) -> None:
        """Remove everything."""
        dict.clear(self._complete())

    def copy(self) -> dict[str, Any]:
        """Return a plain dictionary with the same entries."""
        return dict(self.items())

    def __delitem__(self, key: str) -> None:
        dict.__delitem__(self._complete(), key)

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self._complete(), other._complete() if isinstance(other, LazyInfos) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as of every dictionary

    def __or__(self, other: dict[Any, Any], /) -> dict[Any, Any]:
        return {**self, **other}

    def __ror__(self, other: dict[Any, Any], /) -> dict[Any, Any]:
        return {**other, **self}

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (list(self.items()),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy

        return deepcopy(self.copy(), memo)


_ALL_KEYS: Final[Mapping[str, None]] = dict.fromkeys(name for key in INFO_KEYS for name in (key, f"_{key}"))
_ALL_TURN_KEYS: Final = {**_ALL_KEYS, **dict.fromkeys(name for key in TURN_KEYS for name in (key, f"_{key}"))}


def _objects(values: Iterable[Any]) -> npt.NDArray[np.object_]:
    """Return an object array of values, tuples as they are."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    for index, value in enumerate(listed):
        array[index] = value
    return array
