"""Chat messages as turns: each message that the model wrote is one turn, and what came before it the observation.

Messages have the shape of OpenAI's API, as all of these libraries write them: ``role``, ``content`` (a text or a list of
parts), ``tool_calls`` (objects, or objects as JSON texts) and ``reasoning_content``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.report import RowError

__all__ = ["Shown", "Written", "observed", "split_thought", "turns_of", "written"]

_THINK_END: Final = "</think>"


class Shown(NamedTuple):
    """Text of messages that the model did not write, and the names of their images."""

    text: str
    images: tuple[str, ...]


class Written(NamedTuple):
    """A message of the model: everything it wrote, the part that acts, and its reasoning."""

    response: str
    action: str
    thought: str


def turns_of(messages: Sequence[Any], *, prompt: Sequence[Any] = ()) -> tuple[list[Exchange], Shown | None]:
    """The turns of a conversation, and what was shown after the last one (None: nothing).

    Args:
        messages: messages, in which every message with the role "assistant" is the model's.
        prompt: messages before them, of which none is.

    Raises:
        RowError: a message of another form, or none of the model.
    """
    require_length(len(messages))
    turns: list[Exchange] = []
    shown: list[Any] = [*prompt]
    for message in messages:
        if _role(message) != "assistant":
            shown.append(message)
            continue
        before, said = observed(shown), written(message)
        turns.append(
            Exchange(before.text, said.response, said.action, said.thought, images=before.images, fields=message)
        )
        shown = []
    if not turns:
        raise RowError("no message was written by the model", f"{len(messages)} messages")
    return turns, observed(shown) if shown else None


def _role(message: Any) -> str:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise RowError("a message is no object with a role", short_repr(message))
    return str(message["role"])


def observed(messages: Sequence[Any]) -> Shown:
    """The texts of messages that the model did not write, joined, with images by name."""
    texts, images = [], list[str]()
    for message in messages:
        _role(message)
        texts.append(_content(message.get("content"), images))
    return Shown("\n\n".join(filter(None, texts)), tuple(images))


def written(message: Mapping[str, Any]) -> Written:
    """Text, action and reasoning of a message of the model."""
    content = _content(message.get("content"), [])
    reasoning = message.get("reasoning_content")
    thought, rest = split_thought(content)
    if isinstance(reasoning, str) and reasoning:
        thought = reasoning
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise RowError("tool_calls is no list", short_repr(calls))
    called = "\n".join(_call(call) for call in calls or ())
    return Written("\n".join(filter(None, [content, called])), called or rest, thought)


def split_thought(content: str) -> tuple[str, str]:
    """Reasoning within think tags, and the rest.

    >>> split_thought("<think>left is blocked</think> go up")
    ('left is blocked', 'go up')
    """
    before, tag, after = content.rpartition(_THINK_END)
    return (before.strip().removeprefix("<think>").strip(), after.strip()) if tag else ("", content)


def _content(content: Any, images: list[str]) -> str:
    """A message's text; the names of its images are appended to ``images``, and stand in the text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RowError("a message's content is no text and no list of parts", short_repr(content))
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, Mapping):  # an image or a sound, by URL or as data: named, never kept
            data = json.dumps(part, sort_keys=True, separators=(",", ":")).encode()
            name = f"{str(part.get('type', 'part'))[:20]}:{blake2b(data, digest_size=8).hexdigest()}"
            images.append(name)
            texts.append(f"[{name}]")
        else:
            raise RowError("a part of a message is no text and no object", short_repr(part))
    return "\n".join(texts)


def _call(call: Any) -> str:
    """A tool call as "name(arguments)"."""
    if isinstance(call, str):
        try:
            call = parse_json(call, where="tool call")
        except DataError as error:
            raise RowError("a tool call is not JSON", str(error)) from None
    inner = call.get("function") if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping) else call
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise RowError("a tool call has no name", short_repr(call))
    arguments = inner.get("arguments", inner.get("args", ""))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, sort_keys=True)
    return f"{inner['name']}({arguments})"
