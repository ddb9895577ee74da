"""The index folder of the built-in BM25. Ties are in the order of ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.text.bm25.index import BM25, ranks_of
from creditflow.envs.text.bm25.stored import IndexWriter, stored_index
from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["EmbeddedBuilder", "open_embedded"]

RANKS: Final = "id_ranks.i4"


class EmbeddedBuilder:
    """Writes a BM25 index into a folder; memory contains the vocabulary and the ids.

    Args:
        folder: receives the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._ids = folder, list[str]()
        self._writer = IndexWriter(folder)

    def add(self, passage: Passage) -> None:
        """Index the next passage."""
        self._ids.append(passage.id)
        self._writer.add(passage.contents.lower())

    def finish(self) -> dict[str, Any]:
        """Write vocabulary, postings and the order of ids."""
        self._writer.finish()
        ranks_of(self._ids).astype("<i4").tofile(self._folder / RANKS)
        return {}

    def close(self) -> None:
        """Close the spill file, finished or not."""
        self._writer.close()


def open_embedded(files: ChecksummedFolder) -> BM25:
    """The index of a folder.

    Raises:
        DataError: its files do not fit together.
    """
    return stored_index(files, files.array(RANKS, "<i4"))
