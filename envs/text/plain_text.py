"""Texts for those who take UTF-8 alone: tokenizers, and engines in other languages."""

from __future__ import annotations

__all__ = ["plain_text"]


def plain_text(text: str) -> str:
    r"""The text with question marks for lone surrogates, which JSON can carry and UTF-8 cannot.

    >>> plain_text("a\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode("utf-8")
