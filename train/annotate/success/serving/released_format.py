"""The text format of the released reward model: the positions of its placeholder, and the text of a request.

For parity with models trained by the released code only. Our own success model does not search text for turns: it
is evaluated at the token offsets of the turns.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["compact_text", "insert_placeholder", "released_query", "search_ends"]

PLACEHOLDER: Final = "<|vision_start|>"  # of the released settings for Qwen models
# warnings are skipped, because the released ones quote search tags
_SEARCH_END: Final = re.compile(r"<warning>.*?</warning>|(?P<end></search>)(?=\s*<information>)", re.DOTALL)


def compact_text(text: str) -> str:
    """Every run of white space as one space, none at the ends."""
    return " ".join(text.split())


def search_ends(text: str) -> list[int]:
    """Positions after every ``</search>`` that an ``<information>`` block follows, outside of warnings.

    >>> search_ends("<search>a</search> <information>…</information><search>b</search>")
    [18]
    """
    return [match.end() for match in _SEARCH_END.finditer(text) if match["end"]]


def insert_placeholder(text: str, placeholder: str = PLACEHOLDER) -> str:
    """``placeholder`` and a newline after every search that returned something."""
    return _SEARCH_END.sub(lambda match: match[0] + (f"{placeholder}\n" if match["end"] else ""), text)


def released_query(question: str, response: str, placeholder: str = PLACEHOLDER) -> str:
    """The text of a request to the released model: placeholders after every search, and at the end."""
    return insert_placeholder(compact_text(question + response), placeholder) + placeholder
