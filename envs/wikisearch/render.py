"""The text of an observation: the question, the last tool result with long passages cut, and the notice of a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from creditflow.envs.wikisearch.protocol.dialects import Dialect
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.snapshot import LastResult

__all__ = ["clip", "count_tokens", "render_notice", "render_result"]


def clip(passage: Passage, max_chars: int) -> Passage:
    """The passage, its text cut to ``max_chars`` characters with a mark at the end."""
    return passage if len(passage.text) <= max_chars else replace(passage, text=passage.text[:max_chars] + " […]")


def render_result(dialect: Dialect, result: LastResult, groups: Sequence[Sequence[Passage]]) -> str:
    """A tool result: the passages of each query or page, in the dialect's frame."""
    write = dialect.results if result.tool == "search" else dialect.pages
    return write(result.items, groups)


def render_notice(dialect: Dialect, used_up: str, last_turn: bool) -> str:
    """Announces that only an answer is possible now, or that this is the last turn; "" if neither."""
    if used_up:
        return dialect.limit(f"{used_up}; only an answer is possible now.")
    return dialect.limit("this is the last turn; an answer is due now.") if last_turn else ""


def count_tokens(text: str) -> int:
    """The length of a tool result against the token budget: UTF-8 bytes / 4, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)
