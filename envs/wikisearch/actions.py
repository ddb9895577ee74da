"""An agent's turn: the grammar of a well-formed one, and the call that each dialect plays.

    turn := <think> thought </think> call        call := <TAG> body </TAG>, TAG of ``CALLS``

with white space around both and nothing else: no text between or after them, no prose outside the tags, no second or unclosed
<think>, no tag of the protocol in the thought or the body (such as a result that the model wrote itself), a thought that is not
blank and a body that is a call. Formats are checked, thoughts read and transcripts graded by this grammar. The parsers of
dialects are more lenient: they also play a call that stands in other text, as the released environments do. Of a well-formed
turn they play its one call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "JSON_CALLS",
    "TEXT_CALLS",
    "Block",
    "Call",
    "Parse",
    "Tool",
    "blocks",
    "is_tagged",
    "parse_plain",
    "parse_tags",
    "parse_tool_call",
    "tagged_thought",
    "thought_before",
    "truncate_turn",
    "turn_fault",
]

Tool = Literal["search", "visit", "answer"]


class Call(NamedTuple):
    """One call: a tool, its arguments (queries, page names, or one answer), and what a visit looks for on its pages."""

    tool: Tool
    items: tuple[str, ...]
    goal: str = ""


class Parse(NamedTuple):
    """A parsed text: the call, or the reason why there is none, and the text outside it (the thought)."""

    call: Call | None
    reason: str
    thought: str = ""


TEXT_CALLS: Final = ("search", "access", "answer")  # tags of the dialects of Search-R1 and PiCA
JSON_CALLS: Final = ("tool_call", "answer")  # those of the dialects with JSON calls
CALLS: Final = "search|access|answer|tool_call"
_RESULTS: Final = "tool_response|information|warning|observation"
_TAG: Final = re.compile(rf"(</?(?:think|{CALLS}|{_RESULTS})>)")
_CALL_TAGS: Final = tuple(f"<{name}>" for name in CALLS.split("|"))
# an unclosed block extends to the end of the text: it may be a truncated call
_BLOCK: Final = re.compile(rf"<({CALLS}|{_RESULTS})>.*?(?:</\1>|\Z)", re.DOTALL)
_THINK: Final = re.compile(r"</?think>")
_LINE: Final = re.compile(r"^[ \t]*(search|visit|answer)[ \t]*:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)


def is_tagged(response: str) -> bool:
    """Whether a response has a tag of the protocol; dialects of plain lines have none."""
    return _TAG.search(response) is not None


def turn_fault(response: str, thought: str = "", calls: Collection[str] = (*TEXT_CALLS, *JSON_CALLS)) -> str:
    """Why a tagged response is not a well-formed turn; "" if it is.

    >>> turn_fault("<think>Nolan?</think> <search>Nolan</search>")
    ''
    >>> turn_fault("Nolan? <search>Nolan</search>")
    'it must be <think>…</think>, then one call, and nothing else'

    Args:
        response: what the model wrote.
        thought: the thought that a server keeps apart from the response, which then has no <think> of its own.
        calls: tags of the calls that count.
    """
    turn = _parts(response)
    if turn is None:
        return "it must be <think>…</think>, then one call, and nothing else"
    inside, tag, body = turn
    if not (thought if inside is None else inside).strip():
        return "it has no thought"
    if tag not in calls:
        return f"<{tag}> is no call here: the calls are {', '.join(f'<{name}>' for name in calls)}"
    call, reason = _read_call(tag, body)
    if call is None:
        return reason
    return "" if call.items and all(item.strip() for item in call.items) else f"an empty {call.tool}"


def _parts(response: str) -> tuple[str | None, str, str] | None:
    """Thought (None without tags), tag and body of the call, if the tags of the response are those of one turn and nothing is around them."""
    pieces = _TAG.split(response)
    texts, tags = pieces[::2], pieces[1::2]
    inside = None
    outside, body = [texts[0], texts[-1]], texts[-2] if len(tags) > 1 else ""
    if tags[:2] == ["<think>", "</think>"]:
        inside, tags = texts[1], tags[2:]
        outside.append(texts[2])
    if len(tags) != 2 or tags[0] not in _CALL_TAGS or tags[1] != f"</{tags[0][1:]}" or "".join(outside).strip():
        return None
    return inside, tags[0][1:-1], body


class Block(NamedTuple):
    """``<tag>body</tag>`` in a text, from ``start`` to ``end``."""

    tag: str
    body: str
    start: int
    end: int


def blocks(text: str, *tags: str) -> Iterator[Block]:
    """The blocks of a text, each up to its first closing tag, without those inside another. Linear time for any input.

    >>> [block.body for block in blocks("<a>1</a> <b>2 <a>3</a> <a>4", "a", "b")]
    ['1', '3']
    """
    closed, at = set(tags), 0
    for opening in re.finditer(f"<({'|'.join(tags)})>", text):
        tag = opening[1]
        if opening.start() < at or tag not in closed:
            continue
        end = text.find(f"</{tag}>", opening.end())
        if end < 0:
            closed.remove(tag)  # nor are later ones
            continue
        at = end + len(tag) + 3
        yield Block(tag, text[opening.end() : end], opening.start(), at)


def tagged_thought(response: str, thought: str = "") -> str:
    """The text between <think> and </think>, without calls and results written in it; of no tags what was kept apart.

    >>> tagged_thought("<think>Nolan <search>London</search></think> prose <search>Nolan</search> Inception")
    'Nolan  '

    Args:
        response: what the model wrote, tagged.
        thought: see ``turn_fault``; it counts where the response is a bare call.
    """
    if "<think>" in response:
        return "\n".join(_BLOCK.sub(" ", block.body) for block in blocks(response, "think"))
    turn = _parts(response)
    return thought if turn and turn[0] is None else ""


def thought_before(text: str) -> str:
    """The thought in the text before a call: what is between thinking tags or, of a model that writes none, all of it."""
    return (tagged_thought(text) if "<think>" in text else _THINK.sub(" ", _BLOCK.sub(" ", text))).strip()


def truncate_turn(text: str) -> str:
    """The text up to the end of its first ``</search>``, or else of its first ``</answer>``."""
    for tag in ("</search>", "</answer>"):
        head, closing, _ = text.partition(tag)
        if closing:
            return head + tag
    return text


def parse_plain(text: str) -> Parse:
    """``search: query | query``, ``visit: page | page`` or ``answer: text`` on a separate line."""
    lines = list(_LINE.finditer(text))
    if not lines:
        return Parse(None, "no call found: write one line 'search: …', 'visit: …' or 'answer: …'")
    if len(lines) > 1:
        return Parse(None, f"one call a turn: found {len(lines)} lines that begin with search:, visit: or answer:")
    tool, rest = _tool(lines[0].group(1).lower()), lines[0].group(2)
    items = (rest,) if tool == "answer" else tuple(rest.split("|"))
    return Parse(Call(tool, items), "", text[: lines[0].start()].strip())


def parse_tags(text: str) -> Parse:
    """The first ``<search>``, ``<answer>`` or ``<access>`` block, stripped; what comes later is ignored, as in Search-R1."""
    block = next(blocks(text, "search", "answer", "access"), None)
    if block is None:
        return Parse(
            None,
            "no call found: put a query between <search> and </search>, or an answer between <answer> and </answer>",
        )
    call, reason = _read_call(block.tag, block.body)
    return Parse(call, reason, thought_before(text[: block.start]) if call else "")


def parse_tool_call(text: str) -> Parse:
    """``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` or ``<answer>…</answer>``, exactly one of them."""
    pieces, at = [], 0
    for thought in blocks(text, "think"):  # becomes blanks of the same length, so that positions agree
        pieces += [text[at : thought.start], " " * (thought.end - thought.start)]
        at = thought.end
    calls = list(blocks("".join([*pieces, text[at:]]), "tool_call", "answer"))
    if len(calls) != 1:
        return Parse(None, f"expected exactly one <tool_call> or <answer> block, found {len(calls)}")
    call, reason = _read_call(calls[0].tag, calls[0].body)
    return Parse(call, reason, thought_before(text[: calls[0].start]) if call else "")


def _read_call(tag: str, body: str) -> tuple[Call | None, str]:
    """The call that a block is, or None and why it is none."""
    if tag == "tool_call":
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            return None, f"the tool call must be JSON such as {_EXAMPLE}: {str(error)[:80]}"
        return _json_call(data)
    tool = "visit" if tag == "access" else _tool(tag)
    return Call(tool, (body.strip(),)), ""


_EXAMPLE: Final = '{"name": "search", "arguments": {"query": ["…"]}}'
# tool -> the names of its list argument
_ARGUMENTS: Final[Mapping[Tool, tuple[str, ...]]] = {"search": ("query", "queries"), "visit": ("url", "urls", "id")}


def _json_call(data: Any) -> tuple[Call | None, str]:
    if not isinstance(data, dict) or not isinstance(data.get("arguments"), dict):
        return None, f"the tool call must be an object with 'name' and 'arguments', such as {_EXAMPLE}"
    name, arguments = data.get("name"), data["arguments"]
    if name not in ("search", "visit"):
        return None, f"unknown tool {str(name)[:40]!r}: the tools are search and visit"
    tool = _tool(name)
    names = [key for key in _ARGUMENTS[tool] if key in arguments]
    if len(names) != 1:
        return None, f"{tool} takes the argument {_ARGUMENTS[tool][0]!r}, a text or a list of texts"
    value = arguments[names[0]]
    items = [value] if isinstance(value, str) else value
    goal = arguments.get("goal", "")
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items) or not isinstance(goal, str):
        return None, f"{tool}: {names[0]!r} must be a text or a list of texts (and 'goal' a text)"
    return Call(tool, tuple(items), goal), ""


def _tool(name: str) -> Tool:
    if name == "search":
        return "search"
    return "visit" if name == "visit" else "answer"
