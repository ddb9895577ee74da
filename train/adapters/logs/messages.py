"""Chat messages and decoded texts as turns: each message that the model wrote is one turn, what came before it the observation.

Messages have the shape of OpenAI's API, as all of these libraries write them: ``role``, ``content`` (a text or a list of
parts), ``tool_calls`` (objects, or objects as JSON texts) and ``reasoning_content``.

Where a log has no messages, its text is cut at the lines that name a role, or by Search-R1's tags (``text_turns``). A tokenizer
that skips special tokens leaves of ChatML's end and start of a turn only a line "user". A model that writes such a line itself
cannot be told apart from it; the report therefore counts the cuts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError, check_name, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.wikisearch.protocol.transcript import read_transcript
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.rows import RowError, Tally

__all__ = ["TURNS", "Shown", "Written", "observed", "split_thought", "text_turns", "turns_of", "written"]


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
    unanswered: list[Any] = [*prompt]
    for message in messages:
        if _role(message) != "assistant":
            unanswered.append(message)
            continue
        before, said = observed(unanswered), written(message)
        turns.append(
            Exchange(before.text, said.response, said.action, said.thought, images=before.images, fields=message)
        )
        unanswered = []
    if not turns:
        raise RowError("no message was written by the model", f"{len(messages)} messages")
    return turns, observed(unanswered) if unanswered else None


def _role(message: Any) -> str:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise RowError("a message is not an object with a role", short_repr(message))
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
        raise RowError("tool_calls is not a list", short_repr(calls))
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
        raise RowError("a message's content is neither a text nor a list of parts", short_repr(content))
    texts = []
    for item in content:
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, Mapping) and isinstance(item.get("text"), str):
            texts.append(item["text"])
        elif isinstance(item, Mapping):  # an image or a sound, by URL or as data: named, never kept
            data = json.dumps(item, sort_keys=True, separators=(",", ":")).encode()
            name = f"{str(item.get('type', 'part'))[:20]}:{blake2b(data, digest_size=8).hexdigest()}"
            images.append(name)
            texts.append(f"[{name}]")
        else:
            raise RowError("a part of a message is neither a text nor an object", short_repr(item))
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


TURNS: Final = ("roles", "search", "single")
_MARK: Final = re.compile(r"<\|im_(?:start|end)\|>|<\|endoftext\|>")
_ENVIRONMENT: Final = re.compile(r"^(?:user|tool|system)$", re.MULTILINE)
_MODEL: Final = re.compile(r"^assistant$", re.MULTILINE)


def text_turns(prompt: str, output: str, how: str, tally: Tally) -> tuple[list[Exchange], str | None]:
    """The turns of a decoded sequence, and the text after the last one (None: there is none).

    Args:
        prompt: decoded prompt, the first observation.
        output: decoded rest, in which the model's and the environment's texts alternate.
        how: "roles": cut at lines that are a role's name; "search": at Search-R1's tags; "single": not at all.
        tally: counts the cuts.

    Raises:
        ConfigError: another value of ``how``.
        RowError: nothing is the model's.
    """
    check_name("way to cut a text into turns", how, TURNS)
    if how == "search":
        return _search_turns(prompt, output)
    text, turns, observation = _MARK.sub("", output), list[Exchange](), prompt
    at = 0
    while how == "roles" and (cut := _ENVIRONMENT.search(text, at)):
        turns.append(_turn(observation, text[at : cut.start()]))
        require_length(len(turns))
        reply = _MODEL.search(text, cut.end())
        if reply is None:
            return _cut(turns, tally), text[cut.end() :].strip()
        observation, at = text[cut.end() : reply.start()].strip(), reply.end()
    turns.append(_turn(observation, text[at:]))
    return _cut(turns, tally), None


def _cut(turns: list[Exchange], tally: Tally) -> list[Exchange]:
    tally.note("turns cut at a line that is a role's name", len(turns) - 1)
    return turns


def _turn(observation: str, text: str) -> Exchange:
    said = text.strip()
    thought, action = split_thought(said)
    return Exchange(observation, said, action, thought)


def _search_turns(prompt: str, output: str) -> tuple[list[Exchange], str | None]:
    turns, observation = [], prompt
    exchanges = read_transcript(output)
    require_length(len(exchanges))
    if not exchanges:
        raise RowError("the output is empty")
    for exchange in exchanges:
        call = exchange.call
        action = exchange.text if call is None else f"<{call.tool}>{call.items[0] if call.items else ''}</{call.tool}>"
        turns.append(Exchange(observation, exchange.text, action, exchange.thought, parsed=call is not None))
        observation = exchange.observation
    return turns, observation or None
