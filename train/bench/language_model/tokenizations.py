"""The tokenizations of texts: which sequences of token ids decode to an action's text, or can be continued to one.

A completion is parsed from its decoded text, so one action has many completions: with other token boundaries, other case and
white space around it, as far as the dialect and the environment accept them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from creditflow.envs.errors import ConfigError

__all__ = ["Tokenizations"]

_SPACES = re.compile(r"\s+")
_CLEANED = set(".?!,'")  # clean_up_tokenization_spaces changes texts around these only
_BROKEN = "\ufffd"


class Tokenizations:
    """Decides whether the decoded text of a prefix of a completion is, or can become, one of the given texts.

    Texts are compared up to case and runs of white space, inside and around them: no environment accepts more.

    Args:
        tokenizer: a Hugging Face tokenizer.
        texts: texts of the actions.

    Raises:
        ConfigError: the tokenizer rewrites some of these texts after decoding.
    """

    def __init__(self, tokenizer: Any, texts: Sequence[str]) -> None:
        changed = sorted(_CLEANED & set("".join(texts)))
        if getattr(tokenizer, "clean_up_tokenization_spaces", False) and changed:
            raise ConfigError(
                f"this tokenizer removes spaces before {' '.join(changed)} when it decodes, and some actions contain these "
                "characters; save the tokenizer with clean_up_tokenization_spaces=False"
            )
        self._tokenizer = tokenizer
        self._complete = {_plain(text) for text in texts}
        self._prefixes = {text[:i] for text in self._complete for i in range(len(text) + 1)}
        self._parts = {
            text[i:j] for text in self._complete for i in range(len(text)) for j in range(i + 1, len(text) + 1)
        }
        letters = set("".join(self._complete))
        self._starts = {  # proper prefixes of characters of several bytes
            code[:i]
            for character in (*_wide_characters(), *sorted(letters))
            if character.isspace() or set(character.casefold()) <= letters
            for code in [character.encode()]
            for i in range(1, len(code))
        }
        self._bytes = _byte_level(tokenizer)

    def candidates(self, vocabulary: int) -> list[int]:
        """Ids below ``vocabulary`` that can occur in a completion that decodes to one of the texts."""
        return [token for token in range(vocabulary) if self._can_occur(token)]

    def is_prefix(self, ids: Sequence[int]) -> bool:
        """Whether some continuation of these ids may decode to one of the texts."""
        text = self._decoded(ids)
        if text is None:
            return False
        plain = _SPACES.sub(" ", text.lstrip().casefold())
        return plain in self._prefixes or plain.rstrip() in self._complete

    def is_complete(self, ids: Sequence[int]) -> bool:
        """Whether these ids decode to one of the texts, up to case and white space."""
        text = self._decoded(ids)
        return text is not None and _plain(text) in self._complete

    def _can_occur(self, token: int) -> bool:
        if self._bytes is not None:
            text = self._token_bytes(self._bytes, [token]).decode("utf-8", "replace")
        else:
            text = str(self._tokenizer.decode([token], skip_special_tokens=False))
        plain = _plain(text.strip(_BROKEN))
        return not plain or plain in self._parts

    def _decoded(self, ids: Sequence[int]) -> str | None:
        """The text so far, without an incomplete character at its end; None if it contains bytes that are not UTF-8."""
        if self._bytes is None:
            text = str(self._tokenizer.decode(list(ids), skip_special_tokens=False)).rstrip(_BROKEN)
            return None if _BROKEN in text else text
        code = self._token_bytes(self._bytes, ids)
        for unfinished in range(min(4, len(code) + 1)):
            head, tail = code[: len(code) - unfinished], code[len(code) - unfinished :]
            if tail and tail not in self._starts:
                continue
            try:
                return head.decode()
            except UnicodeDecodeError:
                continue
        return None

    def _token_bytes(self, byte_of: Mapping[str, int], ids: Sequence[int]) -> bytes:
        """The bytes of byte-level tokens; ids that the tokenizer lacks give none."""
        tokens = [token for token in self._tokenizer.convert_ids_to_tokens(list(ids)) if token is not None]
        return b"".join(
            bytes(byte_of[c] for c in token) if all(c in byte_of for c in token) else token.encode() for token in tokens
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _byte_level(tokenizer: Any) -> dict[str, int] | None:
    """The byte of each character of byte-level BPE; None for other tokenizers."""
    from tokenizers import decoders

    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if not isinstance(decoder, decoders.ByteLevel):
        return None
    # printable bytes are their own characters; the others are the characters from 256 on, in order
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(unprintable)}


@lru_cache(maxsize=1)
def _wide_characters() -> tuple[str, ...]:
    """All characters of several bytes that are white space or change under casefolding."""
    characters = map(chr, range(0x80, sys.maxunicode + 1))
    return tuple(c for c in characters if c.isspace() or c.casefold() != c)
