"""Turning messages into token ids, so that a growing conversation is never encoded twice.

A chat template is rendered twice with placeholders: once for how a conversation begins, once for what stands between
the end of an answer and the next one. After that every turn only *appends* ids: what the model sampled stays as it was
sampled. A template that cuts thoughts out of earlier answers therefore cannot change the past.
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
_USER: Final = "CREDITFLOWUSERTEXT"
_ANSWER: Final = "CREDITFLOWANSWERTEXT"
_REMEMBERED: Final = 65_536  # encoded texts; boards and pages recur


class Chat(Protocol):
    """How one model family writes conversations."""

    end_ids: frozenset[int]
    completion_prefix: str

    def first_prompt_ids(self, system: str, user: str) -> Ids:
        """The ids up to the first answer."""
        ...

    def next_prompt_ids(self, user: str, *, ended: bool) -> Ids:
        """The ids between an answer and the next; ``ended``: the answer closed itself with an end token."""
        ...

    def encode_completion(self, text: str) -> Ids:
        """A whole answer as ids, its end token included: what a teacher writes."""
        ...

    def decode_completion(self, ids: Sequence[int]) -> str:
        """The text of an answer, without its end token."""
        ...


class _Encoder:
    """Encodes texts without adding special tokens, remembering the results."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known: dict[str, Ids] = {}

    def __call__(self, text: str) -> Ids:
        ids = self._known.get(text)
        if ids is None:
            ids = np.asarray(self.tokenizer.encode(plain_text(text), add_special_tokens=False), np.int32)
            ids.flags.writeable = False
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = ids
        return ids


class TemplateChat:
    """Conversations by the tokenizer's own chat template.

    Args:
        tokenizer: a Hugging Face tokenizer with a chat template.
        options: for the template ("enable_thinking", "date_string", …).
        end_ids: more ids that end an answer (a model's generation config).

    Attributes:
        end_ids: ids that end an answer.
        opened: what the template itself writes at the start of every answer ("<think>" for some reasoning models).

    Raises:
        ConfigError: there is no template, or it does not show an answer as it was given.
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any] | None = None, end_ids: Sequence[int] = ()) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(
                "this tokenizer has no chat template: use prompting.chat: plain (a base model's running text), or give the "
                "tokenizer a template (tokenizer.chat_template = …; tokenizer.save_pretrained(…))"
            )
        self._tokenizer = tokenizer
        # a fixed date: some templates write today's into the system message, and prompts must not depend on the clock
        if not isinstance(options or {}, Mapping):
            raise ConfigError(f"the options of a chat template are a mapping, got {short_repr(options)}")
        self._options = {"date_string": "01 Jan 2025"} | dict(options or {})
        self._encode = _Encoder(tokenizer)
        users = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _ANSWER}]
        whole = self._render([*users, {"role": "user", "content": _USER}])
        if whole.count(_ANSWER) != 1 or whole.count(_USER) != 1:
            raise ConfigError(
                "the chat template does not show messages as they were given; only prompting.history: window can be used "
                "with it if it leaves single messages alone, otherwise use prompting.chat: plain"
            )
        between = whole.partition(_ANSWER)[2]
        self._between, _, self._after = between.partition(_USER)
        self.completion_prefix = "<think>" if self._after.rstrip().endswith("<think>") else ""
        self._end, self._end_text = self._turn_end()
        self.end_ids = frozenset({self._end, *end_ids} | ({tokenizer.eos_token_id} - {None}))

    def first_prompt_ids(self, system: str, user: str) -> Ids:
        """The ids up to the first answer."""
        messages = [{"role": "system", "content": system}] if system else []
        return self._encode(self._render([*messages, {"role": "user", "content": user.strip()}]))

    def next_prompt_ids(self, user: str, *, ended: bool) -> Ids:
        """The ids between an answer and the next."""
        between = self._between[len(self._end_text) :] if ended else self._between
        return self._encode(between + user.strip() + self._after)

    def encode_completion(self, text: str) -> Ids:
        """A whole answer as ids, its end token included."""
        return np.append(self._encode(text), np.int32(self._end))

    def decode_completion(self, ids: Sequence[int]) -> str:
        """The text of an answer, without its end token."""
        kept = ids[:-1] if len(ids) and int(ids[-1]) in self.end_ids else ids
        return self.completion_prefix + str(self._tokenizer.decode(list(map(int, kept)), skip_special_tokens=False))

    def _render(self, messages: list[dict[str, str]]) -> str:
        with loading("the chat template cannot be rendered", ConfigError):
            return str(
                self._tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, **self._options
                )
            )

    def _turn_end(self) -> tuple[int, str]:
        """The token that the template puts after an answer."""
        first = int(self._encode(self._between)[0]) if len(self._encode(self._between)) else -1
        text = self._tokenizer.decode([first]) if first >= 0 else ""
        special = set(self._tokenizer.all_special_ids) | set(getattr(self._tokenizer, "added_tokens_decoder", {}))
        if first not in special or not self._between.startswith(text):
            raise ConfigError(
                f"the chat template ends an answer with {self._between[:20]!r}, which is not one special token: there "
                "is nothing a model could end its turn with; use prompting.chat: plain"
            )
        return first, text


class PlainChat:
    """Running text, for base models: every message is a paragraph, an answer is one line.

    Args:
        tokenizer: a Hugging Face tokenizer.
        end_ids: more ids that end an answer.
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
        self.end_ids = frozenset({self._end, *end_ids} | ({tokenizer.eos_token_id} - {None}))

    def first_prompt_ids(self, system: str, user: str) -> Ids:
        """The ids up to the first answer."""
        first = getattr(self._tokenizer, "bos_token_id", None)
        ids = self._encode("\n\n".join(filter(None, (system, user.strip()))) + "\n>")
        return ids if first is None else np.concatenate([np.array([first], np.int32), ids])

    def next_prompt_ids(self, user: str, *, ended: bool) -> Ids:
        """The ids between an answer and the next."""
        return self._encode(("" if ended else "\n") + user.strip() + "\n>")

    def encode_completion(self, text: str) -> Ids:
        """A whole answer as ids, its end token included."""
        return np.append(self._encode(text.replace("\n", " ")), np.int32(self._end))

    def decode_completion(self, ids: Sequence[int]) -> str:
        """The text of an answer, without its end token."""
        kept = ids[:-1] if len(ids) and int(ids[-1]) in self.end_ids else ids
        return str(self._tokenizer.decode(list(map(int, kept)), skip_special_tokens=False))


def make_chat(kind: str, tokenizer: Any, options: Mapping[str, Any] | None = None, end_ids: Sequence[int] = ()) -> Chat:
    """``template`` or ``plain``.

    Raises:
        ConfigError: another kind, or a tokenizer that does not suit it.
    """
    if kind == "template":
        return TemplateChat(tokenizer, options, end_ids)
    if kind == "plain":
        return PlainChat(tokenizer, end_ids)
    raise ConfigError(f"prompting.chat must be 'template' or 'plain', got {short_repr(kind)}")
