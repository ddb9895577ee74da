"""The grammars in game files: read into a ``Dialect``, and written from one.

Every ``.tw-pddl`` file contains the texts of its commands and replies. Three generations are in circulation ("move … to
…", "put … in/on …", and an early one without articles), so the wording comes from the file. The *structure* of the rules
is fixed here; a grammar of another structure is an error. The text written for exported games is read back to the same
``Dialect``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from creditflow.envs.alfworld.dialect import EXAMINE_CONDITIONS, TASK_PREFIX, TASK_SUFFIX, Dialect
from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import parse_json

__all__ = ["grammar_text", "parse_grammar"]

# -- reading a grammar -----------------------------------------------------------------------------------------------
_BLOCK = re.compile(r'grammar\s*::\s*"""(.*?)"""', re.DOTALL)
_ACTION = re.compile(
    r'action\s+([\w/-]+)\s*\{\s*template\s*::\s*"([^"]*)"\s*;\s*feedback\s*::\s*"([^"]*)"\s*;', re.DOTALL
)
_LIST = re.compile(r"\[\{([^|{}]*)\|([^{}]*)\}\]")
_NAME = re.compile(r"\{(\w+)\.name(?: or \w+\.id)?\}")
_TASK_RULE = re.compile(r'("task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*)("(?:[^"\\]|\\.)*")')
MAX_GRAMMAR = 400_000  # characters; released grammars have 14,000

# command templates that all generations share; put and the list in go are read separately
_COMMANDS = {
    "openobject": "open {r}",
    "closeobject": "close {r}",
    "pickupobject": "take {o} from {r}",
    "inventory": "inventory",
    "examinereceptacle": "examine {r}",
    "examineobject": "examine {o}",
    "toggleobject": "use {o}",
    "heatobject": "heat {o} with {r}",
    "cleanobject": "clean {o} with {r}",
    "coolobject": "cool {o} with {r}",
    "sliceobject": "slice {co} with {ko}",
    "look": "look",
}
_HERE = "atlocation(a:agent,l:location)&receptacleatlocation(r:receptacle,l:location)"
_FLOOR = (
    "atlocation(a:agent,l:location)&objectatlocation(o:object,l:location)"
    "&receptacleatlocation(r:receptacle,l:location)&not_inreceptacle(o:object,r:receptacle)"
)


def parse_grammar(text: str, source: str) -> tuple[Dialect, str]:
    """Return the dialect of a grammar and its task sentence (without "Your task is to: " and the full stop).

    Raises:
        DataError: a malformed grammar, or one of unknown structure.
    """
    if len(text) > MAX_GRAMMAR:
        raise DataError(f"{source}: a grammar of {len(text)} characters, expected at most {MAX_GRAMMAR}")
    match = _TASK_RULE.search(text)
    if match is None:
        raise DataError(f'{source}: the grammar has no rule "task" with the sentence "{TASK_PREFIX}…"')
    sentence = _loads(match.group(2), source)
    if not sentence.startswith(TASK_PREFIX) or not sentence.endswith(TASK_SUFFIX):
        raise DataError(f'{source}: the task sentence must read "{TASK_PREFIX}….", got {short_repr(sentence, 120)}')
    try:
        dialect = _dialect(text[: match.start(2)] + '"TASK"' + text[match.end(2) :])
    except _ForeignError as problem:
        raise DataError(
            f"{source}: the native rules do not know this version of the grammar ({problem}), only the 'move … to …', "
            "'put … in/on …' and article-free generations. backend='textworld' runs any grammar"
        ) from None
    return dialect, sentence[len(TASK_PREFIX) : len(sentence) - len(TASK_SUFFIX)]


class _ForeignError(Exception):
    """The grammar has an unknown structure."""


def _loads(text: str, source: str) -> Any:
    return parse_json(text, where=f"{source}: the grammar's task sentence")


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _rhs(option: Mapping[str, Any]) -> str:
    """Return the text of an option."""
    text = option["rhs"]
    if not isinstance(text, str):
        raise TypeError(f"rhs must be a string, got {short_repr(text)}")
    return text


class _Rules:
    """The rules and actions of a grammar text."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, list[tuple[str, str]]] = {}
        for block in _BLOCK.findall(text):
            lines = "\n".join(line for line in block.split("\n") if not line.lstrip().startswith("#"))
            try:
                data = parse_json(lines, where="block")
                for name, options in data.items():
                    self.rules[name] = [(_squeeze(option.get("condition", "")), _rhs(option)) for option in options]
            except (DataError, KeyError, AttributeError, TypeError) as error:
                raise _ForeignError(f"a grammar block is not JSON of the expected shape: {error}") from error
        self.actions = {name.lower(): (template, reply) for name, template, reply in _ACTION.findall(text)}

    def options(self, name: str) -> list[tuple[str, str]]:
        """Return the (condition, text) alternatives of a rule."""
        if name not in self.rules:
            raise _ForeignError(f"rule {name!r} is missing")
        return self.rules[name]

    def reply(self, action: str, conditions: tuple[str, ...] = ("",)) -> list[str]:
        """Return the reply texts of an action, whose conditions must equal ``conditions``."""
        if action not in self.actions:
            raise _ForeignError(f"action {action!r} is missing")
        feedback = self.actions[action][1]
        if re.fullmatch(r"#[^#]+#", feedback) is None:
            return [feedback]
        return self.texts(feedback[1:-1], conditions)

    def texts(self, name: str, conditions: tuple[str, ...] = ("",)) -> list[str]:
        """Return the texts of a rule, whose conditions must equal ``conditions``."""
        options = self.options(name)
        if tuple(condition for condition, _ in options) != conditions:
            raise _ForeignError(f"the conditions of rule {name!r} differ")
        return [text for _, text in options]


def _template(text: str, lists: str = "", **rename: str) -> str:
    """Turn a grammar text into a ``str.format`` template; ``lists`` is the condition of its enumeration."""

    def enumeration(match: re.Match[str]) -> str:
        if _squeeze(match.group(2)) != lists:
            raise _ForeignError(f"the enumeration {match.group(0)!r} differs")
        return "\x00list\x01"

    text = _LIST.sub(enumeration, text)
    text = _NAME.sub(lambda match: f"\x00{rename.get(match.group(1), match.group(1))}\x01", text)
    if any(mark in text for mark in "{}[]#"):
        raise _ForeignError(f"the text {short_repr(text, 80)} has other placeholders")
    return text.replace("\x00", "{").replace("\x01", "}")


def _ends(text: str, suffix: str) -> str:
    if not text.endswith(suffix):
        raise _ForeignError(f"the text {short_repr(text, 80)} does not end with {suffix}")
    return text[: len(text) - len(suffix)]


@lru_cache(maxsize=16)
def _dialect(text: str) -> Dialect:
    rules = _Rules(text)
    for name, template in _COMMANDS.items():
        if rules.actions.get(name, ("",))[0] != template:
            raise _ForeignError(f"the command of action {name!r} is not {template!r}")
    go = rules.actions.get("gotolocation", ("",))[0]
    if _squeeze(go) != "goto[{r.name|receptacleatlocation(r:receptacle,lend:location)}]":
        raise _ForeignError("the command of action 'gotolocation' differs")
    examine = "#examineReceptacle.feedback#"
    openable = "openable(r:receptacle)"
    is_open = f"{openable}&opened(r:receptacle)"
    inside = "inreceptacle(o:object,r:receptacle)"
    seen = rules.reply("examinereceptacle", (is_open, openable, ""))
    carried = rules.reply("inventory", ("holdsany(a:agent)", ""))
    toggled = rules.reply("toggleobject", ("toggleable(o:object)&istoggled(o:object)", "toggleable(o:object)", ""))
    looks = rules.reply("look", (_HERE, ""))
    facing, state_open, state_closed = _facing(rules, is_open, openable)
    if rules.texts("list_objects_on_the_floor", (_FLOOR, ""))[1] != "nothing":
        raise _ForeignError("the empty floor list differs")
    _check_lists(rules)
    article = _article(rules, [*seen[:1], *seen[2:], carried[0]])
    beside = looks[0].replace("#look-variations#", "", 1).replace("#list_objects_on_the_floor#", "\x00list\x01", 1)
    intro = rules.texts("intro")[0].replace("#look.feedback#", "\x00look\x01", 1).replace("#task#", "\x00task\x01", 1)
    return Dialect(
        put=_put_command(rules.actions.get("putobject", ("",))[0]),
        welcome=_template(intro),
        arrived=_template(_ends(rules.reply("gotolocation")[0], examine), lend="l"),
        opened=_template(_ends(rules.reply("openobject")[0], examine)),
        closed=_template(rules.reply("closeobject")[0]),
        taken=_template(rules.reply("pickupobject")[0]),
        moved=_template(rules.reply("putobject")[0]),
        carrying=_template(carried[0], "holds(a:agent,o:object)"),
        empty_handed=_template(carried[1]),
        seen_open=_template(seen[0], inside),
        seen_closed=_template(seen[1]),
        seen_on=_template(seen[2], inside),
        toggled=_template(toggled[0]),
        heated=_template(rules.reply("heatobject")[0]),
        cleaned=_template(rules.reply("cleanobject")[0]),
        cooled=_template(rules.reply("coolobject")[0]),
        sliced=_template(rules.reply("sliceobject")[0], co="o", ko="k"),
        facing=facing,
        beside=_template(beside),
        middle=_template(looks[1].replace("#list_appliances#", "\x00list\x01", 1)),
        article=article,
        state_open=state_open,
        state_closed=state_closed,
        properties=_properties(rules),
        help=rules.reply("help")[0].lstrip("\n") if "help" in rules.actions else "",
    )


def _put_command(template: str) -> str:
    if template not in ("move {o} to {r}", "put {o} in/on {r}"):
        raise _ForeignError(f"the command of action 'putobject' is {short_repr(template, 40)}")
    return template


def _facing(rules: _Rules, is_open: str, openable: str) -> tuple[str, str, str]:
    """Return the template of "You are facing …", and the suffixes of open and of closed receptacles."""
    text = rules.texts("look-variations")[0]
    if "#overview_with_state(r)#" not in text:
        return _template(text, _HERE), "", ""
    if rules.texts("overview_with_state(r)")[0] != "{r.name or r.id}#overview_state(r)#":
        raise _ForeignError("rule 'overview_with_state(r)' differs")
    states = rules.texts("overview_state(r)", (is_open, openable, ""))
    plain = text.replace("#overview_with_state(r)#", "r.name")
    return _template(plain, _HERE), _template(states[0]), _template(states[1])


def _check_lists(rules: _Rules) -> None:
    appliances = rules.texts("list_appliances", ("receptacleatlocation(r:receptacle,l:location)", ""))
    floor = rules.texts("list_objects_on_the_floor", (_FLOOR, ""))
    expected = {
        "list_appliances": _squeeze(appliances[0]) == "[{#overview(r)#|receptacleatlocation(r:receptacle,l:location)}]",
        "list_objects_on_the_floor": _squeeze(floor[0]) == f"[{{#overview(o)#|{_FLOOR}}}]",
        "list_empty": rules.texts("list_empty") == ["nothing"] and appliances[1] == "nothing",
        "list_separator": rules.texts("list_separator") == [", "],
        "list_last_separator": rules.texts("list_last_separator") == [", and "],
    }
    for name, same in expected.items():
        if not same:
            raise _ForeignError(f"rule {name!r} differs")


def _article(rules: _Rules, enumerations: list[str]) -> str:
    """Return the article before listed names: "a " if every list has it ("a apple 1"), "" if none has."""
    plain = [
        rules.texts("overview(o)")[0] == "{o.name}",
        rules.texts("overview(r)")[0] == "{r.name or r.id}",
        *("indefinite" not in text for text in enumerations),
    ]
    marked = [
        rules.texts("overview(o)")[0] == "{o.indefinite} {o.name}",
        rules.texts("overview(r)")[0] == "{r.indefinite} {r.name or r.id}",
        *("{o.indefinite + ' ' + o.name |" in text for text in enumerations),
    ]
    if all(plain):
        return ""
    if all(marked):
        return "a "
    raise _ForeignError("articles are used in some lists only")


def _properties(rules: _Rules) -> tuple[str, ...]:
    conditions = tuple("&".join(f"{name}(o:object)" for name in names) for names in EXAMINE_CONDITIONS)
    texts = rules.reply("examineobject", conditions)
    return tuple(_template(text, "inreceptacleobject(o2:object,o:object)") for text in texts)


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
