"""The text format of the released reward model: where its placeholder stands, and what it is sent.

For parity with models trained by the released code only. Our own success model never searches text for turns: it reads
at the token offsets of the turns themselves.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["compact_text", "insert_placeholder", "released_query", "search_ends"]

PLACEHOLDER: Final = "<|vision_start|>"  # what the released settings use with Qwen models
# a warning is passed over whole, for the released ones quote search tags
_SEARCH_END: Final = re.compile(r"<warning>.*?</warning>|(?P<end></search>)(?=\s*<information>)", re.DOTALL)


def compact_text(text: str) -> str:
    """Every run of white space as one space, none at the ends."""
    return " ".join(text.split())


def search_ends(text: str) -> list[int]:
    """Positions behind every ``</search>`` that an ``<information>`` block follows, outside of warnings.

    >>> search_ends("<search>a</search> <information>…</information><search>b</search>")
    [18]
    """
    return [match.end() for match in _SEARCH_END.finditer(text) if match["end"]]


def insert_placeholder(text: str, placeholder: str = PLACEHOLDER) -> str:
    """``placeholder`` and a newline behind every search that returned something."""
    return _SEARCH_END.sub(lambda match: match[0] + (f"{placeholder}\n" if match["end"] else ""), text)


def released_query(question: str, response: str, placeholder: str = PLACEHOLDER) -> str:
    """What the released model is sent: placeholders behind every search of question and response, and at the end."""
    return insert_placeholder(compact_text(question + response), placeholder) + placeholder
