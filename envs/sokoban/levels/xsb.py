"""Sokoban levels: parsing and validating the XSB text format, and task ids by content.

XSB represents a level with ``#`` wall, ``@`` player, ``$`` box, ``.`` target, ``*`` box on a target, ``+`` player on a target
and space (or ``-`` or ``_``) floor. Level files contain many levels, separated by blank lines; Boxoban's have a line ``; <number>`` above each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError, LevelError
from creditflow.envs.files.paths import checked_path
from creditflow.envs.reading.limits import MAX_LEVELS_FILE
from creditflow.envs.reading.streams import read_text
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, EDGE, PLAYER_ON_TARGET, TARGET, WALL, direction_offsets
from creditflow.envs.tasks import Task, content_id

__all__ = ["MAX_SIDE", "TASK_PREFIX", "XSB", "Level", "level_task", "parse_level", "parse_levels", "read_levels"]

TASK_PREFIX: Final = "sokoban1"
XSB: Final = "# .*$@+"  # by cell code
MAX_SIDE: Final = 64
MAX_LEVELS: Final = 100_000
SUFFIXES: Final = (".txt", ".xsb", ".sok")

_CODES: Final = {**{char: code for code, char in enumerate(XSB)}, "-": 1, "_": 1}
_TO_BOARD: Final = str.maketrans({**{char: chr(code) for char, code in _CODES.items()}, "\n": chr(EDGE)})
_METADATA: Final = re.compile(r"[A-Za-z][\w ]*:")
_NUMBER: Final = re.compile(r";\s*([0-9]{1,9})\s*$")
_EXPECTED: Final = "expected only # wall, @ player, $ box, . target, * box on target, + player on target, space floor"


@dataclass(frozen=True)
class Level:
    """A validated level.

    Attributes:
        xsb: rows of equal length, joined by line breaks, without blank outer rows or columns; the content of the task.
        height: number of rows.
        width: number of columns.
        player: position of the player in ``board``.
        name: origin, such as "unfiltered/train/000:17"; not part of the content.
    """

    xsb: str
    height: int
    width: int
    player: int
    name: str = field(default="", compare=False)

    @cached_property
    def board(self) -> bytes:
        """The initial board (see ``rules.py``)."""
        return self.xsb.translate(_TO_BOARD).encode("ascii")

    @cached_property
    def room(self) -> frozenset[int]:
        """Positions that the player could reach without boxes."""
        return frozenset(
            _flood(self.board, self.player, self.width) or ()
        )  # never None: the parser has checked that the room is closed

    @cached_property
    def boxes(self) -> tuple[int, ...]:
        """Positions of the boxes, ascending."""
        return tuple(i for i, code in enumerate(self.board) if code in (BOX, BOX_ON_TARGET))

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """Positions of the targets, ascending."""
        return tuple(i for i, code in enumerate(self.board) if code in (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET))

    @property
    def canonical_xsb(self) -> str:
        """The lexicographically smallest text among the level's eight rotations and reflections."""
        rows = self.xsb.split("\n")
        variants = []
        for _ in range(4):
            rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]  # a quarter turn
            variants += ["\n".join(rows), "\n".join(row[::-1] for row in rows)]
        return min(variants)


def level_task(level: Level) -> Task:
    """Return the level as a task, whose content is ``{"xsb": …}``."""
    return Task(
        task_id=content_id(TASK_PREFIX, {"xsb": level.xsb}),
        canonical_id=content_id(TASK_PREFIX, {"xsb": level.canonical_xsb}),
        content={"xsb": level.xsb},
    )


def parse_level(text: str, *, source: str = "level") -> Level:
    """Parse the one level in an XSB text.

    Args:
        text: rows, possibly of unequal length; comment lines begin with ``;``.
        source: name of the text in error messages.

    Raises:
        LevelError: no level, more than one, or a malformed one.
    """
    if not isinstance(text, str):
        raise LevelError(f"{source}: expected the XSB text of a level, got {type(text).__name__}")
    levels = list(_levels(text, source, limit=2))
    if len(levels) != 1:
        count = "none" if not levels else "more than one"
        raise LevelError(f"{source}: expected one level, found {count}; rows must not be separated by blank lines")
    return levels[0]


def parse_levels(text: str, *, source: str) -> list[Level]:
    """Parse all levels of a file's text, in order; see ``read_levels``.

    Raises:
        LevelError: a malformed level (with its line), none at all, or more than 100,000.
    """
    levels = list(_levels(text, source, limit=MAX_LEVELS + 1))
    if not levels:
        raise LevelError(f"{source}: found no level; {_EXPECTED}")
    if len(levels) > MAX_LEVELS:
        raise LevelError(f"{source}: more than {MAX_LEVELS} levels; split the file")
    return levels


def read_levels(path: str | Path) -> list[Level]:
    """Read the levels of a file, or of all .txt, .xsb and .sok files under a folder in sorted order.

    Levels are named "<file without suffix, relative to the folder>:<number>"; the number is the one in a ``; <number>``
    line above the level, else the level's index in the file, from 0.

    Raises:
        LevelError: unreadable, too large, or malformed; names file, line and what was expected.
        ConfigError: ``path`` is not a path.
    """
    path = checked_path("levels", path)
    if path.is_dir():
        names = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not names:
            raise LevelError(f"{path}: no level file ({', '.join(SUFFIXES)}) in this folder")
    elif path.is_file():
        names = [path]
    else:
        raise LevelError(f"{path}: no such file or folder")
    levels: list[Level] = []
    for name in names:
        try:
            text = read_text(name, MAX_LEVELS_FILE)
        except DataError as error:
            raise LevelError(f"{error}; expected a UTF-8 text file with levels") from error
        stem = (name.relative_to(path) if path.is_dir() else Path(name.name)).with_suffix("").as_posix()
        parsed = parse_levels(text, source=str(name))
        levels += [_renamed(level, stem) for level in parsed]
        if len(levels) > MAX_LEVELS:
            raise LevelError(f"{path}: more than {MAX_LEVELS} levels; name a sub-folder or a file")
    return levels


def _renamed(level: Level, stem: str) -> Level:
    return Level(level.xsb, level.height, level.width, level.player, f"{stem}:{level.name}")


def _levels(text: str, source: str, limit: int) -> Iterator[Level]:
    """Yield the levels of a text, named by number."""
    count, number, first, rows = 0, "", 0, list[str]()
    for line_number, line in enumerate(f"{text}\n\n".split("\n"), start=1):
        stripped = line.strip()
        if stripped and stripped[0] != ";" and not (stripped[0].isalpha() and _METADATA.match(stripped)):
            unknown = next((char for char in line.rstrip() if char not in _CODES), None)
            if unknown is not None:
                raise LevelError(f"{source}, line {line_number}: unknown character {unknown!r}; {_EXPECTED}")
            if len(line) > 16 * MAX_SIDE or len(rows) >= 16 * MAX_SIDE:
                raise LevelError(f"{source}, line {line_number}: a level has at most {MAX_SIDE} rows and columns")
            first = first or line_number
            rows.append(line)
            continue
        if rows:
            yield _checked(rows, number or str(count), f"{source}, line {first}")
            count, number, first, rows = count + 1, "", 0, []
            if count >= limit:
                return
        header = _NUMBER.match(stripped)
        if header:
            number = str(int(header[1]))


def _checked(lines: Sequence[str], name: str, where: str) -> Level:
    """Trim and validate the rows of a level."""
    rows = [line.replace("-", " ").replace("_", " ").rstrip() for line in lines]
    while rows and not rows[0]:
        del rows[0]
    while rows and not rows[-1]:
        del rows[-1]
    indent = min((len(row) - len(row.lstrip()) for row in rows if row), default=0)
    height, width = len(rows), max((len(row) for row in rows), default=0) - indent
    if not 3 <= height <= MAX_SIDE or not 3 <= width <= MAX_SIDE:
        raise LevelError(f"{where}: a level has 3 to {MAX_SIDE} rows and columns, got {height} x {width}")
    if not all(rows):
        raise LevelError(f"{where}: a blank row splits the level in two")
    xsb = "\n".join(row[indent:].ljust(width) for row in rows)
    players = xsb.count("@") + xsb.count("+")
    if players != 1:
        raise LevelError(f"{where}: expected exactly one player (@ or +), found {players}")
    loose, stored, free = xsb.count("$"), xsb.count("*"), xsb.count(".") + xsb.count("+")
    if loose + stored == 0:
        raise LevelError(f"{where}: no box ($ or *)")
    if loose != free:
        raise LevelError(f"{where}: {loose + stored} boxes but {free + stored} targets; expected equally many")
    if loose == 0:
        raise LevelError(f"{where}: already solved: every box is on a target")
    level = Level(xsb, height, width, max(xsb.find("@"), xsb.find("+")), name)
    if _flood(level.board, level.player, width) is None:
        raise LevelError(f"{where}: the player's room is open to the outside; expected walls all around it")
    return level


def _flood(board: bytes, start: int, width: int) -> set[int] | None:
    """Return the positions reachable from ``start`` without boxes; None if the outer edge is among them."""
    offsets = direction_offsets(width)
    seen, stack, last_row = {start}, [start], len(board) - width
    while stack:
        position = stack.pop()
        column = position % (width + 1)
        if position < width or position >= last_row or column == 0 or column == width - 1:
            return None
        for offset in offsets:
            neighbour = position + offset
            if board[neighbour] != WALL and neighbour not in seen:
                seen.add(neighbour)
                stack.append(neighbour)
    return seen
