"""The canonical content of a game: one JSON dictionary, equal for all files that describe the same game.

Task ids are its hashes, panels and snapshots contain it, and ``Game`` is compiled from it. All names are lower-case and
sorted by raw id, the order in which the engine numbers and lists them. Layout (``FORMAT`` 1)::

    {"format": 1, "dialect": "move", "sentence": "put a mug in desk",
     "goal": ["pick_and_place_simple", "mugtype", "desktype"],
     "agent": ["agent1", "loc_bar_00", ""],                                  # id, location, held object
     "receptacles": [[id, type, location or "", "" | "openable" | "opened"], …],
     "objects": [[id, type, [locations], [receptacles], [container objects], [affordances and states]], …],
     "contain": {receptacle type: [object types], …}}                        # only types that occur
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from creditflow.envs.alfworld.dialect import Dialect, dialect_from_content, dialect_to_content
from creditflow.envs.alfworld.pddl import TASK_TYPES, Goal, Problem, parse_goal
from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.checked import is_string_list
from creditflow.envs.tasks import Task, content_id

__all__ = [
    "AFFORDANCES",
    "FORMAT",
    "STATES",
    "TASK_PREFIX",
    "content_from_problem",
    "game_task",
    "goal_of",
    "validate_content",
]

FORMAT = 1
AFFORDANCES = ("cleanable", "coolable", "heatable", "isreceptacleobject", "pickupable", "sliceable", "toggleable")
STATES = ("isclean", "iscool", "ishot", "issliced", "istoggled")
MAX_THINGS = 2_000  # receptacles or objects of one game; released games have at most 68

# predicate -> argument types; no action and no text depends on the last group
_PREDICATES: dict[str, tuple[str, ...]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "receptacletype": ("receptacle", "rtype"),
    "objecttype": ("object", "otype"),
    "cancontain": ("rtype", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    **dict.fromkeys((*AFFORDANCES, *STATES), ("object",)),
    "ison": ("object",),
    "isreceptacleobjectfull": ("object",),
    "wasinreceptacle": ("object", "receptacle"),
    "checked": ("receptacle",),
    "examined": ("location",),
    "holdsanyreceptacleobject": ("agent",),
    "full": ("receptacle",),
    "moveable": ("object",),
}


def content_from_problem(problem: Problem, dialect: Dialect, sentence: str, source: str) -> dict[str, Any]:
    """Return the content of a parsed problem.

    Raises:
        DataError: an unknown predicate, an undeclared or mistyped object, no agent, an unknown goal.
    """
    facts: dict[str, list[tuple[str, ...]]] = {name: [] for name in _PREDICATES}
    for name, *arguments in problem.facts:
        if name == "=":  # costs, such as (= (total-cost) 0)
            continue
        _check_fact(name, arguments, problem.types, source)
        facts[name].append(tuple(arguments))
    goal = parse_goal(problem.goal, source)
    objects = sorted({a for rows in facts.values() for row in rows for a in row if problem.types[a] == "object"})
    places = sorted({a for rows in facts.values() for row in rows for a in row if problem.types[a] == "receptacle"})
    kinds = _unique(facts["objecttype"], "objectType", source)
    rtypes = _unique(facts["receptacletype"], "receptacleType", source)
    homes = _unique(facts["receptacleatlocation"], "receptacleAtLocation", source)
    openable, opened = ({row[0] for row in facts[name]} for name in ("openable", "opened"))
    return validate_content(
        {
            "format": FORMAT,
            "dialect": dialect_to_content(dialect),
            "sentence": sentence,
            "goal": [goal.task_type, goal.target, goal.place],
            "agent": _agent(facts, source),
            "receptacles": [
                [r, rtypes.get(r, ""), homes.get(r, ""), _openness(r in openable, r in opened)] for r in places
            ],
            "objects": [
                [
                    o,
                    kinds.get(o, ""),
                    sorted({row[1] for row in facts["objectatlocation"] if row[0] == o}),
                    sorted({row[1] for row in facts["inreceptacle"] if row[0] == o}),
                    sorted({row[1] for row in facts["inreceptacleobject"] if row[0] == o}),
                    sorted(name for name in (*AFFORDANCES, *STATES) if (o,) in facts[name]),
                ]
                for o in objects
            ],
            "contain": _contain(facts["cancontain"], set(rtypes.values()), set(kinds.values())),
        },
        source,
    )


def _check_fact(name: str, arguments: list[str], types: Mapping[str, str], source: str) -> None:
    expected = _PREDICATES.get(name)
    if expected is None:
        raise DataError(
            f"{source}: unknown predicate {short_repr(name)} in (:init …); the domain 'alfred' knows {', '.join(_PREDICATES)}"
        )
    actual = tuple(types.get(argument, "undeclared") for argument in arguments)
    if actual != expected and name != "checked":
        raise DataError(
            f"{source}: the fact ({name} {' '.join(arguments)[:80]}) has arguments of types {actual}, expected {expected}"
        )


def _unique(rows: list[tuple[str, ...]], name: str, source: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for thing, value in rows:
        if values.setdefault(thing, value) != value:
            raise DataError(f"{source}: {thing[:80]} has two facts {name}: {values[thing]} and {value}")
    return values


def _agent(facts: Mapping[str, list[tuple[str, ...]]], source: str) -> list[str]:
    if len(set(facts["atlocation"])) != 1:
        raise DataError(f"{source}: expected one fact (atLocation agent location), found {len(facts['atlocation'])}")
    agent, home = facts["atlocation"][0]
    held = sorted({row[1] for row in facts["holds"]})
    if len(held) > 1 or bool(held) != bool(facts["holdsany"]):
        raise DataError(f"{source}: the agent may hold at most one object, with the fact holdsAny; got {held}")
    return [agent, home, held[0] if held else ""]


def _openness(openable: bool, opened: bool) -> str:
    if not openable:
        return ""
    return "opened" if opened else "openable"


def _contain(rows: list[tuple[str, ...]], rtypes: set[str], otypes: set[str]) -> dict[str, list[str]]:
    table: dict[str, set[str]] = {}
    for rtype, otype in rows:
        if rtype in rtypes and otype in otypes:
            table.setdefault(rtype, set()).add(otype)
    return {rtype: sorted(table[rtype]) for rtype in sorted(table)}


# -- validation ------------------------------------------------------------------------------------------------------
_KEYS = ("format", "dialect", "sentence", "goal", "agent", "receptacles", "objects", "contain")


def validate_content(content: Any, source: str) -> dict[str, Any]:
    """Return a content with its keys in their order, if it follows the layout and is canonical.

    Equal contents have equal JSON texts afterwards, as snapshots are compared as texts.

    Raises:
        DataError: the first violation.
    """
    if not isinstance(content, Mapping) or set(content) != set(_KEYS):
        raise DataError(
            f"{source}: a game has exactly the keys {_KEYS}, got {short_repr(list(content) if isinstance(content, Mapping) else content, 120)}"
        )
    if content["format"] != FORMAT:
        raise DataError(f"{source}: game format {short_repr(content['format'], 40)}, expected {FORMAT}")
    if not isinstance(content["sentence"], str) or len(content["sentence"]) > 2_000:
        raise DataError(f"{source}: 'sentence' must be a string of at most 2000 characters")
    goal = content["goal"]
    if not is_string_list(goal) or len(goal) != 3 or goal[0] not in TASK_TYPES:
        raise DataError(f"{source}: 'goal' must be [task type, object type, place type], got {short_repr(goal)}")
    if not is_string_list(content["agent"]) or len(content["agent"]) != 3:
        raise DataError(f"{source}: 'agent' must be [id, location, held object or '']")
    dialect_from_content(content["dialect"], source)
    _check_receptacles(content["receptacles"], source)
    _check_objects(content["objects"], {row[0] for row in content["receptacles"]}, source)
    held = content["agent"][2]
    if held and held not in {row[0] for row in content["objects"]}:
        raise DataError(f"{source}: the agent holds {short_repr(held, 80)}, which is not an object of the game")
    table = content["contain"]
    if not isinstance(table, Mapping) or not all(isinstance(k, str) and _sorted(v) for k, v in table.items()):
        raise DataError(f"{source}: 'contain' must map receptacle types to sorted lists of object types")
    dialect = content["dialect"]
    ordered = {key: content[key] for key in _KEYS}
    ordered["dialect"] = dict(sorted(dialect.items())) if isinstance(dialect, Mapping) else dialect
    ordered["contain"] = dict(sorted(table.items()))
    return ordered


def _sorted(value: Any) -> bool:
    return is_string_list(value) and value == sorted(set(value))


def _check_ids(rows: Any, name: str, source: str) -> None:
    if not isinstance(rows, list) or len(rows) > MAX_THINGS:
        raise DataError(f"{source}: {name!r} must be a list of at most {MAX_THINGS} rows")
    for row in rows:
        if not isinstance(row, list) or not row or not isinstance(row[0], str) or not row[0]:
            raise DataError(f"{source}: every row of {name!r} starts with an id, got {short_repr(row)}")
    if not _sorted([row[0] for row in rows]):
        raise DataError(f"{source}: the rows of {name!r} must be sorted by id, without duplicates")


def _check_receptacles(rows: Any, source: str) -> None:
    _check_ids(rows, "receptacles", source)
    if not rows:
        raise DataError(f"{source}: a game needs at least one receptacle")
    for row in rows:
        if len(row) != 4 or not is_string_list(row) or row[3] not in ("", "openable", "opened"):
            raise DataError(
                f"{source}: a receptacle is [id, type, location, ''|'openable'|'opened'], got {short_repr(row)}"
            )


def _check_objects(rows: Any, receptacles: set[str], source: str) -> None:
    _check_ids(rows, "objects", source)
    names = {row[0] for row in rows}
    for row in rows:
        if len(row) != 6 or not isinstance(row[1], str) or not all(map(_sorted, row[2:])):
            raise DataError(
                f"{source}: an object is [id, type, locations, receptacles, containers, properties] with sorted "
                f"lists, got {short_repr(row)}"
            )
        if not set(row[3]) <= receptacles or not set(row[4]) <= names:
            raise DataError(
                f"{source}: object {short_repr(row[0], 80)} lies in a receptacle or object that the game does not have"
            )
        if not set(row[5]) <= {*AFFORDANCES, *STATES}:
            raise DataError(f"{source}: object {short_repr(row[0], 80)} has unknown properties {short_repr(row[5])}")


def goal_of(content: Mapping[str, Any]) -> Goal:
    """Return the goal of a validated content."""
    return Goal(*content["goal"])


TASK_PREFIX = "alfworld1"


def game_task(content: Mapping[str, Any]) -> Task:
    """Return the task of a validated content.

    ``canonical_id`` ignores ids (hence the numbers in names), the task sentence and the dialect. It hashes the result of
    colour refinement, so equal games always agree; games that differ agree only if three rounds cannot distinguish them.
    """
    return Task(content_id(TASK_PREFIX, content), _canonical_id(content), content)


def _canonical_id(content: Mapping[str, Any]) -> str:
    colour: dict[str, str] = {"": "", content["agent"][1]: "start"}
    for r, rtype, _home, openness in content["receptacles"]:
        colour[r] = f"{rtype}/{openness}"
    for o, otype, _homes, _inside, _containers, properties in content["objects"]:
        colour[o] = f"{otype}/{','.join(properties)}"
    for _round in range(3):
        colour = _refine(content, colour)
    summary = {
        "goal": content["goal"],
        "contain": content["contain"],
        "held": colour[content["agent"][2]],
        "things": sorted(colour.values()),
    }
    return content_id(f"{TASK_PREFIX}c", summary)


def _refine(content: Mapping[str, Any], colour: Mapping[str, str]) -> dict[str, str]:
    """Refine colours once: each becomes a hash of itself and its neighbours' colours."""
    around: dict[str, list[str]] = {name: [] for name in colour}
    for r, _rtype, home, _openness in content["receptacles"]:
        _link(around, colour, "stands", r, home)
    for o, _otype, homes, inside, containers, _properties in content["objects"]:
        for relation, related in (("at", homes), ("in", inside), ("within", containers)):
            for second in related:
                _link(around, colour, relation, o, second)
    return {name: _digest("|".join([colour.get(name, ""), *sorted(neighbours)])) for name, neighbours in around.items()}


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _link(around: dict[str, list[str]], colour: Mapping[str, str], relation: str, a: str, b: str) -> None:
    around.setdefault(a, []).append(f"{relation}>{colour.get(b, '')}")
    around.setdefault(b, []).append(f"{relation}<{colour.get(a, '')}")
