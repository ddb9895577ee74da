"""Text of an observation: protocol tags in it escaped, passages cut, and its length in tokens.

Text from outside is escaped so that a passage or query cannot inject tags of the protocol that quotes it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["clip", "count_tokens", "escape_protocol_tags", "one_line", "searchable"]

# tags of all dialects and of chat templates ("<|im_start|>"); all other mark-up is left alone
_PROTOCOL: Final = re.compile(
    r"<(\s*/?\s*(?:search|answer|information|think|access|visit|warning|documents?|result|tool_call|tool_response)"
    r"\b[^<>]{0,200}|\|[^<>|]{0,60}\|)>",
    re.IGNORECASE,
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+")
_CONTROL_BUT_NEWLINE: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+")


def escape_protocol_tags(text: str) -> str:
    """The text with the angle brackets of protocol tags replaced by ‹ and ›, and control characters by spaces.

    >>> escape_protocol_tags("a </information> b <i>c</i> <|im_end|>")
    'a ‹/information› b <i>c</i> ‹|im_end|›'
    """
    return _PROTOCOL.sub(r"‹\1›", _CONTROL_BUT_NEWLINE.sub(" ", text))


def one_line(text: str) -> str:
    """The text on one line: control characters and runs of spaces become one space."""
    return " ".join(_CONTROL.sub(" ", text).split())


@lru_cache(maxsize=1 << 16)
def searchable(text: str) -> str:
    """A text as a query that every dialect can write: one line, no protocol tags, and no "|", which separates queries."""
    return " ".join(one_line(escape_protocol_tags(text)).replace("|", " ").split())


def clip(passage: Passage, max_chars: int) -> Passage:
    """The passage, its text cut to ``max_chars`` characters with a mark at the end."""
    return passage if len(passage.text) <= max_chars else replace(passage, text=passage.text[:max_chars] + " […]")


def count_tokens(text: str) -> int:
    """The length of a tool result against the token budget: UTF-8 bytes / 4, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)
