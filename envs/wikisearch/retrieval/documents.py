"""The JSON form of passages in corpora and servers: an id with the contents, or with title and text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.reading.limits import MAX_PASSAGE
from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["read_document", "read_passages", "write_document"]


def read_document(data: Any, *, quotes: bool = False) -> Passage:
    r"""A passage from a corpus row or a server's document.

    Args:
        data: ``{"id", "contents": "title\ntext"}``; or ``title`` with ``text`` or ``content`` instead of contents; and
            optionally ``page`` or ``url``, which names the page (default: its title).
        quotes: keep double quotes around a title, as Search-R1's prompt does.

    Raises:
        DataError: a missing or malformed key.

    >>> read_document({"id": 7, "contents": "\"Inception\"\nA film."}).title
    'Inception'
    """
    if not isinstance(data, Mapping):
        raise DataError(f"a document must be a JSON object, got {short_repr(data)}")
    contents, title = data.get("contents"), data.get("title")
    text = data.get("text", data.get("content"))
    if isinstance(contents, str):
        head, _, body = contents.partition("\n")
        title, text = head, body
    if not isinstance(title, str) or not isinstance(text, str):
        raise DataError(
            f"a document needs 'contents', or 'title' and 'text'; got the keys {sorted(map(str, data))[:8]}"
        )
    if not quotes and len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    page = data.get("page", data.get("url", title))
    number = data.get("id", "")
    if not isinstance(page, str) or not isinstance(number, str | int) or isinstance(number, bool):
        raise DataError(
            f"a document's 'id' must be a text or a number, its 'page' or 'url' a text; got {short_repr(number, 40)}, {short_repr(page, 40)}"
        )
    return Passage(str(number), title, text, page)


def write_document(passage: Passage) -> dict[str, str]:
    """The row of a passage: id, contents, and the page where its name is not the title."""
    row = {"id": passage.id, "contents": passage.contents}
    if passage.page != passage.title:
        row["page"] = passage.page
    return row


def read_passages(path: str | Path) -> Iterator[Passage]:
    """Passages of a JSON lines file (``.gz`` or plain), one at a time.

    Raises:
        DataError: the file or a line is malformed; names the line.
    """
    for where, row in read_json_lines(path, longest=MAX_PASSAGE):
        try:
            passage = read_document(row)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        yield passage
