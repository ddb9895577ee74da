"""``creditflow/Sokoban-v0``: Sokoban for language, vision and tabular agents, with exact rules and an exact oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import gymnasium as gym

from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import ConfigError, EpisodeError, short_repr
from creditflow.envs.sokoban.actions import make_parser, make_vocabulary
from creditflow.envs.sokoban.levels.xsb import Level, level_task
from creditflow.envs.sokoban.observations.text import TextView
from creditflow.envs.sokoban.observations.views import checked_shape, make_view
from creditflow.envs.sokoban.oracle import SokobanOracle
from creditflow.envs.sokoban.render import FRAMES_PER_SECOND, RENDER_MODES, Painter, check_render_mode
from creditflow.envs.sokoban.rewards import reward_preset
from creditflow.envs.sokoban.rules import BOX_ON_TARGET, direction_offsets, grid, move, solved, state_key
from creditflow.envs.sokoban.snapshot import cached_level, read_snapshot, write_snapshot
from creditflow.envs.sokoban.tasks import open_tasks
from creditflow.envs.sokoban.turns import MoveTurns
from creditflow.envs.tasks import Task

__all__ = ["SokobanEnv"]

PANEL_STEPS: Final = 30
OTHER_STEPS: Final = 120


class SokobanEnv(AgentEnv[Any, Any, Any]):
    r"""Push every box onto a target.

    >>> env = SokobanEnv(level="######\n#@ $.#\n######")
    >>> print(env.reset()[0])
    # # # # # #
    # P _ X O #
    # # # # # #
    >>> env.oracle.solution(env.get_state())
    ('right', 'right')
    >>> text, reward, terminated, truncated, info = env.step("right")
    >>> reward, info["action_effective"], env.oracle.distance(env.get_state())
    (0.0, True, 1.0)

    All arguments are JSON values, so ``env.spec`` round-trips.

    Args:
        panel: "<panel>:<split>" of the embedded panels, the default source ("standard-v1:train"); or generated levels by their
            seeds, such as "ragen/6x6/1/1-30000:123-634" (see ``levels/named.py``).
        levels: instead, the path of a level file (XSB or Boxoban) or of a folder of them.
        level: instead, the XSB text of one level.
        generator: instead, options of ``GeneratorOptions``: endless levels of exactly known difficulty; with
            {"distribution": "gym_sokoban"} or "ragen" those of gym-sokoban's distribution, or of RAGEN's fork of it.
        obs_mode: "text", "grid", "planes", "rgb", or "dict" of several of these (see ``observations/views.py``).
        obs_keys: which of them with "dict", for example ["text", "rgb"]; default: all.
        action_mode: "text" or "discrete".
        n_actions: 4 (up, down, left, right) or gym-sokoban's 9 (see ``actions.py``).
        moves_per_turn: maximum number m of moves of one action, such as "right right up" (see ``turns.py``). A step is a turn:
            ``max_steps``, the oracle's distances and its ``steps_left`` count turns.
        moves_policy: with m > 1, what becomes of surplus moves and of words that are no move: "strict" or "prefix".
        max_moves: with m > 1, limit of the moves of an episode, which ends when they are made; 0 for none. Of a turn, those moves are made
            that are left, and info has ``moves_left``.
        reward: "sparse" (1 when solved), "ten" (10 when solved), "gym_sokoban", or "ragen", which differs from it only in that a
            rejected action costs nothing.
        max_steps: step limit of an episode. Default: 30 for panels, all of whose levels have solutions of at most 20
            moves; 120, gym-sokoban's limit, for any other source.
        symbols: "unicode" (``#_OX√PS``), "ascii" (``#_OX*PS``) or "xsb" (``#-.$*@+``), in the order wall, floor, target,
            box, box on target, player, player on target.
        separator: character between two cells in the text, or "".
        text_format: "grid" of symbols, "coordinates" (lists of cells) or "grid_coordinates" (both).
        grid_shape: rows and columns of array observations; default: large enough for every level of the source.
        tile_size: pixels per cell and axis, in "rgb" observations and rendered frames; 28 is one token of Qwen2.5-VL, 32 one
            of Qwen3-VL.
        render_mode: "rgb_array" or "ansi".
        oracle_memory_mb: memory limit of the oracle's table in MiB.

    Info has, besides the common keys, ``boxes_on_target: int``, ``boxes: int``, ``player_moved: bool`` and
    ``moved_box: bool`` (of the last step). All actions are admissible until the episode ends; a bump is admissible and
    not effective. With m > 1 also, of the last turn, ``moves``, ``move_rewards`` and ``move_state_keys``, tuples with one entry
    per executed move, and ``ignored_words: int``. ``score`` is 1.0 when solved, else 0.0. ``text_key`` equals ``state_key``, as the text of a
    board shows the whole state.

    Raises:
        ConfigError: an invalid argument; frames of more than ``render.MAX_FRAME_PIXELS``.
        LevelError: a malformed level.
    """

    env_name: ClassVar[str] = "sokoban"
    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_SECOND}

    def __init__(
        self,
        *,
        panel: str | None = None,
        levels: str | None = None,
        level: str | None = None,
        generator: Mapping[str, Any] | None = None,
        obs_mode: str = "text",
        obs_keys: Sequence[str] | None = None,
        action_mode: str = "text",
        n_actions: int = 4,
        moves_per_turn: int = 1,
        moves_policy: str = "strict",
        max_moves: int = 0,
        reward: str = "sparse",
        max_steps: int | None = None,
        symbols: str = "unicode",
        separator: str = " ",
        text_format: str = "grid",
        grid_shape: Sequence[int] | None = None,
        tile_size: int = 28,
        render_mode: str | None = None,
        oracle_memory_mb: int = 256,
    ) -> None:
        check_render_mode(render_mode)
        tasks, shape = open_tasks(panel=panel, levels=levels, level=level, generator=generator)
        if max_steps is None:
            max_steps = PANEL_STEPS if (levels, level, generator) == (None, None, None) else OTHER_STEPS
        super().__init__(tasks=tasks, max_steps=max_steps)
        self.render_mode = render_mode
        self.text_view = TextView(symbols, separator, text_format)
        self.grid_shape = shape if grid_shape is None else checked_shape(grid_shape)
        self.painter = painter = Painter(tile_size)
        if render_mode == "rgb_array":
            painter.shape(*self.grid_shape)
        self._vocabulary = make_vocabulary(n_actions)
        self._turns = turns = MoveTurns(self._vocabulary, moves_per_turn, moves_policy, action_mode, max_moves)
        self.moves_per_turn = turns.limit
        self._oracle = SokobanOracle(self._vocabulary.named(), oracle_memory_mb, turns.limit, turns.max_moves)
        self._rewards = rewards = reward_preset(reward)
        self._bumped = Outcome(rewards.of(0, False), False, False)
        self._pushed = {gain: Outcome(rewards.of(gain, False), False, True) for gain in (-1, 0, 1)}
        self._solving = Outcome(rewards.of(1, True), True, True)
        self.action_space, self._parser = make_parser(action_mode, self._vocabulary)
        if turns.several:  # an action is then parsed as a tuple of numbers
            self.action_space, self._parser, self.lists_all_actions = turns.space, turns.parse, False
        view = make_view(obs_mode, self.text_view, self.grid_shape, painter, obs_keys)
        self.observation_space, self._view, self.legend, self._array_observations = view
        self._text_actions = action_mode == "text"
        self._level: Level | None = None
        self._width = 0
        self._moves: tuple[tuple[int, bool], ...] = ()
        self._board, self._player, self._on_target, self._boxes = b"", 0, 0, 0
        self._player_moved = self._moved_box = self._solved = False

    # -- AgentEnv -----------------------------------------------------------------------------------------------------
    def _start(self, task: Task) -> None:
        level = cached_level(task.content["xsb"])
        rows, columns = self.grid_shape
        if self._array_observations and (level.height > rows or level.width > columns):
            raise ConfigError(
                f"a level of {level.height} x {level.width} cells does not fit into observations of {rows} x {columns};"
                " make the environment with a larger grid_shape"
            )
        offsets = (*direction_offsets(level.width), 0)  # index -1, no operation: offset 0
        self._level, self._width = level, level.width
        self._turns.made = 0
        self._moves = tuple((offsets[direction], push) for direction, push in self._vocabulary.moves)
        self._place(level.board, level.player)

    def _place(self, board: bytes, player: int) -> None:
        self._turns.clear()
        self._board, self._player = board, player
        self._on_target, self._solved = board.count(BOX_ON_TARGET), solved(board)
        self._boxes = len(self._level.boxes) if self._level else 0
        self._player_moved = self._moved_box = False

    def _parse(self, action: Any) -> tuple[Any, str]:
        self._player_moved = self._moved_box = False
        return self._parser(action)

    def _spell(self, action: Any) -> str:
        moves = action if type(action) is tuple else (action,)
        return " ".join(self._vocabulary.texts[move] for move in moves)

    def _rejection_reason(self, _action: Any) -> str:
        return ""  # every action is admissible, a bump into a wall too

    def _apply(self, action: Any) -> Outcome:
        if type(action) is tuple:
            return self._turns.play(action, self._apply, lambda: state_key(self._board))
        offset, push = self._moves[action]
        if offset:
            self._board, self._player, moved, pushed, gain = move(self._board, self._player, offset, push)
            if pushed:
                self._player_moved = self._moved_box = True
                self._on_target += gain
                if self._on_target == self._boxes:
                    self._solved = True
                    return self._solving
                return self._pushed[gain]
            if moved:
                self._player_moved = True
                return self._pushed[0]
        return self._bumped

    def _invalid_action_reward(self) -> float:
        return self._rewards.rejected

    def _observe(self) -> Any:
        return self._view(self._board, self._width)

    def observe_board(self, board: bytes, width: int) -> Any:
        """Return the observation of any board of this width (see ``rules.py``)."""
        return self._view(board, width)

    def _keys(self) -> tuple[str, str]:
        key = state_key(self._board)
        return key, key

    def _admissible(self) -> tuple[str, ...]:
        return self._vocabulary.texts

    def _progress(self) -> tuple[bool, float]:
        return (True, 1.0) if self._solved else (False, 0.0)

    def _extra_info(self) -> dict[str, Any]:
        info = {
            "boxes_on_target": self._on_target,
            "boxes": self._boxes,
            "player_moved": self._player_moved,
            "moved_box": self._moved_box,
        }
        return {**info, **self._turns.info()} if self._turns.several else info

    def action_from_text(self, text: str) -> Any:
        """Return the text itself, or its number with ``action_mode="discrete"``.

        Raises:
            ConfigError: not an action of this environment.
        """
        if (self._turns.several or self._text_actions) and self._parser(text)[0] is not None:
            return text
        if text not in self._vocabulary.texts:
            raise ConfigError(f"not an action: {short_repr(text)}; expected one of {', '.join(self._vocabulary.texts)}")
        return text if self._text_actions else self._vocabulary.texts.index(text)

    # -- snapshots, oracle, rendering ---------------------------------------------------------------------------------
    def get_state(self) -> str:
        """Return the snapshot of the present state: JSON text with level, board and step count (see ``snapshot.py``).

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._level is None:
            raise EpisodeError("there is no state yet: call reset() first")
        return write_snapshot(self._level, self._board, self._player, self.elapsed_steps, self._turns.made)

    def set_state(self, snapshot: str) -> tuple[Any, dict[str, Any]]:
        """Restore a snapshot of any ``SokobanEnv``; return observation and info as ``reset`` does.

        Raises:
            DataError: not a snapshot, or not a possible state.
            ConfigError: the level does not fit into this environment's array observations.
        """
        level, board, player, steps, moves = read_snapshot(snapshot)
        task = self._task
        if task is None or task.content["xsb"] != level.xsb:
            task = level_task(level)
        self._begin(task, elapsed=steps)
        self._place(board, player)
        self._turns.restore(moves)
        self._over = self._solved or steps >= self.max_steps or self._turns.left == 0
        return self._observe(), self._info(True, True, False, "")

    @property
    def oracle(self) -> SokobanOracle:
        """Exact distances, values and optimal actions of snapshots."""
        return self._oracle

    def render(self) -> Any:
        """Return the board as uint8 (rows * tile_size, columns * tile_size, 3), or as text, by ``render_mode``.

        Raises:
            EpisodeError: before the first ``reset``.
            ConfigError: a level of more than ``MAX_FRAME_PIXELS``.
        """
        if self.render_mode is None:
            gym.logger.warn(
                f"render() returns nothing: make the environment with render_mode={' or '.join(map(repr, RENDER_MODES))}"
            )
            return None
        if self._level is None:
            raise EpisodeError("there is nothing to render yet: call reset() first")
        if self.render_mode == "ansi":
            return self.text_view.draw(self._board)
        return self.painter.paint(grid(self._board, self._width))
