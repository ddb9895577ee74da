"""The wording of a game: templates of its commands and replies.

Rules and wording are separate: three generations of ALFWorld files word the same commands and replies differently, and
a game keeps the wording of its file unless another one is requested.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from creditflow.envs.errors import DataError, short_repr

__all__ = [
    "DIALECTS",
    "EXAMINE_CONDITIONS",
    "NOTHING_HAPPENS",
    "TASK_PREFIX",
    "TASK_SUFFIX",
    "Dialect",
    "dialect_from_content",
    "dialect_to_content",
]

# Conditions of the sentences about an examined object, in the engine's order: the first that holds decides.
EXAMINE_CONDITIONS: tuple[tuple[str, ...], ...] = (
    ("isreceptacleobject",),
    ("isclean", "ishot", "issliced"),
    ("isclean", "iscool", "issliced"),
    ("isclean", "issliced"),
    ("ishot", "issliced"),
    ("iscool", "issliced"),
    ("isclean", "ishot"),
    ("isclean", "iscool"),
    ("ishot",),
    ("isclean",),
    ("iscool",),
    ("toggleable", "istoggled"),
    ("toggleable", "not_istoggled"),
    ("sliceable", "issliced"),
    (),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Templates of commands and replies. ``{o}``, ``{r}``, ``{k}``, ``{l}`` stand for names, ``{list}`` for an enumeration.

    ``properties`` are the sentences about an examined object, in the order of ``EXAMINE_CONDITIONS``.
    ``state_open`` and ``state_closed`` follow a receptacle's name in ``facing`` (empty in later generations).
    """

    put: str = "move {o} to {r}"
    welcome: str = "-= Welcome to TextWorld, ALFRED! =-\n\n{look}\n\n{task}"
    arrived: str = "You arrive at {r}. "
    opened: str = "You open the {r}. "
    closed: str = "You close the {r}."
    taken: str = "You pick up the {o} from the {r}."
    moved: str = "You move the {o} to the {r}."
    carrying: str = "You are carrying: {list}."
    empty_handed: str = "You are not carrying anything."
    seen_open: str = "The {r} is open. In it, you see {list}."
    seen_closed: str = "The {r} is closed."
    seen_on: str = "On the {r}, you see {list}."
    toggled: str = "You turn on the {o}."
    heated: str = "You heat the {o} using the {r}."
    cleaned: str = "You clean the {o} using the {r}."
    cooled: str = "You cool the {o} using the {r}."
    sliced: str = "You sliced the {o} with the {k}."
    facing: str = "You are facing the {list}"
    beside: str = ". Next to it, you see {list}."
    middle: str = "You are in the middle of a room. Looking quickly around you, you see {list}."
    article: str = "a "
    state_open: str = ""
    state_closed: str = ""
    properties: tuple[str, ...] = (
        "This is a normal {o}. In it, you see {list}.",
        "This is a hot and clean sliced {o}.",
        "This is a cool and clean sliced {o}.",
        "This is a clean sliced {o}.",
        "This is a hot sliced {o}.",
        "This is a cool sliced {o}.",
        "This is a hot and clean {o}.",
        "This is a cool and clean {o}.",
        "This is a hot {o}.",
        "This is a clean {o}.",
        "This is a cold {o}.",
        "This {o} is on.",
        "This {o} is off.",
        "This is a sliced {o}.",
        "There's nothing special about {o}.",
    )
    help: str = (
        "Available commands:\n"
        "  look:                             look around your current location\n"
        "  inventory:                        check your current inventory\n"
        "  go to (receptacle):               move to a receptacle\n"
        "  open (receptacle):                open a receptacle\n"
        "  close (receptacle):               close a receptacle\n"
        "  take (object) from (receptacle):  take an object from a receptacle\n"
        "  move (object) to (receptacle):  place an object in or on a receptacle\n"
        "  examine (something):              examine a receptacle or an object\n"
        "  use (object):                     use an object\n"
        "  heat (object) with (receptacle):  heat an object using a receptacle\n"
        "  clean (object) with (receptacle): clean an object using a receptacle\n"
        "  cool (object) with (receptacle):  cool an object using a receptacle\n"
        "  slice (object) with (object):     slice an object using a sharp object\n"
    )


MOVE = Dialect()
PUT = Dialect(put="put {o} in/on {r}", arrived="You arrive at {l}. ", moved="You put the {o} in/on the {r}.", help="")
DIALECTS: dict[str, Dialect] = {"move": MOVE, "put": PUT}

NOTHING_HAPPENS = "Nothing happens."
TASK_PREFIX, TASK_SUFFIX = "Your task is to: ", "."


def dialect_to_content(dialect: Dialect) -> str | dict[str, Any]:
    """Return the name of a known dialect, else all its templates."""
    for name, standard in DIALECTS.items():
        if dialect == standard:
            return name
    return {**asdict(dialect), "properties": list(dialect.properties)}


def dialect_from_content(content: Any, source: str) -> Dialect:
    """Invert ``dialect_to_content``.

    Raises:
        DataError: neither a known name nor a full set of templates.
    """
    if isinstance(content, str) and content in DIALECTS:
        return DIALECTS[content]
    names = {field.name for field in fields(Dialect)}
    if not isinstance(content, dict) or set(content) != names:
        raise DataError(f"{source}: dialect must be one of {sorted(DIALECTS)} or have exactly the keys {sorted(names)}")
    sentences = content["properties"]
    if not isinstance(sentences, list) or len(sentences) != len(EXAMINE_CONDITIONS):
        raise DataError(f"{source}: dialect.properties must be a list of {len(EXAMINE_CONDITIONS)} sentences")
    texts = [*(value for name, value in content.items() if name != "properties"), *sentences]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{source}: every template of a dialect must be a string")
    dialect = Dialect(**{**content, "properties": tuple(sentences)})
    _check_fields(dialect, source)
    return dialect


def _check_fields(dialect: Dialect, source: str) -> None:
    """Reject templates with other placeholders than the engine's, or with attribute or index access."""
    texts = [value for value in asdict(dialect).values() if isinstance(value, str)] + list(dialect.properties)
    for text in texts:
        for name in re.findall(r"\{([^}]*)\}", text):
            if name not in ("o", "r", "k", "l", "list", "look", "task"):
                raise DataError(f"{source}: template {short_repr(text, 80)} has the unknown placeholder {{{name:.20}}}")
        if text.count("{") != text.count("}") or re.sub(r"\{[^{}]*\}", "", text).count("{"):
            raise DataError(f"{source}: template {short_repr(text, 80)} has unbalanced braces")
