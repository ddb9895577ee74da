"""Conversations as turns: what the model wrote in one go is a turn, and what was shown to it before is the observation.

Whoever writes messages writes them differently, and a scheme must see one action and one state in all of them. So every message is
first read into a ``Message``, by what it contains: OpenAI's chat messages (also with a legacy ``function_call``, and with calls as JSON
texts), Anthropic's blocks (``tool_use``, ``tool_result``, ``thinking``), items of the Responses API, Gemini's ``parts``, LangChain's
``type``, ShareGPT's ``from`` and ``value``, calls and results in tags (``<tool_call>``, ``<tool_response>``, ``<functioncall>``), and the roles of ``ROLES``.

An action is the turn's calls, each as ``name(arguments)`` with sorted keys, or else its text. It contains neither a thought nor the
id of a call. Calls of one turn, and their results, are put in the order of the calls' texts. A message that says that it is not
trained on (``UNTRAINED``, such as ``weight: 0`` or ``is_demo``) is shown, and no turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.rows import RowError, truth

__all__ = [
    "ROLES",
    "Message",
    "Shown",
    "as_messages",
    "read_message",
    "shown",
    "split_thought",
    "turns_of",
    "untrained",
]

AGENT, CALLS, SYSTEM, CONTEXT = "agent", "calls", "system", "context"
RESULTS: Final = ("tool", "function", "ipython", "tool_response", "tool_result", "tool_output", "function_response")
ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("assistant", "model", "gpt", "bot", "ai", "agent", "chatbot"), AGENT),
    **dict.fromkeys(("tool_call", "tool_calls", "function_call"), CALLS),  # the model's, with a call as content
    **dict.fromkeys(("system", "developer"), SYSTEM),
    **dict.fromkeys(("user", "human", "environment", "env", "observation"), CONTEXT),
    **dict.fromkeys(RESULTS, CONTEXT),
}
_ITEMS: Final = {  # of the Responses API
    **dict.fromkeys(("function_call", "custom_tool_call", "reasoning"), "assistant"),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), "tool"),
}
_TYPES: Final = frozenset(("human", "ai", "system", "tool", "function"))  # LangChain's, which stand for roles
UNTRAINED: Final[Mapping[str, bool]] = {  # the value with which a message says that it is not trained on
    **dict.fromkeys(("weight", "loss_mask", "trainable", "train", "training", "loss"), False),
    "is_demo": True,
}
_THOUGHTS: Final = (
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
    "thinking_blocks",
    "thought",
    "thoughts",
    "reasoning_details",
)
_MEDIA: Final = re.compile(r"image|audio|video|file|document|media|blob|inline_data")
_CALL_TAG: Final = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>|<functioncall>\s*(\{.*\})", re.DOTALL)
_RESULT_TAG: Final = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
_THINK, _THINK_END = "<think>", "</think>"
_OPENS: Final = re.compile(r"<(?:think|thinking|thought|reasoning)>|\[THINK\]")
_CLOSES: Final = re.compile(r"</(?:think|thinking|thought|reasoning)>|\[/THINK\]")


class Call(NamedTuple):
    """A call of a tool: its text, ``name(arguments)``; its id; and name and arguments as JSON."""

    text: str
    id: str
    json: str


class Result(NamedTuple):
    """What a tool answered, and the id of its call ("" if unknown)."""

    text: str
    id: str


@dataclass(frozen=True)
class Message:
    """A message of any spelling.

    Attributes:
        kind: "agent", "system" or "context".
        text: what it says, without thoughts, calls and results.
        thought: the model's reasoning.
        calls: its calls of tools, in order.
        results: results of tools in it, in order.
        images: names of its images, which also stand in the text.
        verbatim: the model's text as written, if the message is only a text; otherwise "".
        fields: the message itself.
    """

    kind: str
    text: str
    thought: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    images: tuple[str, ...] = ()
    verbatim: str = ""
    fields: Mapping[str, Any] | None = None

    @property
    def response(self) -> str:
        """Everything the model wrote, as chat templates write it: the thought in tags, the text, the calls in tags."""
        if self.verbatim:
            return self.verbatim
        thought = f"{_THINK}\n{self.thought}\n{_THINK_END}\n" if self.thought else ""
        calls = (f"<tool_call>\n{call.json}\n</tool_call>" for call in self.calls)
        return "\n".join(filter(None, [thought, self.text, *calls]))

    @property
    def action(self) -> str:
        """The calls in the order of their texts, or else the text."""
        return "\n".join(sorted(call.text for call in self.calls)) or self.text


class Shown(NamedTuple):
    """Text of messages that the model did not write, the names of their images, and the number of results of tools."""

    text: str
    images: tuple[str, ...]
    results: int = 0


def turns_of(messages: Sequence[Any], *, prompt: Sequence[Any] = ()) -> tuple[list[Exchange], str | None]:
    """The turns of a conversation, and the text that was shown after the last one (None: nothing).

    Messages of the model that follow each other are one turn: some writers split an answer into a text and its calls.

    Args:
        messages: messages, of which those of the model are turns.
        prompt: messages before them, all of which are context.

    Raises:
        RowError: a message of another form, or none of the model.
    """
    require_length(len(messages) + len(prompt))
    turns: list[Exchange] = []
    unanswered = [read_message(message) for message in prompt]
    pending = list[Message]()  # messages of the model that no other message has followed yet
    calls: tuple[Call, ...] = ()  # of the turn before what is unanswered

    def end_turn() -> None:
        nonlocal unanswered, pending, calls
        if not pending:
            return
        before, joined = shown(unanswered, calls), _joined(pending)
        if turns:
            turns[-1] = replace(turns[-1], results=before.results)
        turns.append(
            Exchange(
                before.text,
                joined.response,
                joined.action,
                joined.thought,
                parsed=bool(joined.action),
                images=before.images,
                fields=pending[0].fields or {},
                messages=len(pending),
            )
        )
        unanswered, pending, calls = [], [], joined.calls

    for message in map(read_message, messages):
        if message.kind == AGENT and _is_trained(message):
            pending.append(message)
        else:
            end_turn()
            unanswered.append(message)
    end_turn()
    if not turns:
        raise RowError("no message was written by the model", f"{len(messages)} messages")
    if not unanswered:
        return turns, None
    after = shown(unanswered, calls)
    turns[-1] = replace(turns[-1], results=after.results)
    return turns, after.text


def as_messages(messages: Iterable[Any]) -> tuple[str, ...]:
    """A conversation in one spelling: chat messages as JSON, in order; those of the model that are no turn have ``weight`` 0.

    Empty if the conversation is nothing but texts of a user and a model, which its turns contain.
    """
    read, spelled, plain = list(map(read_message, messages)), list[dict[str, Any]](), True
    for message in read:
        if message.kind == AGENT:
            calls = [{"type": "function", "function": json.loads(call.json)} for call in message.calls]
            fields: dict[str, Any] = {"role": "assistant", "content": message.text}
            fields |= {"reasoning_content": message.thought} if message.thought else {}
            fields |= {"tool_calls": calls} if calls else {}
            fields |= {} if _is_trained(message) else {"weight": 0}
            spelled.append(fields)
            plain = plain and bool(message.verbatim) and _is_trained(message)
            continue
        if message.text or not message.results:
            spelled.append({"role": "system" if message.kind == SYSTEM else "user", "content": message.text})
        spelled += [{"role": "tool", "content": result.text} for result in message.results]
        plain = plain and message.kind != SYSTEM and not message.results
    alternate = all(a["role"] != b["role"] for a, b in pairwise(spelled))
    return () if plain and alternate else tuple(map(json.dumps, spelled))


def untrained(messages: Iterable[Any]) -> list[Any]:
    """The messages with the mark that they are context, whoever wrote them."""
    return [{**message, "weight": 0} if isinstance(message, Mapping) else message for message in messages]


def _is_trained(message: Message) -> bool:
    return not any(
        name in UNTRAINED and _says(value, name, UNTRAINED[name]) for name, value in (message.fields or {}).items()
    )


def _says(value: Any, name: str, wanted: bool) -> bool:
    """Whether a flag, a weight, or every entry of a mask of tokens is false (or, if ``wanted``, true)."""
    if isinstance(value, list):
        return all(_says(entry, name, wanted) for entry in value)
    if isinstance(value, int | float) and value not in (0, 1):  # a weight
        return wanted
    return truth(value, name) is wanted


def _joined(messages: Sequence[Message]) -> Message:
    """Messages that the model wrote one after the other, as one."""
    if len(messages) == 1:
        return messages[0]
    return Message(
        AGENT,
        "\n".join(filter(None, (message.text for message in messages))),
        "\n".join(filter(None, (message.thought for message in messages))),
        tuple(call for message in messages for call in message.calls),
        images=tuple(image for message in messages for image in message.images),
    )


def shown(messages: Sequence[Message], calls: Sequence[Call] = ()) -> Shown:
    """The texts of messages that the model did not write, joined. Results stand in the order of the texts of their ``calls``.

    The system's messages are no part of it.
    """
    results = [result for message in messages for result in message.results]
    ordered = iter(_in_order_of_calls(results, calls))
    texts, images = [], list[str]()
    for message in messages:
        if message.kind == SYSTEM:
            continue
        texts.append(message.response if message.kind == AGENT else message.text)
        texts += [next(ordered).text for _ in message.results]
        images += message.images
    return Shown("\n\n".join(filter(None, texts)), tuple(images), len(results))


def _in_order_of_calls(results: Sequence[Result], calls: Sequence[Call]) -> list[Result]:
    """Results by the text of their call; a call is known by its id, or by its position if there is a result for each."""
    texts = {call.id: call.text for call in calls if call.id}
    if results and all(result.id in texts for result in results):
        return sorted(results, key=lambda result: texts[result.id])
    if len(results) == len(calls) and not any(result.id in texts for result in results):
        return [result for _, result in sorted(zip(calls, results, strict=True), key=lambda pair: pair[0].text)]
    return list(results)


def read_message(message: Any) -> Message:
    """A message of any known spelling.

    Raises:
        RowError: another form, or an unknown role.
    """
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping):
        raise RowError("a message is not an object with a role", short_repr(message))
    kind = str(message.get("type"))
    if kind in _TYPES and isinstance(message.get("data"), Mapping):
        message = {"type": kind, **message["data"]}
    role = message.get("role") or message.get("from") or _ITEMS.get(kind, kind if kind in _TYPES else None)
    if not isinstance(role, str):
        raise RowError("a message is not an object with a role", short_repr(message))
    name = re.sub(r"[-\s]", "_", role.strip().lower())
    if name not in ROLES:
        raise RowError(f"a message has an unknown role; known are {', '.join(ROLES)}", short_repr(role))
    content = _Content()
    content.add(
        next(
            (message[key] for key in ("content", "value", "text", "parts", "refusal") if message.get(key) is not None),
            None,
        )
    )
    content.add_item(message)
    if ROLES[name] == CALLS:
        content.calls += _calls("\n".join(content.texts))
        content.texts.clear()
    if ROLES[name] in (AGENT, CALLS):
        return content.written(message)
    text = "\n".join(content.texts)
    if tagged := _RESULT_TAG.findall(text):
        content.results += [Result(result, "") for result in tagged]
        text = _RESULT_TAG.sub("", text).strip()
    if name in RESULTS:
        call_id = message.get("tool_call_id", message.get("call_id", ""))
        content.results.append(Result(text, call_id if isinstance(call_id, str) else ""))
        text = ""
    kind = ROLES[name]
    return Message(kind, text, results=tuple(content.results), images=tuple(content.images), fields=message)


class _Content:
    """What is in a message: collected from its content, from the parts of it, and from its other fields."""

    def __init__(self) -> None:
        self.texts = list[str]()
        self.thoughts = list[str]()
        self.calls = list[Call]()
        self.results = list[Result]()
        self.images = list[str]()
        self.plain = True  # nothing but one text

    def add(self, content: Any) -> None:
        """Add a message's content: a text, a list of parts, or nothing."""
        if content is None:
            return
        if isinstance(content, str):
            self.texts.append(content)
            return
        self.plain = False
        if isinstance(content, Mapping):
            content = [content]
        if not isinstance(content, list):
            raise RowError("a message's content is neither a text nor a list of parts", short_repr(content))
        for part in content:
            self.add_part(part)

    def add_part(self, part: Any) -> None:
        """Add a part of a content, by its type."""
        if isinstance(part, str):
            self.texts.append(part)
            return
        if not isinstance(part, Mapping):
            raise RowError("a part of a message is neither a text nor an object", short_repr(part))
        kind, fields = _kind(part)
        if kind.startswith(("thinking", "reasoning", "redacted_thinking", "thought")):
            self.thoughts.append(_texts(fields, ("thinking", "reasoning", "text", "content", "summary", kind)))
        elif kind.endswith(("tool_use", "tool_call", "function_call", "function")):
            self.calls.append(_call(fields))
        elif kind.endswith(("tool_result", "tool_response", "function_response", "call_output")):
            value = next((fields[key] for key in ("content", "output", "result", "response") if key in fields), None)
            call_id = fields.get("tool_use_id", fields.get("call_id", fields.get("tool_call_id", "")))
            self.results.append(Result(_plain(value, self.images), call_id if isinstance(call_id, str) else ""))
        elif kind.endswith("text") or isinstance(fields.get("text") or fields.get("refusal"), str):
            self.texts.append(str(fields.get("text") or fields.get("refusal") or ""))
        elif _MEDIA.search(kind):  # by URL or as data: named, never kept
            self.texts.append(_named(fields, self.images))
        else:
            raise RowError("a part of a message has an unknown type", short_repr(fields))

    def add_item(self, message: Mapping[str, Any]) -> None:
        """Add what fields beside the content say: reasoning, calls, and the items of the Responses API."""
        kind = message.get("type")
        if kind in _ITEMS and kind != "reasoning" and "role" not in message:
            self.add_part(message)
        if kind == "reasoning" and "role" not in message:
            self.add_part({**message, "content": message.get("content") or message.get("summary")})
            self.texts.clear()
        for name in _THOUGHTS:
            value = message.get(name)
            if value and not self.thoughts:
                text = (
                    value
                    if isinstance(value, str)
                    else _texts({"text": value}, ("text", "thinking", "reasoning", "summary"))
                )
                self.thoughts += [text] if text else []
        calls = message.get("tool_calls")
        legacy = message.get("function_call")
        self.calls += _calls(calls) if calls else []
        self.calls += _calls(legacy) if legacy and isinstance(legacy, str | Mapping) else []

    def written(self, message: Mapping[str, Any]) -> Message:
        """The message of the model."""
        structured = bool(self.thoughts or self.calls) or not self.plain
        content = "\n".join(filter(None, self.texts))
        thought, text = split_thought(content)
        if self.thoughts and text.startswith(
            self.thoughts[0].strip()
        ):  # some writers keep the thought in the content too
            text = text.removeprefix(self.thoughts[0].strip()).strip()
        tagged = []
        for match in _CALL_TAG.finditer(text):
            try:
                tagged += _calls(match[1] or match[2].replace("'{", "{").replace("}'", "}"))
            except RowError:
                tagged.clear()  # the model's own words, which are no call
                break
        if tagged:
            text = _CALL_TAG.sub("", text).strip()
        return Message(
            AGENT,
            text,
            "\n".join(filter(None, [*self.thoughts, thought])),
            (*self.calls, *tagged),
            tuple(self.results),
            tuple(self.images),
            "" if structured else content,
            message,
        )


def split_thought(content: str) -> tuple[str, str]:
    """Reasoning within think tags (also ``thinking``, ``thought``, ``reasoning``), and the rest: what follows, else what stands before.

    A thought that is not closed has no rest but that.

    >>> split_thought("<think>left is blocked</think> go up")
    ('left is blocked', 'go up')
    >>> split_thought("<think>left is blo")
    ('left is blo', '')
    """
    opened, closed = _OPENS.search(content), max(_CLOSES.finditer(content), key=lambda tag: tag.end(), default=None)
    if closed is None:
        return (content[opened.end() :].strip(), content[: opened.start()].strip()) if opened else ("", content)
    before, after = content[: closed.start()].strip(), content[closed.end() :].strip()
    if opened and opened.end() <= closed.start() and not content[: opened.start()].strip():
        before = content[opened.end() : closed.start()].strip()
    elif opened and opened.end() <= closed.start() and not after:
        before, after = content[opened.end() : closed.start()].strip(), content[: opened.start()].strip()
    return before, after


def _texts(part: Mapping[str, Any], names: Iterable[str]) -> str:
    """The text under the first of these names, or the texts of the parts there."""
    for name in names:
        value = part.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list):
            inner = [
                item if isinstance(item, str) else _texts(item, names)
                for item in value
                if isinstance(item, str | Mapping)
            ]
            if text := "\n".join(filter(None, inner)):
                return text
    return ""


def _plain(value: Any, images: list[str]) -> str:
    """A result as text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, (_plain(item, images) for item in value)))
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, Mapping) and value.get("type") in ("image", "image_url", "input_image"):
        return _named(value, images)
    return json.dumps(value, sort_keys=True)


def _kind(part: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A part's type in snake case, and what it contains. Gemini writes the type as the only key: ``{"functionCall": {…}}``."""
    if part.get("thought") is True:
        return "thought", part
    named = (
        key
        for key, value in part.items()
        if value is not None and key not in ("id", "cache_control", "thoughtSignature")
    )
    kind = part.get("type") or next(named, "")
    inner = part if part.get("type") or not isinstance(part.get(kind), Mapping) else part[kind]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(kind)).lower().replace("-", "_").replace(".", "_"), inner


def _named(part: Mapping[str, Any], images: list[str]) -> str:
    """The name of an image or a sound, in brackets."""
    plain = {key: value for key, value in part.items() if key not in ("id", "cache_control")}
    data = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    name = f"{str(part.get('type', 'part'))[:20]}:{blake2b(data, digest_size=8).hexdigest()}"
    images.append(name)
    return f"[{name}]"


def _calls(value: Any) -> list[Call]:
    """Calls in a list, an object, or a JSON text of either."""
    if isinstance(value, str):
        try:
            value = parse_json(value, where="tool call")
        except DataError as error:
            raise RowError("a tool call is not JSON", str(error)) from None
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        raise RowError("tool_calls is not a list", short_repr(value))
    return [_calls(call)[0] if isinstance(call, str) else _call(call) for call in value]


def _call(call: Any) -> Call:
    """A call, with its arguments in one spelling."""
    outer = call if isinstance(call, Mapping) else {}
    inner = outer.get("function") if isinstance(outer.get("function"), Mapping) else outer
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
    name = next((fields[key] for key in ("name", "tool_name", "toolName") if key in fields), None)
    if not isinstance(name, str):
        raise RowError("a tool call has no name", short_repr(call))
    arguments = next((fields[key] for key in ("arguments", "args", "input", "parameters") if key in fields), None)
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments, where="")
        except DataError:  # no JSON: the text itself
            arguments = arguments.strip()
    written = "" if arguments in (None, {}, "") else json.dumps(arguments, sort_keys=True)
    if isinstance(arguments, str):
        written = arguments
    # an item of the Responses API has an id of its own beside that of the call
    call_id = next((outer[key] for key in ("call_id", "id") if isinstance(outer.get(key), str)), "")
    spelled = json.dumps({"name": name, "arguments": {} if arguments is None else arguments})
    return Call(f"{name}({written})", call_id, spelled)
