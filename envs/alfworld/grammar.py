"""What the engine says: a game file's grammar, read into a ``Dialect``.

Every ``.tw-pddl`` file carries the texts of its commands and replies. Three generations are in circulation ("move …
to …", "put … in/on …", and an early one without articles), so the engine takes its wording from the file. Only the
rule *structure* is fixed here; a grammar of another structure is refused rather than played wrongly.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from creditflow.envs.errors import DataError

__all__ = ["DIALECTS", "Dialect", "dialect_from_content", "dialect_to_content", "parse_grammar"]

# Conditions of the sentences about an examined object, in the engine's order: the first that holds speaks.
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
    """Templates of the texts. ``{o}``, ``{r}``, ``{k}``, ``{l}`` stand for names, ``{list}`` for an enumeration.

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
PUT = Dialect(
    put="put {o} in/on {r}", arrived="You arrive at {l}. ", moved="You put the {o} in/on the {r}.", help=""
)
DIALECTS: dict[str, Dialect] = {"move": MOVE, "put": PUT}

NOTHING_HAPPENS = "Nothing happens."
TASK_PREFIX, TASK_SUFFIX = "Your task is to: ", "."


def dialect_to_content(dialect: Dialect) -> str | dict[str, Any]:
    """The name of a known dialect, else all its templates."""
    for name, known in DIALECTS.items():
        if dialect == known:
            return name
    return {**asdict(dialect), "properties": list(dialect.properties)}


def dialect_from_content(content: Any, source: str) -> Dialect:
    """Inverse of ``dialect_to_content``.

    Raises:
        DataError: neither a known name nor a full set of templates.
    """
    if isinstance(content, str) and content in DIALECTS:
        return DIALECTS[content]
    names = {field.name for field in fields(Dialect)}
    if not isinstance(content, dict) or set(content) != names:
        raise DataError(f"{source}: dialect must be one of {sorted(DIALECTS)} or hold exactly {sorted(names)}")
    sentences = content["properties"]
    texts = [*(value for name, value in content.items() if name != "properties"), *(sentences or ())]
    if not isinstance(sentences, list) or len(sentences) != len(EXAMINE_CONDITIONS):
        raise DataError(f"{source}: dialect.properties must be a list of {len(EXAMINE_CONDITIONS)} sentences")
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{source}: every template of a dialect must be a string")
    dialect = Dialect(**{**content, "properties": tuple(sentences)})
    _check_fields(dialect, source)
    return dialect


def _check_fields(dialect: Dialect, source: str) -> None:
    """Templates may only use the placeholders that the engine fills (and no attribute or index access)."""
    texts = [value for value in asdict(dialect).values() if isinstance(value, str)] + list(dialect.properties)
    for text in texts:
        for name in re.findall(r"\{([^}]*)\}", text):
            if name not in ("o", "r", "k", "l", "list", "look", "task"):
                raise DataError(f"{source}: template {text!r:.80} has the unknown placeholder {{{name:.20}}}")
        if text.count("{") != text.count("}") or re.sub(r"\{[^{}]*\}", "", text).count("{"):
            raise DataError(f"{source}: template {text!r:.80} has unbalanced braces")


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
    """The dialect of a grammar and its task sentence (without "Your task is to: " and the full stop).

    Raises:
        DataError: the grammar is malformed, or of a structure whose texts this engine does not know.
    """
    if len(text) > MAX_GRAMMAR:
        raise DataError(f"{source}: a grammar of {len(text)} characters, expected at most {MAX_GRAMMAR}")
    match = _TASK_RULE.search(text)
    if match is None:
        raise DataError(f'{source}: the grammar has no rule "task" with the sentence "{TASK_PREFIX}…"')
    sentence = _loads(match.group(2), source)
    if not sentence.startswith(TASK_PREFIX) or not sentence.endswith(TASK_SUFFIX):
        raise DataError(f'{source}: the task sentence must read "{TASK_PREFIX}….", got {sentence!r:.120}')
    try:
        dialect = _dialect(text[: match.start(2)] + '"TASK"' + text[match.end(2) :])
    except _Foreign as problem:
        raise DataError(
            f"{source}: this grammar is of a version that the native engine does not know ({problem}); known are the "
            "'move … to …', 'put … in/on …' and article-free generations. backend='textworld' plays any grammar"
        ) from None
    return dialect, sentence[len(TASK_PREFIX) : len(sentence) - len(TASK_SUFFIX)]


class _Foreign(Exception):
    """The grammar's structure is not known."""


def _loads(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source}: malformed JSON inside the grammar: {error}") from error


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


class _Rules:
    """The rules and actions of a grammar text."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, list[tuple[str, str]]] = {}
        for block in _BLOCK.findall(text):
            lines = "\n".join(line for line in block.split("\n") if not line.lstrip().startswith("#"))
            try:
                data = json.loads(lines)
                for name, options in data.items():
                    self.rules[name] = [(_squeeze(option.get("condition", "")), option["rhs"]) for option in options]
            except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
                raise _Foreign(f"a grammar block is not JSON of the expected shape: {error}") from error
        self.actions = {name.lower(): (template, reply) for name, template, reply in _ACTION.findall(text)}

    def options(self, name: str) -> list[tuple[str, str]]:
        """The (condition, text) alternatives of a rule."""
        if name not in self.rules:
            raise _Foreign(f"rule {name!r} is missing")
        return self.rules[name]

    def reply(self, action: str, conditions: tuple[str, ...] = ("",)) -> list[str]:
        """The reply texts of an action, whose conditions must be these."""
        if action not in self.actions:
            raise _Foreign(f"action {action!r} is missing")
        feedback = self.actions[action][1]
        if re.fullmatch(r"#[^#]+#", feedback) is None:
            return [feedback]
        return self.texts(feedback[1:-1], conditions)

    def texts(self, name: str, conditions: tuple[str, ...] = ("",)) -> list[str]:
        """The texts of a rule, whose conditions must be these."""
        options = self.options(name)
        if tuple(condition for condition, _ in options) != conditions:
            raise _Foreign(f"the conditions of rule {name!r} differ")
        return [text for _, text in options]


def _template(text: str, lists: str = "", **rename: str) -> str:
    """A grammar text as a ``str.format`` template; ``lists`` is the condition its enumeration must have."""

    def enumeration(match: re.Match[str]) -> str:
        if _squeeze(match.group(2)) != lists:
            raise _Foreign(f"the enumeration {match.group(0)!r} differs")
        return "\x00list\x01"

    text = _LIST.sub(enumeration, text)
    text = _NAME.sub(lambda match: f"\x00{rename.get(match.group(1), match.group(1))}\x01", text)
    if any(mark in text for mark in "{}[]#"):
        raise _Foreign(f"the text {text!r:.80} has other placeholders")
    return text.replace("\x00", "{").replace("\x01", "}")


def _ends(text: str, suffix: str) -> str:
    if not text.endswith(suffix):
        raise _Foreign(f"the text {text!r:.80} does not end with {suffix}")
    return text[: len(text) - len(suffix)]


@lru_cache(maxsize=16)
def _dialect(text: str) -> Dialect:
    rules = _Rules(text)
    for name, template in _COMMANDS.items():
        if rules.actions.get(name, ("",))[0] != template:
            raise _Foreign(f"the command of action {name!r} is not {template!r}")
    go = rules.actions.get("gotolocation", ("",))[0]
    if _squeeze(go) != "goto[{r.name|receptacleatlocation(r:receptacle,lend:location)}]":
        raise _Foreign("the command of action 'gotolocation' differs")
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
        raise _Foreign("the empty floor list differs")
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
        raise _Foreign(f"the command of action 'putobject' is {template!r:.40}")
    return template


def _facing(rules: _Rules, is_open: str, openable: str) -> tuple[str, str, str]:
    """How "You are facing …" is said, and what follows the name of an open and of a closed receptacle."""
    text = rules.texts("look-variations")[0]
    if "#overview_with_state(r)#" not in text:
        return _template(text, _HERE), "", ""
    if rules.texts("overview_with_state(r)")[0] != "{r.name or r.id}#overview_state(r)#":
        raise _Foreign("rule 'overview_with_state(r)' differs")
    states = rules.texts("overview_state(r)", (is_open, openable, ""))
    plain = text.replace("#overview_with_state(r)#", "r.name")
    return _template(plain, _HERE), _template(states[0]), _template(states[1])


def _check_lists(rules: _Rules) -> None:
    appliances = rules.texts("list_appliances", ("receptacleatlocation(r:receptacle,l:location)", ""))
    floor = rules.texts("list_objects_on_the_floor", (_FLOOR, ""))
    expected = {
        "list_appliances": _squeeze(appliances[0])
        == "[{#overview(r)#|receptacleatlocation(r:receptacle,l:location)}]",
        "list_objects_on_the_floor": _squeeze(floor[0]) == f"[{{#overview(o)#|{_FLOOR}}}]",
        "list_empty": rules.texts("list_empty") == ["nothing"] and appliances[1] == "nothing",
        "list_separator": rules.texts("list_separator") == [", "],
        "list_last_separator": rules.texts("list_last_separator") == [", and "],
    }
    for name, same in expected.items():
        if not same:
            raise _Foreign(f"rule {name!r} differs")


def _article(rules: _Rules, enumerations: list[str]) -> str:
    """ "a " if every list says "a apple 1", "" if none does."""
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
    raise _Foreign("articles are used in some lists only")


def _properties(rules: _Rules) -> tuple[str, ...]:
    conditions = tuple("&".join(f"{name}(o:object)" for name in names) for names in EXAMINE_CONDITIONS)
    texts = rules.reply("examineobject", conditions)
    return tuple(_template(text, "inreceptacleobject(o2:object,o:object)") for text in texts)
