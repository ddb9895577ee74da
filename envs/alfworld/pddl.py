"""The PDDL of games: expressions, problems, goals, and the domains that the native rules reproduce.

The rules are code, not an interpreter of PDDL, so a file's domain is compared, action by action, with the domains that
they implement; comments, letter case and layout are ignored, and a changed action is an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

from creditflow.envs.errors import DataError, short_repr

__all__ = [
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "PROPERTIES",
    "TASK_TYPES",
    "Goal",
    "Problem",
    "SExpr",
    "action_digests",
    "check_domain",
    "goal_expression",
    "parse_goal",
    "parse_problem",
    "read_sexpr",
]

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


# action -> digests of the definitions that `rules.py` implements: those of the released files and of our exporter
KNOWN_ACTIONS: dict[str, frozenset[str]] = {
    "look": frozenset({"bae770758a6aa3f9", "bd20cc4eec8f579f"}),
    "inventory": frozenset({"8583e588c922bbc1", "cc82698e9ca2083c"}),
    "examinereceptacle": frozenset({"a0947c8433d9ea87", "e34f57b8f0ee69b5"}),
    "examineobject": frozenset({"5a5d7b17922ebc61", "913f36393dbed270"}),
    "gotolocation": frozenset({"194c71e29baa94a0", "5c761acebc26f536"}),
    "openobject": frozenset({"932ef3f071531ddb", "949aeff94c99a297"}),
    "closeobject": frozenset({"504d8062e9d539a2", "9ffe9fdff68a3071"}),
    "pickupobject": frozenset({"3664195d8314c792", "9787d98a7be86548"}),
    "putobject": frozenset({"7908bb6e2ade9366", "ee7e316d477037d2"}),
    "cleanobject": frozenset({"7dda2fc178b79c25", "a4f2a2babf5370e6", "ba95680c411b13e1", "6f6a013154d75a2e"}),
    "heatobject": frozenset({"62b800a3d5de9f45", "f53bd04232318ef7"}),
    "coolobject": frozenset({"a0d89c4723cf45d8", "b06ce39a18cd6829"}),
    "toggleobject": frozenset({"525746c0e764af8d", "9833abb9e18428cc"}),
    "sliceobject": frozenset({"2124968344059fd2", "49b176c4485c08e1"}),
    "help": frozenset({"2b35bf5dcde55345", "a5a2f84f6325caee"}),
}
OPTIONAL_ACTIONS = frozenset({"help"})


def check_domain(text: str, source: str) -> frozenset[str]:
    """Return the names of the domain's actions, all of which the native rules implement.

    Raises:
        DataError: another domain; names the actions that differ and what to do.
    """
    names, problem = _compare(text)
    if problem:
        raise DataError(
            f"{source}: the PDDL domain is not the one of ALFWorld's released games ({problem}); the native rules "
            "would not be exact on it. Get the games with alfworld-download, or run this file with backend='textworld'"
        )
    return names


@lru_cache(maxsize=8)  # all files of a release share one domain text
def _compare(text: str) -> tuple[frozenset[str], str]:
    """Return the domain's actions, and their differences from the known ones ("" if there are none)."""
    try:
        digests = action_digests(text, "pddl_domain")
    except DataError as error:
        return frozenset(), str(error)
    missing = sorted(set(KNOWN_ACTIONS) - OPTIONAL_ACTIONS - set(digests))
    foreign = sorted(name for name, digest in digests.items() if digest not in KNOWN_ACTIONS.get(name, ()))
    if missing or foreign:
        return frozenset(), f"missing actions: {missing or 'none'}; unknown or changed actions: {foreign or 'none'}"
    return frozenset(digests), ""


def action_digests(text: str, source: str) -> dict[str, str]:
    """Return a digest of every action of a domain, over its parsed expression.

    Raises:
        DataError: the text is not a PDDL domain.
    """
    expr = read_sexpr(text, source)
    if expr[:2] != ["define", ["domain", "alfred"]]:
        raise DataError(f"{source}: pddl_domain must start with (define (domain alfred) …)")
    digests: dict[str, str] = {}
    for section in expr[2:]:
        if isinstance(section, list) and len(section) > 1 and section[0] == ":action" and isinstance(section[1], str):
            digests[section[1]] = _digest(section)
    return digests


def _digest(expr: list[Any]) -> str:
    return blake2b(json.dumps(expr).encode(), digest_size=8).hexdigest()


# task type -> the property the object must have ("" for none)
TASK_TYPES: dict[str, str] = {
    "pick_and_place_simple": "",
    "look_at_obj_in_light": "",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "hot",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "",
}
# property -> (fact that an object has it, affordance that the goal also requires)
PROPERTIES: dict[str, tuple[str, str]] = {
    "clean": ("isclean", "cleanable"),
    "hot": ("ishot", "heatable"),
    "cool": ("iscool", "coolable"),
}
_BY_PROPERTY = {name: task for task, name in TASK_TYPES.items() if name}


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a game.

    Attributes:
        task_type: one of ``TASK_TYPES``.
        target: object type to be placed or held, such as "appletype".
        place: receptacle type it goes to, or, for ``look_at_obj_in_light``, the object type of the lamp.
    """

    task_type: str
    target: str
    place: str

    @property
    def quality(self) -> str:
        """The property that the object must have: "clean", "hot", "cool" or ""."""
        return TASK_TYPES[self.task_type]

    @property
    def looks(self) -> bool:
        """Whether this is ``look_at_obj_in_light``."""
        return self.task_type == "look_at_obj_in_light"

    @property
    def count(self) -> int:
        """Number of objects that must lie in one receptacle."""
        return 2 if self.task_type == "pick_two_obj_and_place" else 1


class _ShapeError(Exception):
    """The expression has none of the six shapes."""


def parse_goal(expr: SExpr, source: str) -> Goal:
    """Parse the goal of a problem.

    Raises:
        DataError: not one of the six goals.
    """
    try:
        groups = [_flatten(conjunct) for conjunct in _conjuncts(expr)]
        if len(groups) == 1:
            return _placing(groups[0])
        if len(groups) == 2:
            return _looking(groups)
        raise _ShapeError
    except _ShapeError:
        raise DataError(
            f"{source}: the goal is none of ALFWorld's six ({', '.join(TASK_TYPES)}), so the native rules cannot "
            "check it; backend='textworld' may"
        ) from None


def _conjuncts(expr: SExpr) -> list[Any]:
    if isinstance(expr, list) and expr and expr[0] == "and":
        return expr[1:]
    return [expr]


def _flatten(expr: Any) -> set[tuple[str, ...]]:
    """Return the atoms below nested ``exists`` and ``and``; ``(not (= x y))`` becomes ("differ", x, y)."""
    atoms: set[tuple[str, ...]] = set()
    declared: set[str] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        if not isinstance(node, list) or not node:
            raise _ShapeError
        if node[0] == "and":
            pending.extend(node[1:])
        elif node[0] == "exists":
            if len(node) != 3 or not isinstance(node[1], list):
                raise _ShapeError
            names = [name for name in node[1] if isinstance(name, str) and name.startswith("?")]
            if declared & set(names):  # shadowing would change the meaning
                raise _ShapeError
            declared.update(names)
            pending.append(node[2])
        elif node[0] == "not":
            if len(node) != 2 or not isinstance(node[1], list) or len(node[1]) != 3 or node[1][0] != "=":
                raise _ShapeError
            atoms.add(("differ", *sorted(map(str, node[1][1:]))))
        elif all(isinstance(word, str) for word in node):
            atoms.add(tuple(node))
        else:
            raise _ShapeError
    return atoms


def _one(atoms: set[tuple[str, ...]], predicate: str, first: str = "") -> tuple[str, ...]:
    matching = [atom for atom in atoms if atom[0] == predicate and len(atom) == 3 and first in ("", atom[1])]
    if len(matching) != 1:
        raise _ShapeError
    return matching[0]


def _placing(atoms: set[tuple[str, ...]]) -> Goal:
    inside = sorted(atom for atom in atoms if atom[0] == "inreceptacle" and len(atom) == 3)
    if len(inside) not in (1, 2):
        raise _ShapeError
    _, item, receptacle = inside[0]
    target = _one(atoms, "objecttype", item)[2]
    kind = _one(atoms, "receptacletype", receptacle)[2]
    expected: set[tuple[str, ...]] = {
        ("inreceptacle", item, receptacle),
        ("objecttype", item, target),
        ("receptacletype", receptacle, kind),
    }
    if len(inside) == 2:
        second = inside[1][1]
        expected |= {
            ("inreceptacle", second, receptacle),
            ("objecttype", second, target),
            ("differ", *sorted((item, second))),
        }
        if atoms != expected:
            raise _ShapeError
        return Goal("pick_two_obj_and_place", target, kind)
    if atoms == expected:
        return Goal("pick_and_place_simple", target, kind)
    for name, (fact, affordance) in PROPERTIES.items():
        if atoms == expected | {(fact, item), (affordance, item)}:
            return Goal(_BY_PROPERTY[name], target, kind)
    raise _ShapeError


def _looking(groups: list[set[tuple[str, ...]]]) -> Goal:
    lamps, held = groups if any(atom[0] == "istoggled" for atom in groups[0]) else groups[::-1]
    _, lamp, receptacle = _one(lamps, "inreceptacle")
    lamp_type = _one(lamps, "objecttype", lamp)[2]
    _, agent, location = _one(lamps, "atlocation")
    _, holder, item = _one(held, "holds")
    target = _one(held, "objecttype", item)[2]
    if lamps != {
        ("objecttype", lamp, lamp_type),
        ("toggleable", lamp),
        ("istoggled", lamp),
        ("receptacleatlocation", receptacle, location),
        ("atlocation", agent, location),
        ("inreceptacle", lamp, receptacle),
    } or held != {("objecttype", item, target), ("holds", holder, item)}:
        raise _ShapeError
    return Goal("look_at_obj_in_light", target, lamp_type)


def goal_expression(goal: Goal) -> str:
    """Return the PDDL text of a goal, which ``parse_goal`` parses."""
    if goal.looks:
        lamp = (
            f"(exists (?lamp - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?lamp {goal.place}) "
            "(toggleable ?lamp) (isToggled ?lamp) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) "
            "(inReceptacle ?lamp ?r)))"
        )
        held = f"(exists (?o - object ?a - agent) (and (objectType ?o {goal.target}) (holds ?a ?o)))"
        return f"(and {lamp} {held})"
    atoms = f"(inReceptacle ?o ?r) (objectType ?o {goal.target}) (receptacleType ?r {goal.place})"
    if goal.quality:
        fact, affordance = PROPERTIES[goal.quality]
        atoms += f" ({affordance} ?o) ({fact} ?o)"
    if goal.count == 2:
        atoms += f" (exists (?o2 - object) (and (not (= ?o ?o2)) (objectType ?o2 {goal.target}) (inReceptacle ?o2 ?r)))"
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {atoms}))))"
