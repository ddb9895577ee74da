"""Valid UTF-8 for tokenizers and for engines in other languages."""

from __future__ import annotations

__all__ = ["plain_text"]


def plain_text(text: str) -> str:
    r"""Replace lone surrogates, which JSON can represent and UTF-8 cannot, by question marks.

    >>> plain_text("a\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode("utf-8")
