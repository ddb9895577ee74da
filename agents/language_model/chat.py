"""Turn messages into token ids, so that a growing conversation is never encoded twice.

A chat template is rendered once with placeholders, to find the text that it writes around messages and between completions.
After that every turn only *appends* ids: completions stay as they were sampled. A template that cuts thoughts out of earlier
completions therefore cannot change the past.

Control tokens come from the template alone. The text of a message is encoded with special tokens split, so an observation
that contains ``<|im_end|>`` cannot end its message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.text_ids import TextEncoder, added_tokens, inside
from creditflow.agents.models.pictures import VISION_TOKENS
from creditflow.agents.prompts.template import PICTURE
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.reading.failures import loading
from creditflow.envs.text.plain_text import plain_text

__all__ = ["Chat", "Message", "PlainChat", "TemplateChat", "make_chat"]

Ids = NDArray[np.int32]
Message = str | Sequence[str]  # a text, or texts between which there are pictures
# placeholders, with characters that a template might escape
_SYSTEM_TEXT: Final = "CREDITFLOW<'&\">SYSTEM TEXT"
_USER_TEXT: Final = "CREDITFLOW<'&\">USER TEXT"
_COMPLETION_TEXT: Final = "CREDITFLOWANSWERTEXT"
_PLACES: Final = re.compile(f"({_SYSTEM_TEXT}|{_USER_TEXT})")


class Chat(Protocol):
    """How the messages of a conversation become token ids.

    Attributes:
        end_ids: ids that end a completion.
        completion_prefix: what the chat template itself writes at the start of every completion.
    """

    end_ids: frozenset[int]
    completion_prefix: str

    def first_prompt_ids(self, system: str, user: Message) -> Ids:
        """Encode the messages before the first completion."""
        ...

    def next_prompt_ids(self, user: Message, *, ended: bool) -> Ids:
        """Encode the text between two completions; ``ended``: the first one ended with an end token."""
        ...

    def encode_completion(self, text: str) -> Ids:
        """Encode a completion's text, and append an end token."""
        ...

    def decode_completion(self, ids: Sequence[int]) -> str:
        """Decode a completion, without its end token."""
        ...

    def pieces(self, messages: Sequence[Mapping[str, Any]]) -> list[tuple[Ids, Ids]]:
        """The prompt and the completion of each turn of a recorded conversation: what the model's messages (weight not 0) add."""
        ...


def _stripped(message: Message) -> list[str]:
    """The texts of a message, without white space around the whole."""
    texts = [message] if isinstance(message, str) else list(message)
    texts[0] = texts[0].lstrip()
    texts[-1] = texts[-1].rstrip()
    return texts


def _end_ids(tokenizer: Any, own: int, given: Sequence[int]) -> frozenset[int]:
    """End tokens of a completion: the chat format's own, those of a generation config, and the tokenizer's, if it has one."""
    return frozenset({own, *given} | ({tokenizer.eos_token_id} - {None}))


class _Frame:
    """What a template writes around messages, as ids.

    Tokenizers look for their added tokens first, so what lies between two of them is encoded as if it stood alone: the
    template's own tokens become ids once, and the text between them, with the message in it, is encoded with special tokens
    split. A tokenizer that encodes a text otherwise at its beginning gets the whole text instead, cut inside every added token
    that a message contains.

    Args:
        rendered: the template's text, with placeholders.
        tokenizer: a Hugging Face tokenizer.
        encode: encodes texts.
    """

    def __init__(self, rendered: str, tokenizer: Any, encode: TextEncoder) -> None:
        self._tokenizer, self._encode = tokenizer, encode
        self._pieces = _PLACES.split(rendered)
        added = added_tokens(tokenizer)
        self._picture = np.array([added[token] for token in VISION_TOKENS if token in added], np.int32)
        longest_first = sorted(filter(None, added), key=len, reverse=True)
        find = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")
        self._cut = inside(longest_first)
        self._parts: list[Ids | list[str]] = []  # ids, or texts and placeholders
        texts: list[str] = []
        for piece in self._pieces:
            if _PLACES.fullmatch(piece):
                texts.append(piece)
                continue
            text, *more_texts = find.split(piece)
            texts.append(text)
            for token, following in zip(more_texts[::2], more_texts[1::2], strict=True):
                self._parts += [texts, np.array([added[token]], np.int32)]
                texts = [following]
        self._parts.append(texts)
        self._parts = [
            segment if isinstance(segment, np.ndarray) or _has_place(segment) else encode("".join(segment))
            for segment in self._parts
        ]
        probe = {_SYSTEM_TEXT: ["Rules: 1"], _USER_TEXT: ["the text 1\nof a message"]}
        self._whole = self._ids(probe).tolist() != self._ids_of_whole(probe).tolist()

    def ids(self, system: str, user: Message) -> Ids:
        """Ids of the whole, with these messages in their places."""
        messages = {_SYSTEM_TEXT: [system.strip()], _USER_TEXT: _stripped(user)}
        return self._ids_of_whole(messages) if self._whole else self._ids(messages)

    def _ids(self, messages: Mapping[str, list[str]]) -> Ids:
        ids: list[Ids] = []
        for segment in self._parts:
            if isinstance(segment, list):
                texts = [""]
                for text in segment:
                    first, *more_texts = messages.get(text, (text,))
                    texts[-1] += first
                    texts += more_texts
                ids.append(_between(texts, self._picture, self._encode))
            else:
                ids.append(segment)
        return np.concatenate(ids)

    def _ids_of_whole(self, messages: Mapping[str, list[str]]) -> Ids:
        texts = [""]
        for piece in self._pieces:
            if piece not in messages:
                texts[-1] += piece
                continue
            for number, text in enumerate(messages[piece]):
                first, *more_texts = self._cut.split(text)
                texts[-1] += (PICTURE if number else "") + first
                texts += more_texts
        with loading("the tokenizer cannot encode a text"):
            ids = [self._tokenizer.encode(plain_text(text), add_special_tokens=False) for text in texts]
        return np.concatenate([np.array(text_ids, np.int32) for text_ids in ids])


def _has_place(texts: Sequence[str]) -> bool:
    return any(map(_PLACES.fullmatch, texts))


def _between(texts: Sequence[str], picture: Ids, encode: TextEncoder) -> Ids:
    """Ids of texts, with a picture's between two of them."""
    ids = [encode(texts[0])]
    for text in texts[1:]:
        ids += [picture, encode(text)]
    return np.concatenate(ids) if len(ids) > 1 else ids[0]


class TemplateChat:
    """Conversations in the tokenizer's own chat template.

    Args:
        tokenizer: a Hugging Face tokenizer with a chat template.
        options: options of the template ("enable_thinking", "date_string", …).
        end_ids: further ids that end a completion (from a model's generation config).

    Attributes:
        end_ids: ids that end a completion.
        completion_prefix: what the template itself writes at the start of every completion ("<think>" for some reasoning models).

    Raises:
        ConfigError: there is no template, or it changes the messages.
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any] | None = None, end_ids: Sequence[int] = ()) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(
                "this tokenizer has no chat template: use prompting.chat: plain (running text, for base models), or give the "
                "tokenizer a template (tokenizer.chat_template = …; tokenizer.save_pretrained(…))"
            )
        self._tokenizer = tokenizer
        if not isinstance(options or {}, Mapping):
            raise ConfigError(f"the options of a chat template are a mapping, got {short_repr(options)}")
        # a fixed date: some templates write today's into the system message, and prompts must not depend on the clock
        self._options = {"date_string": "01 Jan 2025"} | dict(options or {})
        user = {"role": "user", "content": _USER_TEXT}
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _COMPLETION_TEXT}, user]
        between = self._render(messages, _COMPLETION_TEXT, _USER_TEXT).partition(_COMPLETION_TEXT)[2]
        after = between.partition(_USER_TEXT)[2]
        self.completion_prefix = "<think>" if after.rstrip().endswith("<think>") else ""
        added = added_tokens(tokenizer)
        ends = [token for token in added if token and between.startswith(token)]
        if not ends:
            raise ConfigError(
                f"the chat template ends a completion with {between[:20]!r}, which is not one special token, so "
                "the model cannot end its turn; use prompting.chat: plain"
            )
        end = max(ends, key=len)
        self._end = added[end]
        self.end_ids = _end_ids(tokenizer, self._end, end_ids)
        self._encode_completion = TextEncoder(tokenizer)
        self._encode = TextEncoder(tokenizer, [token for token in added if token in between])
        self._next = {False: self._frame(between), True: self._frame(between[len(end) :])}
        self._first: dict[bool, _Frame] = {}  # with or without a system message, which some templates do not take

    def first_prompt_ids(self, system: str, user: Message) -> Ids:
        """Encode the messages before the first completion."""
        with_system = bool(system)
        if with_system not in self._first:
            messages = [{"role": "user", "content": _USER_TEXT}]
            places = [_USER_TEXT]
            if with_system:
                messages.insert(0, {"role": "system", "content": _SYSTEM_TEXT})
                places.append(_SYSTEM_TEXT)
            self._first[with_system] = self._frame(self._render(messages, *places))
        return self._first[with_system].ids(system, user)

    def next_prompt_ids(self, user: Message, *, ended: bool) -> Ids:
        """Encode the text between two completions."""
        return self._next[ended].ids("", user)

    def encode_completion(self, text: str) -> Ids:
        """Encode a completion's text without what the template writes at its start, and append an end token."""
        return np.append(self._encode_completion(text.removeprefix(self.completion_prefix)), np.int32(self._end))

    def decode_completion(self, ids: Sequence[int]) -> str:
        """Decode a completion, without its end token."""
        return self.completion_prefix + _decode(self._tokenizer, ids, self.end_ids)

    def pieces(self, messages: Sequence[Mapping[str, Any]]) -> list[tuple[Ids, Ids]]:
        """The prompt and the completion of each turn of a recorded conversation.

        The template writes calls and thoughts where it knows them, and otherwise they stand in tags in the text.

        Raises:
            ConfigError: the template changes earlier messages when later ones follow, so no sequence contains all turns.
        """
        added = added_tokens(self._tokenizer)
        cut = inside(sorted(filter(None, added), key=len, reverse=True))
        spelled = [_cut_inside(self._spelled(message), cut) for message in messages]
        end = max((token for token, number in added.items() if number == self._end), key=len)
        turn_pieces, done = list[tuple[Ids, Ids]](), ""
        for first, last in _turns(messages):
            prompt = self._render(spelled[:first])
            rendered = self._render(spelled[:last], ask=False)
            if not prompt.startswith(done) or not rendered.startswith(prompt):
                raise ConfigError(
                    "the chat template changes earlier messages when later ones follow (it cuts thoughts, for instance), so "
                    "the conversation cannot be imitated as written; use sft.replay: true, or another template"
                )
            written, mark, _ = rendered[len(prompt) :].rpartition(end)
            turn_pieces.append(
                (self._rendered_ids(prompt[len(done) :]), np.append(self._rendered_ids(written), np.int32(self._end)))
            )
            done = prompt + written + mark
        return turn_pieces

    def _spelled(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message with what this template does not know in tags in its text."""
        spelled = {name: value for name, value in message.items() if name != "weight"}
        template = str(self._tokenizer.chat_template)
        if "tool_calls" in spelled and "tool_calls" not in template:
            calls = (f"<tool_call>{json.dumps(call['function'])}</tool_call>" for call in spelled.pop("tool_calls"))
            spelled["content"] += "".join(calls)
        if "reasoning_content" in spelled and "reasoning_content" not in template:
            spelled["content"] = f"<think>{spelled.pop('reasoning_content')}</think>{spelled['content']}"
        return spelled

    def _rendered_ids(self, text: str) -> Ids:
        """Ids of rendered text, whose messages are cut inside the special tokens that they spell."""
        with loading("the tokenizer cannot encode a text"):
            ids = [
                self._tokenizer.encode(plain_text(segment), add_special_tokens=False) for segment in text.split(_CUT)
            ]
        return np.concatenate([np.array(segment, np.int32) for segment in ids])

    def _frame(self, rendered: str) -> _Frame:
        return _Frame(rendered, self._tokenizer, self._encode)

    def _render(self, messages: Sequence[Mapping[str, Any]], *placeholders: str, ask: bool = True) -> str:
        """The template's text of messages, with ``ask`` up to where the model begins.

        Raises:
            ConfigError: it does not contain each placeholder once, unchanged.
        """
        with loading("the chat template cannot be rendered", ConfigError):
            rendered = str(
                self._tokenizer.apply_chat_template(
                    list(messages), tokenize=False, add_generation_prompt=ask, **self._options
                )
            )
        if any(rendered.count(placeholder) != 1 for placeholder in placeholders):
            raise ConfigError(
                "the chat template changes the messages; use prompting.history: window if it leaves single messages "
                "unchanged, otherwise prompting.chat: plain"
            )
        return rendered


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """First and last message, exclusive, of each turn: messages of the model, not of weight 0, that follow each other."""
    trained = [message["role"] == "assistant" and message.get("weight") != 0 for message in messages]
    starts = [i for i, flag in enumerate(trained) if flag and not (i and trained[i - 1])]
    ends = [i + 1 for i, flag in enumerate(trained) if flag and trained[i + 1 : i + 2] != [True]]
    return list(zip(starts, ends, strict=True))


_CUT: Final = "\ue000"  # of the private use area: stands where a text is cut inside a special token that it spells


def _cut_inside(value: Any, cut: re.Pattern[str]) -> Any:
    """A message with ``_CUT`` inside every special token that a text in it spells."""
    if isinstance(value, str):
        return _CUT.join(cut.split(value.replace(_CUT, "?")))
    if isinstance(value, Mapping):
        return {name: _cut_inside(item, cut) for name, item in value.items()}
    return [_cut_inside(item, cut) for item in value] if isinstance(value, list) else value


class PlainChat:
    """Running text, for base models: every message is a paragraph, a completion is one line.

    Args:
        tokenizer: a Hugging Face tokenizer.
        end_ids: further ids that end a completion.

    Raises:
        ConfigError: the tokenizer has no token for a line break.
    """

    completion_prefix = ""

    def __init__(self, tokenizer: Any, end_ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._encode = TextEncoder(tokenizer)
        line = self._encode("\n")
        if len(line) != 1:
            raise ConfigError(
                f"prompting.chat: plain needs a tokenizer with a token for a line break, got {line.tolist()}"
            )
        self._end = int(line[0])
        self.end_ids = _end_ids(tokenizer, self._end, end_ids)
        with loading("the tokenizer cannot encode a text"):
            added = tokenizer.encode("")  # what the tokenizer itself writes around every text
        self._begin = np.array(added[:1] if added[:1] == [tokenizer.bos_token_id] else [], np.int32)
        named = added_tokens(tokenizer)
        self._picture = np.array([named[token] for token in VISION_TOKENS if token in named], np.int32)

    def first_prompt_ids(self, system: str, user: Message) -> Ids:
        """Encode the messages before the first completion."""
        first, *more_texts = _stripped(user)
        ids = self._ids(["\n\n".join(filter(None, (system, first))), *more_texts])
        return np.concatenate([self._begin, ids])

    def next_prompt_ids(self, user: Message, *, ended: bool) -> Ids:
        """Encode the text between two completions."""
        first, *more_texts = _stripped(user)
        return self._ids([("" if ended else "\n") + first, *more_texts])

    def encode_completion(self, text: str) -> Ids:
        """Encode a completion's text, and append an end token."""
        return np.append(self._encode(text.replace("\n", " ")), np.int32(self._end))

    def decode_completion(self, ids: Sequence[int]) -> str:
        """Decode a completion, without its end token."""
        return _decode(self._tokenizer, ids, self.end_ids)

    def pieces(self, messages: Sequence[Mapping[str, Any]]) -> list[tuple[Ids, Ids]]:  # noqa: ARG002 - the interface of a chat
        """Refused: running text has no roles, calls or thoughts.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "a conversation with a system's message, tools or thoughts needs a chat template: use prompting.chat: template"
        )

    def _ids(self, texts: list[str]) -> Ids:
        return _between([*texts[:-1], texts[-1] + "\n>"], self._picture, self._encode)


def _decode(tokenizer: Any, ids: Sequence[int], end_ids: frozenset[int]) -> str:
    """The text of a completion without its end token."""
    text_ids = ids[:-1] if len(ids) and int(ids[-1]) in end_ids else ids
    return str(tokenizer.decode(list(map(int, text_ids)), skip_special_tokens=False))


def make_chat(kind: str, tokenizer: Any, options: Mapping[str, Any] | None = None, end_ids: Sequence[int] = ()) -> Chat:
    """Make a chat by its kind, ``template`` or ``plain``.

    Raises:
        ConfigError: another kind, or the tokenizer does not support it.
    """
    if kind == "template":
        return TemplateChat(tokenizer, options, end_ids)
    if kind == "plain":
        return PlainChat(tokenizer, end_ids)
    raise ConfigError(f"prompting.chat must be 'template' or 'plain', got {short_repr(kind)}")
