"""Turn messages into token ids, so that a growing conversation is never encoded twice.

A chat template is rendered once with placeholders, to find the text that it writes between two completions. After that every
turn only *appends* ids: completions stay as they were sampled. A template that cuts thoughts out of earlier completions
therefore cannot change the past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.reading.failures import loading
from creditflow.envs.text.plain_text import plain_text

__all__ = ["Chat", "PlainChat", "TemplateChat", "make_chat"]

Ids = NDArray[np.int32]
_USER_TEXT: Final = "CREDITFLOWUSERTEXT"
_COMPLETION_TEXT: Final = "CREDITFLOWANSWERTEXT"
_MAX_CACHED: Final = 65_536  # encoded texts; boards and pages recur


class Chat(Protocol):
    """How the messages of a conversation become token ids.

    Attributes:
        end_ids: ids that end a completion.
        completion_prefix: what the chat template itself writes at the start of every completion.
    """

    end_ids: frozenset[int]
    completion_prefix: str

    def first_prompt_ids(self, system: str, user: str) -> Ids:
        """Encode the messages before the first completion."""
        ...

    def next_prompt_ids(self, user: str, *, ended: bool) -> Ids:
        """Encode the text between two completions; ``ended``: the first one ended with an end token."""
        ...

    def encode_completion(self, text: str) -> Ids:
        """Encode a completion's text, and append an end token."""
        ...

    def decode_completion(self, ids: Sequence[int]) -> str:
        """Decode a completion, without its end token."""
        ...


class _Encoder:
    """Encodes texts without adding special tokens, and caches the results."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._cache: dict[str, Ids] = {}

    def __call__(self, text: str) -> Ids:
        ids = self._cache.get(text)
        if ids is None:
            with loading("the tokenizer cannot encode a text"):
                ids = np.asarray(self.tokenizer.encode(plain_text(text), add_special_tokens=False), np.int32)
            ids.flags.writeable = False
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[text] = ids
        return ids


def _end_ids(tokenizer: Any, own: int, given: Sequence[int]) -> frozenset[int]:
    """End tokens of a completion: the chat format's own, those of a generation config, and the tokenizer's, if it has one."""
    return frozenset({own, *given} | ({tokenizer.eos_token_id} - {None}))


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
        self._encode = _Encoder(tokenizer)
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _COMPLETION_TEXT}]
        rendered = self._render([*messages, {"role": "user", "content": _USER_TEXT}])
        if rendered.count(_COMPLETION_TEXT) != 1 or rendered.count(_USER_TEXT) != 1:
            raise ConfigError(
                "the chat template changes the messages; use prompting.history: window if it leaves single messages "
                "unchanged, otherwise prompting.chat: plain"
            )
        between = rendered.partition(_COMPLETION_TEXT)[2]
        self._between, _, self._after = between.partition(_USER_TEXT)
        self.completion_prefix = "<think>" if self._after.rstrip().endswith("<think>") else ""
        self._end, self._end_text = self._turn_end()
        self.end_ids = _end_ids(tokenizer, self._end, end_ids)

    def first_prompt_ids(self, system: str, user: str) -> Ids:
        """Encode the messages before the first completion."""
        messages = [{"role": "system", "content": system}] if system else []
        return self._encode(self._render([*messages, {"role": "user", "content": user.strip()}]))

    def next_prompt_ids(self, user: str, *, ended: bool) -> Ids:
        """Encode the text between two completions."""
        between = self._between[len(self._end_text) :] if ended else self._between
        return self._encode(between + user.strip() + self._after)

    def encode_completion(self, text: str) -> Ids:
        """Encode a completion's text, and append an end token."""
        return np.append(self._encode(text), np.int32(self._end))

    def decode_completion(self, ids: Sequence[int]) -> str:
        """Decode a completion, without its end token."""
        return self.completion_prefix + _decode(self._tokenizer, ids, self.end_ids)

    def _render(self, messages: list[dict[str, str]]) -> str:
        with loading("the chat template cannot be rendered", ConfigError):
            return str(
                self._tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, **self._options
                )
            )

    def _turn_end(self) -> tuple[int, str]:
        """The token that the template puts after a completion, and its text."""
        first = int(self._encode(self._between)[0]) if len(self._encode(self._between)) else -1
        text = self._tokenizer.decode([first]) if first >= 0 else ""
        special = set(self._tokenizer.all_special_ids) | set(getattr(self._tokenizer, "added_tokens_decoder", {}))
        if first not in special or not self._between.startswith(text):
            raise ConfigError(
                f"the chat template ends a completion with {self._between[:20]!r}, which is not one special token, so "
                "the model cannot end its turn; use prompting.chat: plain"
            )
        return first, text


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
        self._encode = _Encoder(tokenizer)
        line = self._encode("\n")
        if len(line) != 1:
            raise ConfigError(
                f"prompting.chat: plain needs a tokenizer with a token for a line break, got {line.tolist()}"
            )
        self._end = int(line[0])
        self.end_ids = _end_ids(tokenizer, self._end, end_ids)

    def first_prompt_ids(self, system: str, user: str) -> Ids:
        """Encode the messages before the first completion."""
        first = getattr(self._tokenizer, "bos_token_id", None)
        ids = self._encode("\n\n".join(filter(None, (system, user.strip()))) + "\n>")
        return ids if first is None else np.concatenate([np.array([first], np.int32), ids])

    def next_prompt_ids(self, user: str, *, ended: bool) -> Ids:
        """Encode the text between two completions."""
        return self._encode(("" if ended else "\n") + user.strip() + "\n>")

    def encode_completion(self, text: str) -> Ids:
        """Encode a completion's text, and append an end token."""
        return np.append(self._encode(text.replace("\n", " ")), np.int32(self._end))

    def decode_completion(self, ids: Sequence[int]) -> str:
        """Decode a completion, without its end token."""
        return _decode(self._tokenizer, ids, self.end_ids)


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
