"""Games as the fields of ``.tw-pddl`` files, which TextWorld's engine runs.

They have a PDDL domain with the semantics of ``rules.py``, and a grammar. Both texts are our own, not copied from
the original files. Two checks hold the domain to the same semantics: the differential fuzzer, which runs exported games in
both engines, and ``pddl.check_domain``, which accepts exactly these actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import AFFORDANCES, STATES
from creditflow.envs.alfworld.grammar import grammar_text
from creditflow.envs.alfworld.pddl import goal_expression

__all__ = ["domain_text", "game_fields", "problem_text"]

# action -> (parameters besides the agent, precondition, effects); every action costs 1
_HERE: Final = "(atLocation ?a ?l) (receptacleAtLocation ?r ?l)"
_ACCESS: Final = "(or (opened ?r) (not (openable ?r)))"
_ACTIONS: Final[dict[str, tuple[str, str, str]]] = {
    "look": ("?l - location", "(atLocation ?a ?l)", "(checked ?l)"),
    "inventory": ("", "", "(checked ?a)"),
    "help": ("", "", "(checked ?a)"),
    "examineReceptacle": ("?r - receptacle ?l - location", _HERE, "(checked ?r)"),
    "examineObject": ("?o - object", "(holds ?a ?o)", "(checked ?o)"),
    "GotoLocation": (
        "?lStart - location ?lEnd - location ?r - receptacle",
        "(atLocation ?a ?lStart) (receptacleAtLocation ?r ?lEnd) (not (= ?lStart ?lEnd))",
        "(not (atLocation ?a ?lStart)) (atLocation ?a ?lEnd)",
    ),
    "OpenObject": ("?l - location ?r - receptacle", f"{_HERE} (openable ?r) (not (opened ?r))", "(opened ?r)"),
    "CloseObject": ("?l - location ?r - receptacle", f"{_HERE} (openable ?r) (opened ?r)", "(not (opened ?r))"),
    "PickupObject": (
        "?l - location ?o - object ?r - receptacle",
        f"{_HERE} {_ACCESS} (pickupable ?o) (inReceptacle ?o ?r) (not (holdsAny ?a))",
        "(holds ?a ?o) (holdsAny ?a) (not (inReceptacle ?o ?r)) (not (objectAtLocation ?o ?l))",
    ),
    "PutObject": (
        "?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype",
        f"{_HERE} {_ACCESS} (holds ?a ?o) (objectType ?o ?ot) (receptacleType ?r ?rt) (canContain ?rt ?ot)",
        "(inReceptacle ?o ?r) (objectAtLocation ?o ?l) (not (holds ?a ?o)) (not (holdsAny ?a))",
    ),
    "CleanObject": (
        "?l - location ?r - receptacle ?o - object",
        f"{_HERE} (holds ?a ?o) (cleanable ?o) (receptacleType ?r SinkBasinType)",
        "(isClean ?o)",
    ),
    "HeatObject": (
        "?l - location ?r - receptacle ?o - object",
        f"{_HERE} (holds ?a ?o) (heatable ?o) (receptacleType ?r MicrowaveType)",
        "(isHot ?o) (not (isCool ?o))",
    ),
    "CoolObject": (
        "?l - location ?r - receptacle ?o - object",
        f"{_HERE} (holds ?a ?o) (coolable ?o) (receptacleType ?r FridgeType)",
        "(isCool ?o) (not (isHot ?o))",
    ),
    "ToggleObject": (
        "?l - location ?o - object ?r - receptacle",
        f"{_HERE} (toggleable ?o) (inReceptacle ?o ?r)",
        "(isToggled ?o) (when (isOn ?o) (not (isOn ?o))) (when (not (isOn ?o)) (isOn ?o))",
    ),
    "SliceObject": (
        "?l - location ?co - object ?ko - object",
        "(atLocation ?a ?l) (objectAtLocation ?co ?l) (sliceable ?co) (holds ?a ?ko) "
        "(or (objectType ?ko KnifeType) (objectType ?ko ButterKnifeType))",
        "(isSliced ?co)",
    ),
}
_PREDICATES: Final = (
    "(atLocation ?a - agent ?l - location)",
    "(receptacleAtLocation ?r - receptacle ?l - location)",
    "(objectAtLocation ?o - object ?l - location)",
    "(openable ?r - receptacle)",
    "(opened ?r - receptacle)",
    "(inReceptacle ?o - object ?r - receptacle)",
    "(inReceptacleObject ?inner - object ?outer - object)",
    "(receptacleType ?r - receptacle ?t - rtype)",
    "(objectType ?o - object ?t - otype)",
    "(canContain ?rt - rtype ?ot - otype)",
    "(holds ?a - agent ?o - object)",
    "(holdsAny ?a - agent)",
    "(checked ?x)",
    "(isOn ?o - object)",
    *(f"({name} ?o - object)" for name in (*AFFORDANCES, *STATES)),
)
# constants that the actions refer to: every problem declares them
_CONSTANTS: Final = {
    "rtype": ("sinkbasintype", "microwavetype", "fridgetype"),
    "otype": ("knifetype", "butterknifetype"),
}


def domain_text(*, with_help: bool = True, with_sinks: bool = False) -> str:
    """Return a PDDL domain with the semantics of ``rules.py``.

    Args:
        with_help: include the command ``help``.
        with_sinks: objects can also be cleaned in receptacles of ``SinkType``. In known games this is the type of an
            *object*, and a PDDL name cannot be both.
    """
    lines = [
        "(define (domain alfred)",
        "(:requirements :adl :action-costs :typing)",
        "(:types agent location receptacle object rtype otype)",
        "(:predicates",
        *(f"  {predicate}" for predicate in _PREDICATES),
        ")",
        "(:functions (total-cost) - number)",
    ]
    for name, (parameters, precondition, effects) in _ACTIONS.items():
        if name == "help" and not with_help:
            continue
        if name == "CleanObject" and with_sinks:
            precondition = precondition.replace(
                "(receptacleType ?r SinkBasinType)",
                "(or (receptacleType ?r SinkBasinType) (receptacleType ?r SinkType))",
            )
        condition = f"(and {precondition})" if precondition else "()"
        lines += [
            f"(:action {name}",
            f"  :parameters (?a - agent{' ' + parameters if parameters else ''})",
            f"  :precondition {condition}",
            f"  :effect (and {effects} (increase (total-cost) 1))",
            ")",
        ]
    return "\n".join([*lines, ")"]) + "\n"


def problem_text(game: Game) -> str:
    """Return the PDDL problem of a game."""
    content = game.content
    agent, start, held = content["agent"]
    declared = {
        "agent": {agent},
        "location": set(game.location_ids),
        "receptacle": set(game.receptacle_ids),
        "object": set(game.object_ids),
        "rtype": {row[1] for row in content["receptacles"]} | {*content["contain"], *_CONSTANTS["rtype"]},
        "otype": {row[1] for row in content["objects"]} | set(_CONSTANTS["otype"]) | {game.goal.target},
    }
    declared["otype" if game.goal.looks else "rtype"].add(game.goal.place)
    facts = [f"(atLocation {agent} {start})"]
    if held:
        facts += [f"(holds {agent} {held})", f"(holdsAny {agent})"]
    for r, rtype, home, openness in content["receptacles"]:
        facts += [f"(receptacleType {r} {rtype})"] * bool(rtype) + [f"(receptacleAtLocation {r} {home})"] * bool(home)
        facts += [f"(openable {r})"] * bool(openness) + [f"(opened {r})"] * (openness == "opened")
    for o, otype, homes, inside, containers, properties in content["objects"]:
        facts += [f"(objectType {o} {otype})"] * bool(otype)
        facts += [f"(objectAtLocation {o} {home})" for home in homes]
        facts += [f"(inReceptacle {o} {r})" for r in inside]
        facts += [f"(inReceptacleObject {o} {outer})" for outer in containers]
        facts += [f"({name} {o})" for name in properties]
    facts += [f"(canContain {rtype} {otype})" for rtype, otypes in content["contain"].items() for otype in otypes]
    objects = [f"  {name} - {kind}" for kind, names in declared.items() for name in sorted(names - {""})]
    return "\n".join(
        [
            f"(define (problem creditflow_{game.digest})",
            "(:domain alfred)",
            "(:objects",
            *objects,
            ")",
            "(:init",
            *(f"  {fact}" for fact in facts),
            ")",
            f"(:goal {goal_expression(game.goal)})",
            ")",
            "",
        ]
    )


def game_fields(game: Game, walkthrough: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the fields of a ``.tw-pddl`` file."""
    fields: dict[str, Any] = {
        "pddl_domain": domain_text(with_help=bool(game.dialect.help), with_sinks="sinktype" in game.receptacle_types),
        "grammar": grammar_text(game.dialect, game.sentence),
        "pddl_problem": problem_text(game),
        "solvable": True,
    }
    return fields if walkthrough is None else {**fields, "walkthrough": list(walkthrough)}
