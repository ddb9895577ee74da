"""Output formats of completions: dialects render an action as a completion, and parse a completion with a reason.

A dialect has two functions: ``write`` renders the completion that an expert would generate, ``parse`` parses any text. Our own
are strict: a completion either follows the format or it does not; an action inside other text is not found. ``VerlAgentDialect``
parses as the published agents' trainers do, so that their runs can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from creditflow.agents.base import Decision
from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error

__all__ = [
    "DIALECTS",
    "BareDialect",
    "Dialect",
    "Parsed",
    "RagenDialect",
    "ReactDialect",
    "TaggedDialect",
    "VerlAgentDialect",
    "decision_of",
    "make_dialect",
]

SOKOBAN_WORDS: Final = ("still", "up", "down", "left", "right")  # by the numbers of the released code
_ORDER: Final = ("up", "down", "left", "right", "still")  # the order in which the released code searches for them
_CJK: Final = re.compile("[\u4e00-\u9fff]")


def _between_tags(response: str) -> str | None:
    """The lower-cased text from the first opening to the first closing action tag; None if either is missing."""
    text = response.lower()
    start, end = text.find("<action>"), text.find("</action>")
    return None if start < 0 or end < 0 else text[start + len("<action>") : end].strip()


def _missing(response: str, inner: str | None) -> str:
    """Say which pair of tags is missing; "" if both are present."""
    if inner is None:
        return "there is no <action>…</action>"
    return "" if "<think>" in response and "</think>" in response else "there is no <think>…</think>"


def _command(response: str, tail: int) -> tuple[str, str]:
    inner = _between_tags(response)
    action = response.lower()[-tail:] if inner is None else inner
    return action, _missing(response, inner) or ("it has Chinese characters" if _CJK.search(response) else "")


def _direction(response: str) -> tuple[int, str]:
    inner = _between_tags(response)
    word = next((word for word in _ORDER if inner is not None and word in inner), "")
    reason = _missing(response, inner) or ("" if word else f"<action> has none of {', '.join(_ORDER)}")
    return (SOKOBAN_WORDS.index(word) if word else 0), reason


def _search(response: str) -> tuple[str, str]:
    text = response
    for closing in ("</search>", "</answer>"):
        if closing in text:
            text = text.partition(closing)[0] + closing
            break
    opened = sum(len(re.findall(f"<{tag}>", response, re.IGNORECASE)) for tag in ("search", "answer"))
    reason = "" if opened == 1 else f"there must be exactly one <search> or <answer> tag, but {opened} are opened"
    for tag in ("search", "answer"):
        match = re.search(f"<{tag}>(.*?)</{tag}>", text, re.IGNORECASE | re.DOTALL)
        if match:
            return f"<{tag}>{match[1].strip()}</{tag}>", reason
    return "", reason if opened > 1 else "there is no <search>…</search> and no <answer>…</answer>"


PROJECTIONS: Final[Mapping[str, Callable[[str], tuple[str | int, str]]]] = {
    "alfworld": lambda response: _command(response, 30),
    "webshop": lambda response: _command(response, 20),
    "sokoban": _direction,
    "search": _search,
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed completion.

    Attributes:
        action: text of the action for the environment; "" (which every environment rejects) if there is none.
        valid: whether the completion follows the format.
        reason: why it does not; "" if valid.
        thought: the reasoning, if the format has any.
    """

    action: str
    valid: bool
    reason: str = ""
    thought: str = ""


class Dialect(Protocol):
    """An output format: renders and parses completions."""

    @property
    def name(self) -> str:
        """Name of the format."""
        ...

    def write(self, action: str, thought: str = "") -> str:
        """Render the completion that ``parse`` reads as this action."""
        ...

    def parse(self, response: str) -> Parsed:
        """Parse the action from a completion."""
        ...


@dataclass(frozen=True, slots=True)
class BareDialect:
    """The completion is the action and nothing else.

    >>> BareDialect().parse(" up ")
    Parsed(action='up', valid=True, reason='', thought='')
    """

    name: str = "bare"

    def write(self, action: str, thought: str = "") -> str:  # noqa: ARG002 - this format has no thoughts
        """Render the action."""
        return action

    def parse(self, response: str) -> Parsed:
        """Take the stripped completion."""
        action = response.strip()
        return Parsed(action, True) if action else Parsed("", False, "the answer is empty")


_TAGGED: Final = re.compile(r"\s*(?:<think>(.*?)</think>\s*)?<action>(.*?)</action>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TaggedDialect:
    """``<think>reasoning</think><action>the action</action>``, and nothing before, between or after.

    >>> TaggedDialect().parse("<think>free</think> <action>up</action>").action
    'up'
    >>> TaggedDialect().parse("I go <action>up</action>").reason
    'there is no <think>…</think>'

    Args:
        think: whether the reasoning is required.
    """

    think: bool = True
    name: str = "tagged"

    def write(self, action: str, thought: str = "") -> str:
        """Render the tags."""
        return f"<think>{thought}</think><action>{action}</action>" if self.think else f"<action>{action}</action>"

    def parse(self, response: str) -> Parsed:
        """Take the stripped text between the tags."""
        match = _TAGGED.fullmatch(response)
        if match is None or "<action>" in match[2] or "</think>" in (match[1] or "") or "<think>" in (match[1] or ""):
            return Parsed("", False, self._fault(response))
        thought, action = (match[1] or "").strip(), match[2].strip()
        if self.think and match[1] is None:
            return Parsed("", False, "there is no <think>…</think> before the action", thought)
        if not action:
            return Parsed("", False, "<action> is empty", thought)
        return Parsed(action, True, "", thought)

    def _fault(self, response: str) -> str:
        if not response.strip():
            return "the answer is empty"
        for tag in ("action", "think") if self.think else ("action",):
            opened, closed = response.count(f"<{tag}>"), response.count(f"</{tag}>")
            if not opened and not closed:
                return f"there is no <{tag}>…</{tag}>"
            if opened != 1 or closed != 1:
                return f"<{tag}>…</{tag}> must occur once; it is opened {opened} and closed {closed} times"
        return "text outside <think> and <action>"


_REACT: Final = re.compile(r"\s*Thought:(.*?)\n\s*Action:(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReactDialect:
    r"""``Thought: reasoning`` and, on a line of its own and last, ``Action: the action`` (ReAct, Yao et al. 2023).

    >>> ReactDialect().parse("Thought: the box is free\nAction: up")
    Parsed(action='up', valid=True, reason='', thought='the box is free')
    >>> ReactDialect().parse("Action: up").reason
    'there is no line that begins with Thought:'
    """

    name: str = "react"

    def write(self, action: str, thought: str = "") -> str:
        """Render both lines."""
        return f"Thought: {thought}\nAction: {action}"

    def parse(self, response: str) -> Parsed:
        """Take the stripped text after ``Action:``."""
        if not response.strip():
            return Parsed("", False, "the answer is empty")
        for label in ("Thought:", "Action:"):
            count = sum(line.lstrip().startswith(label) for line in response.split("\n"))
            if count != 1:
                wrong = "no line that begins" if not count else f"more than one line ({count}) that begins"
                return Parsed("", False, f"there is {wrong} with {label}")
        match = _REACT.fullmatch(response)
        if match is None:
            return Parsed("", False, "the answer must begin with Thought: and end with Action:")
        thought, action = match[1].strip(), match[2].strip()
        if not action or "\n" in action:
            fault = "followed by more than its one line" if action else "empty"
            return Parsed("", False, f"Action: is {fault}", thought)
        return Parsed(action, True, "", thought)


@dataclass(frozen=True, slots=True)
class VerlAgentDialect:
    """Parses completions as verl-agent's released projections do, quirks included.

    ALFWorld and WebShop take the last 30 or 20 characters when the tags are missing and never check whether the action
    is admissible; Sokoban takes the first of up, down, left, right, still (in that order) that occurs anywhere inside
    the tags; Search takes the first search or answer block.

    Args:
        env: "alfworld", "webshop", "sokoban" or "search".
    """

    env: str
    name: str = "verl_agent"

    def __post_init__(self) -> None:
        if self.env not in PROJECTIONS:
            raise unknown_name_error("verl_agent projection", self.env, PROJECTIONS)

    def write(self, action: str, thought: str = "") -> str:
        """Render the completion that these trainers expect."""
        if self.env == "search":
            return f"<think>{thought}</think>{action}"
        return f"<think>{thought}</think><action>{action}</action>"

    def parse(self, response: str) -> Parsed:
        """Apply the projection; Sokoban's numbers become words."""
        action, reason = PROJECTIONS[self.env](response)
        text = SOKOBAN_WORDS[action] if isinstance(action, int) else action
        return Parsed(text, not reason, reason)


_RAGEN: Final = re.compile(r"<think>(.*?)</think>\s*<answer>(.*?)</answer>", re.DOTALL)
_RAGEN_MOVES: Final = SOKOBAN_WORDS[1:]
_MARKUP: Final = re.compile(r"</?(?:think|answer)>|<\|im_(?:start|end)\|>")


@dataclass(frozen=True, slots=True)
class RagenDialect:
    """``<think>reasoning</think> <answer>Right || Up</answer>``: several moves, as RAGEN's context manager parses them.

    Text around the tags is ignored. Of the first ``moves`` entries those that are moves are made, in any case of letters; the
    turn is invalid, and penalised, if another one is among them or if there is none.

    >>> RagenDialect(2).parse("<think>behind it</think> <answer>Right || up || Up</answer>").action
    'right up'
    >>> parsed = RagenDialect(2).parse("<think></think><answer>Right || jump</answer>")
    >>> parsed.action, parsed.valid, parsed.reason
    ('right', False, "'jump' is not one of Up, Down, Left, Right")

    Args:
        moves: entries of an answer that are read.
    """

    moves: int
    name: str = "ragen"

    def write(self, action: str, thought: str = "") -> str:
        """Render moves that are separated by spaces."""
        return f"<think>{thought}</think><answer>{' || '.join(action.title().split())}</answer>"

    def parse(self, response: str) -> Parsed:
        """Take the moves of the first answer that follows a thought."""
        match = _RAGEN.search(response)
        if match is None:
            return Parsed("", False, "there is no <think>…</think> <answer>…</answer>")
        thought, answer = (_MARKUP.sub("", text).strip() for text in match.groups())
        entries = [entry.strip().lower() for entry in answer.split("||") if entry.strip()][: self.moves]
        wrong = [entry for entry in entries if entry not in _RAGEN_MOVES]
        expected = ", ".join(move.title() for move in _RAGEN_MOVES)
        reason = f"{short_repr(wrong[0])} is not one of {expected}" if wrong else ""
        moves = " ".join(entry for entry in entries if entry in _RAGEN_MOVES)
        return Parsed(moves, bool(entries) and not wrong, reason if entries else "<answer> is empty", thought)


def _ragen(argument: str) -> Dialect:
    if not (argument.isascii() and argument.isdigit() and int(argument) > 0):
        raise ConfigError(f"write ragen:M, with the number of moves that a turn may have, got ragen:{argument}")
    return RagenDialect(int(argument))


DIALECTS: Final[Mapping[str, Callable[[str], Dialect]]] = {
    "bare": lambda argument: _no_argument(argument, "bare", BareDialect()),
    "action": lambda argument: _no_argument(argument, "action", TaggedDialect(think=False)),
    "think": lambda argument: _no_argument(argument, "think", TaggedDialect(think=True)),
    "react": lambda argument: _no_argument(argument, "react", ReactDialect()),
    "verl_agent": VerlAgentDialect,
    "ragen": _ragen,
}


def make_dialect(spec: str) -> Dialect:
    """Make a dialect by name.

    ``bare``, ``action`` (tags around the action), ``think`` (with reasoning), ``react`` (lines of thought and action),
    ``verl_agent:ENV``, ``ragen:M`` (several moves, separated by ``||``).

    Raises:
        ConfigError: an unknown name; suggests the nearest one.
    """
    name, _, argument = spec.partition(":")
    if name not in DIALECTS:
        raise unknown_name_error("dialect", name, DIALECTS)
    return DIALECTS[name](argument)


def _no_argument(argument: str, name: str, dialect: Dialect) -> Dialect:
    if argument:
        raise ConfigError(f"dialect {name!r} takes no argument, got {short_repr(argument)}")
    return dialect


def decision_of(dialect: Dialect, completion: str, limit: int | None = None) -> Decision:
    """What a completion decides. One with more than ``limit`` characters is invalid, and its text is not kept."""
    if limit is not None and len(completion) > limit:
        action = dialect.parse("").action
        return Decision(action, invalid_reason=f"the completion has {len(completion)} characters, more than {limit}")
    parsed = dialect.parse(completion)
    return Decision(parsed.action, parsed.thought, completion, "" if parsed.valid else parsed.reason)
