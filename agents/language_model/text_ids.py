"""Token ids of texts that users, environments and files write: special tokens in them are text like any other.

A tokenizer of ``transformers`` otherwise reads ``<|im_end|>`` in an observation as the control token, which ends the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.reading.failures import loading
from creditflow.envs.text.plain_text import plain_text

__all__ = ["TextEncoder", "added_tokens", "inside", "text_ids"]

Ids = NDArray[np.int32]
MAX_CACHED: Final = 65_536  # encoded texts and lines; boards and pages recur
_LINES: Final = re.compile(r"(?<=\S\n)(?=\S)")
_SPANNING: Final = re.compile(
    r"[\nĊ][^\s▁ĠĊĉč]"
)  # a line break and more inside a piece, also as bytes are written in BPE


def text_ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Ids of texts, without special tokens of any kind.

    Raises:
        DataError: the tokenizer cannot encode a text.
    """
    with loading("the tokenizer cannot encode a text"):
        encoded = tokenizer([plain_text(text) for text in texts], add_special_tokens=False, split_special_tokens=True)
    return list(encoded["input_ids"])


def added_tokens(tokenizer: Any) -> dict[str, int]:
    """Ids of the tokens that a tokenizer looks for before it splits a text into words, by their text."""
    return {str(token): int(number) for number, token in tokenizer.added_tokens_decoder.items()}


def inside(tokens: Iterable[str]) -> re.Pattern[str]:
    """A pattern that splits a text after the first character of every one of these tokens."""
    cuts = (f"(?<={re.escape(token[0])})(?={re.escape(token[1:])})" for token in tokens if len(token) > 1)
    return re.compile("|".join(cuts) or "(?!)")


class TextEncoder:
    """Encodes texts, and remembers texts and their lines.

    A line of a text is encoded once. Where no piece of the vocabulary contains a line break and what follows, no token can
    reach over the cut; that a cut between two characters changes nothing else is compared with the whole text when these
    characters first meet. A tokenizer for which it does encodes whole texts.

    Args:
        tokenizer: a Hugging Face tokenizer.
        broken: tokens that are not special, but must not come out of a text either: those of a chat template.
    """

    def __init__(self, tokenizer: Any, broken: Iterable[str] = ()) -> None:
        self.tokenizer = tokenizer
        special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        controls = {
            token: number for token, number in added_tokens(tokenizer).items() if token in special | set(broken)
        }
        self._controls, self._inside = frozenset(controls.values()), inside(controls)
        self._by_lines = not any(map(_SPANNING.search, tokenizer.get_vocab()))
        self._cache: dict[str, Ids] = {}
        self._lines: dict[str, list[int]] = {}
        self._met: set[str] = set()

    def __call__(self, text: str) -> Ids:
        """Ids of a text, int32, not writeable."""
        ids = self._cache.get(text)
        if ids is None:
            ids = np.array(self._encode(text), np.int32)
            ids.flags.writeable = False
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[text] = ids
        return ids

    def _encode(self, text: str) -> list[int]:
        ids = self._of_lines(text)
        if self._controls.isdisjoint(ids):
            return ids
        # a token that is not marked as special, or one that the model of the tokenizer has as a piece of text
        return [number for piece in self._inside.split(text) for number in self._of_lines(piece)]

    def _of_lines(self, text: str) -> list[int]:
        lines = _LINES.split(text) if self._by_lines else [text]
        if len(lines) == 1:
            return text_ids(self.tokenizer, lines)[0]
        if new := [line for line in dict.fromkeys(lines) if line not in self._lines]:
            if len(self._lines) >= MAX_CACHED:
                self._lines.clear()
                new = list(dict.fromkeys(lines))
            self._lines.update(zip(new, text_ids(self.tokenizer, new), strict=True))
        ids = [number for line in lines for number in self._lines[line]]
        meeting = {before[-2] + after[0] for before, after in pairwise(lines)}
        if not meeting <= self._met:
            unsplit = text_ids(self.tokenizer, [text])[0]
            if unsplit != ids:
                self._by_lines = False
                return unsplit
            self._met |= meeting
        return ids
