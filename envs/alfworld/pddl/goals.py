"""ALFWorld's six goals: PDDL goal expressions, parsed into a record and written back.

Goals are conjunctions of existential statements, of six fixed shapes. A goal is recognised by its *set* of atoms, so
their order in the file does not matter; any other expression is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from creditflow.envs.alfworld.pddl.reading import SExpr
from creditflow.envs.errors import DataError

__all__ = ["PROPERTIES", "TASK_TYPES", "Goal", "goal_expression", "parse_goal"]

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
