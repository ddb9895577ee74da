"""Games as the fields of ``.tw-pddl`` files, which TextWorld's engine runs.

They have a PDDL domain with the semantics of ``rules.py``, and a grammar. Both texts are our own, not copied from
the original files. Two checks hold the domain to the same semantics: the differential fuzzer, which runs exported games in
both engines, and ``pddl.check_domain``, which accepts exactly these actions. ``grammar.parse_grammar`` reads the grammar back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from creditflow.envs.alfworld.dialect import EXAMINE_CONDITIONS, TASK_PREFIX, TASK_SUFFIX, Dialect
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import AFFORDANCES, STATES
from creditflow.envs.alfworld.pddl import PROPERTIES, Goal

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


_WRITTEN_COMMANDS: Final = {
    "GotoLocation": "go to [{r.name | receptacleatlocation(r:receptacle, lend:location)}]",
    "OpenObject": "open {r}",
    "CloseObject": "close {r}",
    "PickupObject": "take {o} from {r}",
    "inventory": "inventory",
    "examineReceptacle": "examine {r}",
    "examineObject": "examine {o}",
    "ToggleObject": "use {o}",
    "HeatObject": "heat {o} with {r}",
    "CleanObject": "clean {o} with {r}",
    "CoolObject": "cool {o} with {r}",
    "SliceObject": "slice {co} with {ko}",
    "look": "look",
}
_STANDING: Final = "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)"
_BESIDE: Final = (
    "atlocation(a:agent, l:location) & objectatlocation(o:object, l:location) & "
    "receptacleatlocation(r:receptacle, l:location) & not_inreceptacle(o:object, r:receptacle)"
)
_INSIDE: Final = "inreceptacle(o:object, r:receptacle)"
_EXAMINE: Final = "#examineReceptacle.feedback#"


def grammar_text(dialect: Dialect, sentence: str) -> str:
    """Return a TextWorld grammar with the texts of ``dialect``; ``grammar.parse_grammar`` inverts it."""
    rules = json.dumps(_rules(dialect, sentence), indent=1)
    actions = [*_WRITTEN_COMMANDS.items(), ("PutObject", dialect.put)]
    if dialect.help:
        actions.append(("help", "help"))
    blocks = [
        f'action {name} {{\n  template :: "{command}";\n  feedback :: "#{name}.feedback#";\n}}'
        for name, command in actions
    ]
    return "\n\n".join([f'grammar :: """\n{rules}\n""";', *blocks]) + "\n"


def _rules(d: Dialect, sentence: str) -> dict[str, list[dict[str, str]]]:
    thing = "{o.indefinite} {o.name}" if d.article else "{o.name}"
    stand = "{r.indefinite} {r.name or r.id}" if d.article else "{r.name or r.id}"
    is_open, openable = "openable(r:receptacle) & opened(r:receptacle)", "openable(r:receptacle)"
    facing = "r.name" if not d.state_open else "#overview_with_state(r)#"
    return {
        "intro": _rule_of_one(d.welcome.format(look="#look.feedback#", task="#task#")),
        "task": _rule_of_one(f"{TASK_PREFIX}{sentence}{TASK_SUFFIX}"),
        "GotoLocation.feedback": _rule_of_one(d.arrived.format(r="{r.name}", l="{lend.name}") + _EXAMINE),
        "OpenObject.feedback": _rule_of_one(_named(d.opened) + _EXAMINE),
        "CloseObject.feedback": _rule_of_one(_named(d.closed)),
        "PickupObject.feedback": _rule_of_one(_named(d.taken)),
        "PutObject.feedback": _rule_of_one(_named(d.moved)),
        "CleanObject.feedback": _rule_of_one(_named(d.cleaned)),
        "HeatObject.feedback": _rule_of_one(_named(d.heated)),
        "CoolObject.feedback": _rule_of_one(_named(d.cooled)),
        "SliceObject.feedback": _rule_of_one(d.sliced.format(o="{co.name}", k="{ko.name}")),
        "ToggleObject.feedback": [
            _rule(_named(d.toggled), "toggleable(o:object) & istoggled(o:object)"),
            _rule(_named(d.toggled), "toggleable(o:object)"),
            _rule(_named(d.toggled)),
        ],
        "inventory.feedback": [
            _rule(d.carrying.format(list=_items(d, "holds(a:agent, o:object)")), "holdsany(a:agent)"),
            _rule(d.empty_handed),
        ],
        "examineReceptacle.feedback": [
            _rule(d.seen_open.format(r="{r.name}", list=_items(d, _INSIDE)), is_open),
            _rule(_named(d.seen_closed), openable),
            _rule(d.seen_on.format(r="{r.name}", list=_items(d, _INSIDE))),
        ],
        "examineObject.feedback": _examine_rules(d),
        "look.feedback": [
            _rule("#look-variations#" + d.beside.format(list="#list_objects_on_the_floor#"), _STANDING),
            _rule(d.middle.format(list="#list_appliances#")),
        ],
        "look-variations": _rule_of_one(d.facing.format(list=f"[{{{facing} | {_STANDING}}}]")),
        "list_objects_on_the_floor": [_rule(f"[{{#overview(o)# | {_BESIDE}}}]", _BESIDE), _rule("nothing")],
        "list_appliances": [
            _rule(
                "[{#overview(r)# | receptacleatlocation(r:receptacle, l:location)}]",
                "receptacleatlocation(r:receptacle, l:location)",
            ),
            _rule("nothing"),
        ],
        "overview(o)": _rule_of_one(thing),
        "overview(r)": _rule_of_one(stand),
        "overview_with_state(r)": _rule_of_one("{r.name or r.id}#overview_state(r)#"),
        "overview_state(r)": [_rule(d.state_open, is_open), _rule(d.state_closed, openable), _rule("")],
        "list_empty": _rule_of_one("nothing"),
        "list_separator": _rule_of_one(", "),
        "list_last_separator": _rule_of_one(", and "),
        **({"help.feedback": _rule_of_one("\n" + d.help)} if d.help else {}),
    }


def _rule(text: str, condition: str = "") -> dict[str, str]:
    return {"condition": condition, "rhs": text} if condition else {"rhs": text}


def _rule_of_one(text: str) -> list[dict[str, str]]:
    return [_rule(text)]


def _named(template: str) -> str:
    return template.format(o="{o.name}", r="{r.name}")


def _items(dialect: Dialect, condition: str, name: str = "o") -> str:
    expression = f"{name}.indefinite + ' ' + {name}.name" if dialect.article else f"{name}.name"
    return f"[{{{expression} | {condition}}}]"


def _examine_rules(d: Dialect) -> list[dict[str, str]]:
    inner = _items(d, "inreceptacleobject(o2:object, o:object)", "o2")
    return [
        _rule(sentence.format(o="{o.name}", list=inner), " & ".join(f"{name}(o:object)" for name in names))
        for names, sentence in zip(EXAMINE_CONDITIONS, d.properties, strict=True)
    ]
