"""Prompt templates: short texts with named slots, filled from one view of an episode.

The task statement is taken from ``info`` or from the task's content if they have one; otherwise it is one paragraph per environment.

A text that is a grid of symbols, with one row per line, can also be listed in two ways that small models learn from.
Small models with rotary embeddings hardly learn the position of a symbol in a long text; they do learn names of cells
(``places``). The effect of a move depends on the cells around the player, so with offsets from the player (``around``) they
learn from even fewer boards. That list leaves out distant walls, so two boards may have the same text: it is a prompt for
studies of learning, not a full observation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from string import ascii_lowercase
from typing import Final

from creditflow.agents.base import View
from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.wrappers.records.pictures import picture_in

__all__ = ["PICTURE", "TASK_TEXTS", "Prompt", "Slots", "around", "places", "slots_of", "task_text"]

PICTURE: Final = "<|vision_start|><|image_pad|><|vision_end|>"  # where a picture is, in the Qwen-VL families
_TEXTS: Final = ("{observation}", "{cells}", "{around}")  # slots that need a text
# info keys under which environments state the task, in the order of the look-up
STATED: Final = ("task_text", "goal", "instruction", "question")
# fields of a task's content that state it: an environment shows it once, but a windowed prompt must repeat it
CONTENT_FIELDS: Final[Mapping[str, str]] = {"alfworld": "sentence", "webshop": "instruction", "wikisearch": "text"}
TASK_TEXTS: Final[Mapping[str, str]] = {
    "sokoban": (
        "Sokoban: walk in four directions. Walking into a box pushes it one cell, if the cell behind it is free; boxes "
        "cannot be pulled, and two cannot be pushed at once. The level is solved when every box stands on a target. "
        "Symbols: {legend}."
    )
}
# of environments that are seen in a picture, without a text
PICTURE_TEXTS: Final[Mapping[str, str]] = {
    "sokoban": TASK_TEXTS["sokoban"].replace("Symbols: {legend}.", "The picture shows it from above: {legend}.")
}
MIN_SIZE: Final = 3
MAX_ROWS, MAX_COLUMNS = 26, 99  # a letter names a row, two digits a column
PLAYERS: Final = "APS"  # the agent in a grid, the player in Sokoban, and the player on a target
ON_TARGET: Final = {"S": "O"}  # the symbol under the player
WALL: Final = "#"  # also stands for cells outside the grid
FREE: Final = "._"
FREQUENT: Final = 3  # a symbol with at least this many cells is listed near the player only
NEAR: Final = 2  # in moves


@dataclass(frozen=True, slots=True)
class Slots:
    """The texts of a template's slots, under the slots' names.

    Attributes:
        task: the task statement.
        moves: the environment's maximum number of actions in one answer, usually 1.
        step, steps: number of the next turn, from 1; the environment's limit.
        history: the last k turns, in windowed prompts only.
        observation: the latest observation.
        cells: a grid observation as a list of positions (see ``places``); the observation itself if it is not a grid.
        around: a grid observation as offsets from its player (see ``around``); the observation itself if it is not such a grid.
        actions: admissible actions, one a line.
        image: the marker of the observation's picture, which becomes one token per patch (see ``models/pictures.py``).
        refused: why the last action was rejected; "" if it was not.
        lessons: reflections on earlier trials; "" in the first trial.
        moves_left: moves that are left to the episode; "" where the environment does not limit them.
        reward: of the last turn; "" in the first.
    """

    task: str
    step: str
    steps: str
    history: str
    observation: str
    cells: str
    around: str
    actions: str
    refused: str
    lessons: str = ""
    image: str = ""
    moves: str = "1"
    moves_left: str = ""
    reward: str = ""


_NAMES: Final = tuple(field.name for field in fields(Slots))
_SLOT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A versioned template. A change of wording is a new version: a test pins the texts of every template.

    Attributes:
        name: "<name>-v<k>".
        system: the system message; "" for none.
        first: the user message of the first turn.
        later: the user message of every later turn of an append-only history.
        windowed: the user message of every later turn with a windowed history, where ``history`` shows the last turns.
        turn: one past turn inside ``history``; slots ``step``, ``observation``, ``action``.
        refused: text of the slot ``{refused}`` when the last action was rejected; slot ``reason``.
    """

    name: str
    system: str
    first: str
    later: str
    windowed: str
    turn: str = ""
    refused: str = ""

    def __post_init__(self) -> None:
        without_picture = tuple(name for name in _NAMES if name != "image")  # only messages of the user carry pictures
        allowed = {"system": without_picture, "turn": ("step", "observation", "action"), "refused": ("reason",)}
        for field in ("system", "first", "later", "windowed", "turn", "refused"):
            for slot in _SLOT.findall(getattr(self, field)):
                if slot not in allowed.get(field, _NAMES):
                    raise unknown_name_error(f"slot of {self.name}.{field}", slot, allowed.get(field, _NAMES))

    @property
    def lists_actions(self) -> bool:
        """Whether the prompt lists the admissible actions."""
        return any("{actions}" in text for text in (self.system, self.first, self.later, self.windowed))

    def pictures(self, part: str) -> int:
        """How often one part shows the latest observation's picture."""
        return int(getattr(self, part).count("{image}"))

    @property
    def shows_pictures(self) -> bool:
        """Whether any part shows a picture."""
        return any(map(self.pictures, ("first", "later", "windowed")))

    @property
    def reads_text(self) -> bool:
        """Whether any part shows the observation's text."""
        return any(slot in text for slot in _TEXTS for text in (self.first, self.later, self.windowed))

    def fill(self, part: str, slots: Slots) -> str:
        """Fill the slots of one part; braces inside a slot's text are left alone."""
        return _substitute(getattr(self, part), partial(getattr, slots))

    def message(self, part: str, slots: Slots) -> str | list[str]:
        """Fill the slots of one part; with pictures, the texts between which they are."""
        if not self.pictures(part):
            return self.fill(part, slots)
        return [_substitute(text, partial(getattr, slots)) for text in getattr(self, part).split("{image}")]


def _substitute(text: str, value: Callable[[str], str]) -> str:
    return _SLOT.sub(lambda match: value(match[1]), text)


@lru_cache(maxsize=256)
def _slots_shown(prompt: Prompt) -> frozenset[str]:
    """The slots that the messages of a prompt have."""
    return frozenset(_SLOT.findall("".join((prompt.system, prompt.first, prompt.later, prompt.windowed))))


def task_text(view: View) -> str:
    """The task statement of one episode; "" if there is none."""
    for key in STATED:
        stated = view.info.get(key)
        if isinstance(stated, str) and stated:
            return stated
    field = CONTENT_FIELDS.get(view.env.env_name)
    if field is not None:
        return str(view.env.task.content[field])
    observation = view.observation
    seen = view.env.observation_text(observation) is None and picture_in(observation) is not None
    texts = PICTURE_TEXTS if seen else TASK_TEXTS
    return texts.get(view.env.env_name, "").replace("{legend}", getattr(view.env, "legend", ""))


def slots_of(prompt: Prompt, view: View, window: int = 0, reflections: str = "") -> Slots:
    """The texts of the slots that a prompt shows, of one view; the others are empty where they take work.

    Args:
        prompt: the template; its ``turn`` and ``refused`` texts are used.
        view: one running episode.
        window: number of past turns that ``history`` shows.
        reflections: on earlier trials.

    Raises:
        ConfigError: the observation lacks the text or picture that the template shows, or the prompt would list actions that
            give the answer away.
    """
    if view.env.actions_reveal_answer and prompt.lists_actions:
        raise ConfigError(
            f"the prompt {prompt.name!r} lists the admissible actions, and {view.env.env_name}'s list gives the answer "
            "away; set prompting.prompt to one that does not, such as 'search-v1', 'tools-v1' or 'react-search-v1'"
        )
    text, filled = _text_of(prompt, view), _slots_shown(prompt)
    turns = view.turns
    lines = [
        _substitute(
            prompt.turn,
            {"step": str(i + 1), "observation": turns[i].observation, "action": turns[i].action}.__getitem__,
        )
        for i in range(max(0, len(turns) - window) if "history" in filled else len(turns), len(turns))
    ]
    reason = turns[-1].invalid_reason if turns else ""
    return Slots(
        task=task_text(view) if "task" in filled else "",
        step=str(len(turns) + 1),
        steps=str(view.env.max_steps),
        history="\n".join(lines),
        observation=text,
        cells=places(text) if "cells" in filled else "",
        around=around(text) if "around" in filled else "",
        actions="\n".join(view.info["admissible_actions"]) if "actions" in filled else "",
        refused=_substitute(prompt.refused, {"reason": reason}.__getitem__) if reason else "",
        lessons=reflections,
        image=PICTURE if prompt.shows_pictures else "",
        moves=str(getattr(view.env, "moves_per_turn", 1)),
        moves_left=str(view.info.get("moves_left", "")),
        reward=f"{turns[-1].reward:g}" if turns else "",
    )


def _text_of(prompt: Prompt, view: View) -> str:
    """The text of an observation; "" where the template needs none.

    Raises:
        ConfigError: the template shows a text or a picture that the observation does not have.
    """
    observation = view.observation
    text = view.env.observation_text(observation)
    if prompt.shows_pictures and picture_in(observation) is None:
        raise ConfigError(
            f"the prompt {prompt.name!r} shows a picture, but this environment's observations are {type(observation).__name__} "
            "without one; make it with pictures (Sokoban: obs_mode: rgb), or choose a prompt without {image}"
        )
    if prompt.reads_text and text is None:
        raise ConfigError(
            f"the prompt {prompt.name!r} shows a text, but this environment's observations are {type(observation).__name__}; "
            "make it with a text observation mode, or choose a prompt that shows pictures, such as 'look-v1', and a "
            "vision-language model"
        )
    return text or ""


def grid_rows(text: str) -> list[str] | None:
    """The rows without spaces; None if the text is not a grid whose rows have equal length and whose cells can be named."""
    rows = [row.replace(" ", "") for row in text.split("\n")]
    width = len(rows[0])
    fits = MIN_SIZE <= len(rows) <= MAX_ROWS and MIN_SIZE <= width <= MAX_COLUMNS
    return rows if fits and all(len(row) == width for row in rows) else None


@lru_cache(maxsize=4096)  # boards recur
def places(text: str) -> str:
    r"""List the position (row letter, column number) of every symbol but the most frequent one.

    An outer frame of one symbol is left out. Symbols are listed from rare to frequent, equally frequent ones by their
    code points; a text that is not a grid of single symbols is returned unchanged.

    >>> places("#####\n#__P#\n#_OX#\n#___#\n#####")
    'Ob2 Pa3 Xb3'
    """
    rows = grid_rows(text)
    if rows is None:
        return text
    frame = set(rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows))
    if len(frame) == 1:
        rows = [row[1:-1] for row in rows[1:-1]]
    positions: dict[str, list[str]] = {}
    for letter, row in zip(ascii_lowercase, rows, strict=False):
        for column, symbol in enumerate(row, 1):
            positions.setdefault(symbol, []).append(f"{letter}{column}")
    most_frequent = max(positions, key=lambda symbol: (len(positions[symbol]), symbol))
    ordered = sorted((symbol for symbol in positions if symbol != most_frequent), key=lambda s: (len(positions[s]), s))
    return " ".join(symbol + position for symbol in ordered for position in positions[symbol])


@lru_cache(maxsize=4096)
def around(text: str) -> str:
    r"""List the symbols around the player, nearest first, each with its offset in cells: up or down, then left or right.

    Free cells are left out. Walls, cells outside the grid, and symbols with three cells or more are listed within two moves
    only. A text that is not a grid with one player is returned unchanged.

    >>> around("#####\n#__P#\n#_OX#\n#___#\n#####")
    'Xd1 #u1 #r1 Od1l1 #u2 #u1l1 #u1r1 #r2 #d1r1'
    """
    rows = grid_rows(text)
    if rows is None or sum(text.count(player) for player in PLAYERS) != 1:
        return text
    width, symbols = len(rows[0]), "".join(rows)
    at = next(i for i, symbol in enumerate(symbols) if symbol in PLAYERS)
    player_row, player_column = divmod(at, width)
    symbols_around = [(0, ON_TARGET[symbols[at]], 0, 0)] if symbols[at] in ON_TARGET else []
    for down in range(-max(player_row, NEAR), max(len(rows) - player_row, NEAR + 1)):
        for right in range(-max(player_column, NEAR), max(width - player_column, NEAR + 1)):
            row, column, moves = player_row + down, player_column + right, abs(down) + abs(right)
            inside = 0 <= row < len(rows) and 0 <= column < width
            symbol = rows[row][column] if inside else WALL
            everywhere = symbol != WALL and symbols.count(symbol) < FREQUENT
            if moves and symbol not in FREE and (everywhere or moves <= NEAR):
                symbols_around.append((moves, symbol, down, right))
    symbols_around.sort(key=lambda entry: (entry[0], symbols.count(entry[1]), *entry[1:]))
    return " ".join(symbol + _offset(down, "ud") + _offset(right, "lr") for _, symbol, down, right in symbols_around)


def _offset(cells: int, names: str) -> str:
    """A direction and a number of cells; "" for 0."""
    return f"{names[cells > 0]}{abs(cells)}" if cells else ""
