"""A PDDL parser: bracketed text to nested lists, and a problem to its objects, facts and goal.

Game files are untrusted, so the parser is iterative (no recursion to exhaust) and limited in size and depth; its errors
name the file, what was expected and what was found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from creditflow.envs.errors import DataError, short_repr

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "Problem", "SExpr", "parse_problem", "read_sexpr"]

MAX_DEPTH = 64  # released problems nest 8 deep
MAX_CHARACTERS = 4_000_000  # released problems have at most 90,000

SExpr: TypeAlias = "str | list[Any]"

_TOKEN = re.compile(r";[^\n]*|[()]|[^\s();]+")
_COMMENT = ";"


@dataclass(frozen=True, slots=True)
class Problem:
    """A PDDL problem, lower-cased.

    Attributes:
        types: object id -> type name, in the order of declaration.
        facts: the initial facts, each ``(predicate, argument, …)``.
        goal: the goal expression.
    """

    types: dict[str, str]
    facts: tuple[tuple[str, ...], ...]
    goal: SExpr


def read_sexpr(text: str, source: str) -> list[Any]:
    """Parse the one bracketed expression in ``text``, lower-cased, without comments.

    Args:
        text: PDDL.
        source: name of the text in error messages.

    Raises:
        DataError: unbalanced brackets, too large or too deep.
    """
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"{source}: {len(text)} characters of PDDL, expected at most {MAX_CHARACTERS}")
    root: list[Any] = []
    stack: list[list[Any]] = []
    top = root
    for word in _TOKEN.findall(text.lower()):
        if word == "(":
            if len(stack) >= MAX_DEPTH:
                raise DataError(f"{source}: PDDL brackets nest deeper than {MAX_DEPTH}; this is not an ALFWorld game")
            stack.append(top)
            child: list[Any] = []
            top.append(child)
            top = child
        elif word == ")":
            if not stack:
                raise DataError(f"{source}: one closing bracket too many in the PDDL text")
            top = stack.pop()
        elif word[0] != _COMMENT:
            top.append(word)
    if stack:
        raise DataError(f"{source}: {len(stack)} closing brackets are missing in the PDDL text; is the file truncated?")
    if len(root) != 1 or not isinstance(root[0], list):
        raise DataError(f"{source}: expected one bracketed PDDL expression (define …), found {len(root)} items")
    return root[0]


def parse_problem(text: str, source: str) -> Problem:
    """Parse a problem of the domain ``alfred``.

    Raises:
        DataError: a section is missing or malformed.
    """
    expr = read_sexpr(text, source)
    if not expr or expr[0] != "define":
        raise DataError(f"{source}: a PDDL problem starts with (define (problem …) …)")
    sections: dict[str, list[Any]] = {}
    for section in expr[1:]:
        if not isinstance(section, list) or not section or not isinstance(section[0], str):
            raise DataError(f"{source}: expected bracketed sections such as (:init …) in the PDDL problem")
        sections.setdefault(section[0], section[1:])
    for name in ("problem", ":domain", ":objects", ":init", ":goal"):
        if name not in sections:
            raise DataError(f"{source}: the PDDL problem has no section ({name} …)")
    if sections[":domain"] != ["alfred"]:
        raise DataError(f"{source}: the PDDL problem is of domain {short_repr(sections[':domain'])}, expected alfred")
    if len(sections[":goal"]) != 1:
        raise DataError(f"{source}: (:goal …) must contain one expression")
    return Problem(_typed(sections[":objects"], source), _facts(sections[":init"], source), sections[":goal"][0])


def _typed(items: list[Any], source: str) -> dict[str, str]:
    """Parse ``a b - t c - u`` into ``{a: t, b: t, c: u}``."""
    types: dict[str, str] = {}
    waiting: list[str] = []
    after_dash = False
    for item in items:
        if not isinstance(item, str):
            raise DataError(f"{source}: (:objects …) must be a flat list of 'name - type'")
        if after_dash:
            for name in waiting:
                if types.setdefault(name, item) != item:
                    raise DataError(
                        f"{source}: object {short_repr(name, 80)} is declared as {types[name]} and as {short_repr(item, 40)}"
                    )
            waiting, after_dash = [], False
        elif item == "-":
            after_dash = True
        else:
            waiting.append(item)
    if waiting or after_dash:
        raise DataError(f"{source}: the last objects of (:objects …) have no type")
    return types


def _facts(items: list[Any], source: str) -> tuple[tuple[str, ...], ...]:
    facts = []
    for item in items:
        if not isinstance(item, list) or not item or not all(isinstance(word, str) for word in item):
            raise DataError(
                f"{source}: facts in (:init …) must be flat, such as (openable x); got {short_repr(item, 80)}"
            )
        facts.append(tuple(item))
    return tuple(facts)
