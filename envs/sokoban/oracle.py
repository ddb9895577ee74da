"""The exact oracle: fewest moves from every state of a level, dead states, optimal actions.

Tables (see ``state_space.py``) are cached per level, in a cache of bounded size that all environments of a process share.
Moves are the environment's own: walking a cell, pushing a box and bumping into a wall count one each.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

from creditflow.envs.errors import ConfigError, OracleLimitError, short_repr
from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.rules import direction_offsets, move, solved
from creditflow.envs.sokoban.snapshot import Snapshot, box_positions, read_snapshot
from creditflow.envs.sokoban.state_space import StateTable, reached_states, solution_table

__all__ = ["LevelOracle", "SokobanOracle", "dead_state_fraction", "level_oracle"]

DIRECTIONS: Final = ("up", "down", "left", "right")
CACHE_BYTES: Final = 512 * 2**20
MAX_TURNS: Final = 20_000  # optimal turns of several moves that are listed


class LevelOracle:
    """Distances of all states of one room, given by positions in boards.

    Args:
        level: any level of the room, whatever the positions of its boxes and player.
        memory_mb: memory limit of the table in MiB.

    Raises:
        OracleLimitError: the table would exceed the limit.
    """

    def __init__(self, level: Level, memory_mb: int = 256) -> None:
        self.offsets = direction_offsets(level.width)
        self.room = level.room
        inside = [position for position in level.targets if position in level.room]
        boxes = [position for position in level.boxes if position in level.room]
        # Boxes outside the room never move: either they are on all targets there, or the level is unsolvable.
        outside = set(level.targets) - level.room == set(level.boxes) - level.room
        self.table: StateTable | None = None
        if outside and len(inside) == len(boxes):
            self.table = solution_table(sorted(level.room), self.offsets, inside, memory_mb * 2**20)

    @property
    def nbytes(self) -> int:
        """Memory of the tables in bytes."""
        return 0 if self.table is None else self.table.layers.nbytes + self.table.subsets.nbytes

    def moves_left(self, player: int, boxes: Sequence[int]) -> int:
        """Return the fewest moves to the goal; 0 if solved, -1 if dead."""
        if self.table is None:
            return -1
        if len(boxes) != self.table.k:
            boxes = [position for position in boxes if position in self.room]
        return self.table.layer(player, boxes)

    def board_moves_left(self, board: bytes, player: int) -> int:
        """Return ``moves_left`` of a board."""
        return 0 if solved(board) else self.moves_left(player, box_positions(board))

    def optimal_directions(self, board: bytes, player: int) -> list[tuple[int, bool]]:
        """Return (direction index, whether it pushes) of all moves that begin a shortest solution."""
        moves_left = self.board_moves_left(board, player)
        if moves_left <= 0:
            return []
        best = []
        for index, offset in enumerate(self.offsets):
            after, square, moved, pushed, _ = move(board, player, offset)
            if moved and self.board_moves_left(after, square) == moves_left - 1:
                best.append((index, pushed))
        return best


class _Cache:
    """A cache of oracles with a limit in bytes; the least recently used ones are dropped, the newest is kept."""

    def __init__(self, limit: int) -> None:
        self.limit, self.nbytes = limit, 0
        self._entries: OrderedDict[tuple[bytes, int], LevelOracle] = OrderedDict()
        self._lock = Lock()

    def get(self, level: Level, memory_mb: int) -> LevelOracle:
        key = (level.board, level.player)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                if entry.table is not None:
                    entry.table.check_memory(
                        memory_mb * 2**20
                    )  # by this call's limit, not that of the call that built it
                return entry
            oracle = LevelOracle(level, memory_mb)
            self._entries[key] = oracle
            self.nbytes += oracle.nbytes + 1024
            while self.nbytes > self.limit and len(self._entries) > 1:
                _, dropped = self._entries.popitem(last=False)
                self.nbytes -= dropped.nbytes + 1024
            return oracle


_CACHE: Final = _Cache(CACHE_BYTES)


def level_oracle(level: Level, memory_mb: int = 256) -> LevelOracle:
    """Return the level's oracle from the shared cache.

    Raises:
        OracleLimitError: the table would exceed ``memory_mb``.
    """
    return _CACHE.get(level, memory_mb)


def dead_state_fraction(level: Level, memory_mb: int = 256) -> float:
    """Return the fraction of dead states among the reachable unsolved states, in [0, 1].

    Raises:
        OracleLimitError: the tables would exceed ``memory_mb``.
    """
    if level_oracle(level, memory_mb).table is None:
        return 1.0
    targets = [position for position in level.targets if position in level.room]
    boxes = [position for position in level.boxes if position in level.room]
    offsets = direction_offsets(level.width)
    reached, dead = reached_states(sorted(level.room), offsets, targets, level.player, boxes, memory_mb * 2**20)
    return dead / reached


class SokobanOracle:
    """The exact oracle over snapshots of ``SokobanEnv``.

    A turn may have several moves; distances count turns. As every shortest way of d moves can be cut anywhere, it takes
    ⌈d / m⌉ turns of at most m moves.

    Args:
        actions: texts of the moves by (direction, kind), where kind is "push", "move", or "none" with direction −1.
        memory_mb: memory limit of one level's table in MiB.
        moves_per_turn: m.
        max_moves: limit of the moves of an episode, which ``value`` knows if it is asked for a number of turns; 0 for none.
    """

    exact = True

    def __init__(
        self, actions: Mapping[tuple[int, str], str], memory_mb: int = 256, moves_per_turn: int = 1, max_moves: int = 0
    ) -> None:
        if not isinstance(memory_mb, int) or isinstance(memory_mb, bool) or memory_mb < 1:
            raise ConfigError(f"oracle_memory_mb must be a positive integer, got {short_repr(memory_mb)}")
        self.memory_mb = memory_mb
        self._actions = dict(actions)
        self._per_turn, self._max_moves = moves_per_turn, max_moves

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """Return 1.0 if the state can be solved (within ``steps_left`` turns, if given), else 0.0."""
        snapshot = read_snapshot(state)
        needed = self._moves_left(snapshot)
        if needed < 0 or steps_left is None:
            return float(needed >= 0)
        within_limit = not self._max_moves or snapshot.moves + needed <= self._max_moves
        return float(within_limit and needed <= steps_left * self._per_turn)

    def distance(self, state: str) -> float:
        """Return the fewest turns to the goal; inf if dead."""
        moves = self._moves_left(read_snapshot(state))
        return float(-(-moves // self._per_turn)) if moves >= 0 else math.inf

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Return the sorted texts of all actions that begin a shortest solution; () if dead or solved.

        With several moves per turn these are all turns, every move of which is executed, after which one turn less is needed:
        where the last turn has moves to spare, detours and bumps are among them.

        Raises:
            OracleLimitError: more than ``MAX_TURNS`` such turns.
        """
        snapshot = read_snapshot(state)
        if self._per_turn > 1:
            return tuple(sorted(self._optimal_turns(snapshot)))
        names = []
        for direction, pushes in self._oracle(snapshot).optimal_directions(snapshot.board, snapshot.player):
            kinds = ("push",) if pushes else ("push", "move")
            names += [self._actions[direction, kind] for kind in kinds if (direction, kind) in self._actions]
        return tuple(sorted(names))

    def _optimal_turns(self, snapshot: Snapshot) -> list[str]:
        """Return all turns, every move of which is executed, that lower the number of turns needed."""
        oracle = self._oracle(snapshot)
        moves_left = oracle.board_moves_left(snapshot.board, snapshot.player)
        if moves_left <= 0:
            return []
        afterwards = (-(-moves_left // self._per_turn) - 1) * self._per_turn  # moves that the later turns have
        turns: list[str] = []
        stack = [(snapshot.board, snapshot.player, "", 0)]
        while stack:
            board, player, text, moves = stack.pop()
            moves_left = oracle.board_moves_left(board, player)
            if moves_left < 0 or moves_left > afterwards + self._per_turn - moves:
                continue
            if moves and moves_left <= afterwards:
                turns.append(text[1:])
                if len(turns) > MAX_TURNS:
                    raise OracleLimitError(
                        f"Sokoban: more than {MAX_TURNS:,} turns of up to {self._per_turn} moves are optimal here; lower "
                        "moves_per_turn, or use distance(), value() and solution(), which have no such limit"
                    )
            if moves_left and moves < self._per_turn:
                for (direction, kind), name in self._actions.items():
                    after, square = board, player
                    if kind != "none":
                        after, square, *_ = move(board, player, oracle.offsets[direction], kind == "push")
                    stack.append((after, square, f"{text} {name}", moves + 1))
        return turns

    def solution(self, state: str) -> tuple[str, ...]:
        """Return one shortest solution, by turns; () if dead or solved."""
        snapshot = read_snapshot(state)
        board, player = snapshot.board, snapshot.player
        oracle, texts = self._oracle(snapshot), []
        while best := oracle.optimal_directions(board, player):
            texts.append(self._actions[best[0][0], "push"])
            board, player, *_ = move(board, player, oracle.offsets[best[0][0]])
        size = self._per_turn
        return tuple(" ".join(texts[start : start + size]) for start in range(0, len(texts), size))

    def _oracle(self, snapshot: Snapshot) -> LevelOracle:
        return level_oracle(snapshot.level, self.memory_mb)

    def _moves_left(self, snapshot: Snapshot) -> int:
        return self._oracle(snapshot).board_moves_left(snapshot.board, snapshot.player)
