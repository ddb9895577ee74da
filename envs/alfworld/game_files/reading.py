"""Reading a ``.tw-pddl`` file, or its fields, into a game's content; errors name the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from creditflow.envs.alfworld.game_files.content import content_from_problem
from creditflow.envs.alfworld.grammar import parse_grammar
from creditflow.envs.alfworld.pddl import check_domain, parse_problem
from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.reading.limits import MAX_GAME, Limits

__all__ = ["FIELDS", "content_from_fields", "content_from_file", "fields_from_file"]

FIELDS = ("pddl_domain", "grammar", "pddl_problem")
GAME = Limits(characters=MAX_GAME)
_HOW = "games come from `alfworld-download`, or from an exported creditflow game"


def fields_from_file(path: Path) -> dict[str, Any]:
    """Return the JSON fields of a ``.tw-pddl`` file.

    Raises:
        DataError: an unreadable or too large file, not JSON, or a missing field.
    """
    try:
        data = read_json(path, GAME)
    except DataError as error:
        raise DataError(f"{error}: not a JSON game file of at most {MAX_GAME:,} characters; {_HOW}") from error
    return _checked(data, str(path))


def _checked(data: Any, source: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise DataError(f"{source}: a game file contains one JSON object, got {type(data).__name__}; {_HOW}")
    for name in FIELDS:
        if not isinstance(data.get(name), str):
            raise DataError(
                f"{source}: the field {name!r} is missing or not a string; a .tw-pddl file has {FIELDS}; {_HOW}"
            )
    return dict(data)


def content_from_fields(data: Any, source: str) -> dict[str, Any]:
    """Return the content of a game from the fields of a ``.tw-pddl`` file.

    Raises:
        DataError: a missing field, or one of a version that the native rules do not reproduce.
    """
    fields = _checked(data, source)
    actions = check_domain(fields["pddl_domain"], source)
    dialect, sentence = parse_grammar(fields["grammar"], source)
    if "help" not in actions:
        dialect = replace(dialect, help="")
    return content_from_problem(parse_problem(fields["pddl_problem"], source), dialect, sentence, source)


def content_from_file(path: Path) -> dict[str, Any]:
    """Return the content of a ``.tw-pddl`` file.

    Raises:
        DataError: see ``content_from_fields``.
    """
    return content_from_fields(fields_from_file(path), str(path))
