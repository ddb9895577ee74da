"""Snapshots of an episode: self-contained JSON text, and its strict reader.

``{"format":"alfworld/1","steps":n,"world":[…],"story":[…],"past":[…],"syntax":"…","game":{…}}``: the house comes last, so that the
reader recognises a house that it has compiled before by its text and parses only the few hundred characters before it.
Snapshots may come from anywhere, so everything in them is checked.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, NamedTuple

from creditflow.envs.alfworld.dialect import DIALECTS
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import TASK_PREFIX, validate_content
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading import checked
from creditflow.envs.tasks import Task, content_id

__all__ = ["Snapshot", "compiled", "game_of_task", "read_snapshot", "write_snapshot"]

FORMAT: Final = "alfworld/1"
MAX_CHARACTERS: Final = 8_000_000
_SEAM: Final = ',"game":'
_KEYS: Final = {"format", "steps", "world", "story", "past", "syntax", "game"}


class Snapshot(NamedTuple):
    """A state of an episode.

    Attributes:
        game: the compiled game.
        world: its true facts.
        history: JSON of the episode's ``EpisodeHistory``.
        past: the commands so far, if the backend that wrote the snapshot replays them to restore it; else empty.
        steps: steps taken.
    """

    game: Game
    world: World
    history: Any
    past: tuple[str, ...]
    steps: int


MAX_COMPILED: Final = 256  # games kept


class _Games:
    """A cache of compiled games by task id (least recently used), so that environments share their tables.

    Sharing only saves time: ``Game.same_as`` compares games by content.
    """

    def __init__(self) -> None:
        self._games: OrderedDict[tuple[str, str | None], Game] = OrderedDict()
        self._ids: OrderedDict[str, str] = OrderedDict()  # content text -> task id, to parse a house once
        self._lock = Lock()

    def of_id(self, task_id: str, syntax: str | None, content: Callable[[], Any]) -> Game:
        """Return the game with this id, compiled from ``content`` if it is not cached."""
        key = (task_id, syntax)
        with self._lock:
            game = self._games.get(key)
            if game is not None:
                self._games.move_to_end(key)
                return game
        game = Game(validate_content(content(), "game content"), syntax)
        with self._lock:
            self._games[key] = game
            if len(self._games) > MAX_COMPILED:
                self._games.popitem(last=False)
        return game

    def of_text(self, text: str, syntax: str | None) -> Game:
        """Return the game of a content's JSON text."""
        with self._lock:
            task_id = self._ids.get(text)
        if task_id is not None:
            return self.of_id(task_id, syntax, lambda: json.loads(text))
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"game content is not JSON: {error!s:.120}") from error
        content = validate_content(content, "game content")
        task_id = content_id(TASK_PREFIX, content)
        with self._lock:
            self._ids[text] = task_id
            if len(self._ids) > MAX_COMPILED:
                self._ids.popitem(last=False)
        return self.of_id(task_id, syntax, lambda: content)


_GAMES: Final = _Games()


def game_of_task(task: Task, syntax: str | None) -> Game:
    """Return the compiled game of a task, over a private copy of its content."""
    return _GAMES.of_id(task.task_id, syntax, lambda: json.loads(json.dumps(task.content)))


def compiled(content_text: str, syntax: str | None) -> Game:
    """Return the compiled game of a content's JSON text.

    Raises:
        DataError: not a game's content.
    """
    return _GAMES.of_text(content_text, syntax)


def write_snapshot(world: World, history: list[Any], past: tuple[str, ...], steps: int) -> str:
    """Return the JSON text of a snapshot."""
    head = {
        "format": FORMAT,
        "steps": steps,
        "world": world.to_json(),
        "story": history,
        "past": list(past),
        "syntax": world.game.syntax or "",
    }
    return json.dumps(head, separators=(",", ":"))[:-1] + _SEAM + world.game.content_text + "}"


def read_snapshot(text: Any) -> Snapshot:
    """Return the state in a snapshot.

    Raises:
        DataError: not a snapshot, or not a state of its game.
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise DataError(f"expected an ALFWorld snapshot (JSON text), got {type(text).__name__}: {short_repr(text)}")
    head, seam, rest = text.partition(_SEAM)
    try:
        data = json.loads(head + "}" if seam else text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"an ALFWorld snapshot must be the text that get_state() returned, got {short_repr(text)}"
        ) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or {*data, "game"} != _KEYS or not seam:
        raise DataError(
            f"an ALFWorld snapshot has format {FORMAT!r} and the keys {sorted(_KEYS)}, got {short_repr(text)}"
        )
    syntax, steps, past = data["syntax"], data["steps"], data["past"]
    if syntax not in ("", *DIALECTS):
        raise DataError(
            f"ALFWorld snapshot: syntax must be '' or one of {sorted(DIALECTS)}, got {short_repr(syntax, 40)}"
        )
    steps = checked.integer(steps, "ALFWorld snapshot: steps")
    past = checked.texts(past, "ALFWorld snapshot: past", MAX_CHARACTERS)
    game = compiled(rest[:-1], syntax or None)
    return Snapshot(game, World.from_json(game, data["world"]), data["story"], past, steps)
