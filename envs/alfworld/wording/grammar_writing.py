"""TextWorld grammars of exported games, written from a ``Dialect``; ``grammar.parse_grammar`` inverts it."""

from __future__ import annotations

import json
from typing import Final

from creditflow.envs.alfworld.wording.dialect import EXAMINE_CONDITIONS, TASK_PREFIX, TASK_SUFFIX, Dialect

__all__ = ["grammar_text"]

_COMMANDS: Final = {
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
    actions = [*_COMMANDS.items(), ("PutObject", dialect.put)]
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
