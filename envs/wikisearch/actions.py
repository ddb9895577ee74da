"""Tool calls: the call in an agent's text, parsed as each dialect writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

__all__ = ["Call", "Parse", "Tool", "parse_plain", "parse_tags", "parse_tool_call", "truncate_turn"]

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


_TAG_CALL: Final = re.compile(r"<(search|answer|access)>(.*?)</\1>", re.DOTALL)
_THINK: Final = re.compile(r"</?think>")
_THOUGHTS: Final = re.compile(r"<think>.*?</think>", re.DOTALL)
_TOOL_CALL: Final = re.compile(r"<(tool_call|answer)>(.*?)</\1>", re.DOTALL)
_LINE: Final = re.compile(r"^[ \t]*(search|visit|answer)[ \t]*:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)


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
    return Parse(Call(tool, items), "", (text[: lines[0].start()] + text[lines[0].end() :]).strip())


def parse_tags(text: str) -> Parse:
    """The first ``<search>``, ``<answer>`` or ``<access>`` block, stripped; what comes later is ignored, as in Search-R1."""
    block = _TAG_CALL.search(text)
    if block is None:
        return Parse(None, "no call found: put a query between <search> and </search>, or an answer between <answer> "
                     "and </answer>")  # fmt: skip
    tool = "visit" if block.group(1) == "access" else _tool(block.group(1))
    return Parse(Call(tool, (block.group(2).strip(),)), "", _THINK.sub(" ", text[: block.start()]).strip())


def parse_tool_call(text: str) -> Parse:
    """``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` or ``<answer>…</answer>``, exactly one of them."""
    bare = _THOUGHTS.sub(" ", text)
    blocks = list(_TOOL_CALL.finditer(bare))
    if len(blocks) != 1:
        return Parse(None, f"expected exactly one <tool_call> or <answer> block, found {len(blocks)}")
    thought = _THINK.sub(" ", _TOOL_CALL.sub(" ", text)).strip()
    kind, body = blocks[0].group(1), blocks[0].group(2)
    if kind == "answer":
        return Parse(Call("answer", (body,)), "", thought)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        return Parse(None, f"the tool call must be JSON such as {_EXAMPLE}: {str(error)[:80]}")
    call, reason = _json_call(data)
    return Parse(call, reason, thought if call else "")


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
