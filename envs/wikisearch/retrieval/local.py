"""Search and visits over a corpus in this process, with any engine that ranks its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from creditflow.envs.errors import DataError
from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.text.bm25.index import BM25, build_index
from creditflow.envs.wikisearch.render import searchable
from creditflow.envs.wikisearch.retrieval.base import Corpus, Hit, MemoryCorpus, Passage, RowIndex

__all__ = ["LocalRetriever", "best_overlap", "index_of", "index_passages"]


def best_overlap(goal: str, passages: Sequence[str], limit: int) -> list[int]:
    """The passages that share most different words with the goal; of equal ones the first. Without a goal the beginning.

    >>> best_overlap("royal charter", ["a town", "its charter", "a royal charter", "a river"], 2)
    [1, 2]
    """
    goal_terms = set(analyse(goal.lower()))
    overlap = [len(goal_terms & set(analyse(text.lower()))) for text in passages]
    return sorted(sorted(range(len(passages)), key=lambda i: (-overlap[i], i))[:limit])


class LocalRetriever:
    """Search and visit over a corpus in this process.

    Args:
        corpus: the passages.
        index: ranks the rows of the corpus.
        page_passages: passages of a page that one visit returns; of a longer page those that match the goal best.

    Raises:
        DataError: corpus and index differ in size.
    """

    def __init__(self, corpus: Corpus, index: RowIndex, page_passages: int = 5) -> None:
        if len(corpus) != len(index):
            raise DataError(f"the index has {len(index)} passages but the corpus has {len(corpus)}; rebuild the index")
        self.corpus, self.index, self.page_passages = corpus, index, page_passages
        self.digest = corpus.digest

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best ``k`` passages for each query."""
        return [
            [Hit(self.corpus.passage(row), score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]
            for rows, scores in self.index.rank(queries, k)
        ]

    def rows(self, query: str, k: int) -> tuple[int, ...]:
        """Rows of the best ``k`` passages for a query."""
        return tuple(self.index.rank([query], k)[0][0].tolist())

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        """The passages of each page."""
        return [tuple(self.corpus.passage(row) for row in self.visit_rows(name, goal)) or None for name in ids]

    def visit_rows(self, name: str, goal: str = "") -> tuple[int, ...]:
        """Rows that a visit returns, in the page's order; () for an unknown page."""
        page = self.corpus.find_page(name)
        rows = () if page is None else self.corpus.page_rows(page)
        if len(rows) <= self.page_passages:
            return rows
        chosen = best_overlap(goal, [self.corpus.passage(row).text for row in rows], self.page_passages)
        return tuple(rows[i] for i in chosen)

    def named(self, name: str) -> tuple[Passage, ...]:
        """The passage with this id, else all passages of the page with this id or title; () if there is none."""
        row = self.corpus.row(name)
        if row is not None:
            return (self.corpus.passage(row),)
        page = self.corpus.find_page(name)
        return () if page is None else tuple(self.corpus.passage(row) for row in self.corpus.page_rows(page))

    def listed_visit(self, passage: Passage) -> str:
        """The title that a listed visit opens the passage's page by; "" if visits of it are not listed.

        Visits are listed for pages of several passages that one visit returns in full, with a unique title that every
        dialect can write.
        """
        rows = self.corpus.page_rows(passage.page)
        if not 1 < len(rows) <= self.page_passages:
            return ""
        title = self.corpus.passage(rows[0]).title
        return title if searchable(title) == title and self.corpus.find_page(title) == passage.page else ""

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id.

        Raises:
            DataError: an unknown id.
        """
        passages = []
        for name in ids:
            row = self.corpus.row(name)
            if row is None:
                raise DataError(f"the corpus {self.digest} has no passage {name[:60]!r}")
            passages.append(self.corpus.passage(row))
        return passages


def index_of(corpus: Corpus) -> BM25:
    """BM25 over the passages of a corpus; the order of their ids breaks ties."""
    ids = list[str]()

    def contents() -> Iterator[str]:
        for row in range(len(corpus)):
            passage = corpus.passage(row)
            ids.append(passage.id)
            yield passage.contents.lower()

    return build_index(contents(), ids)


def index_passages(passages: MemoryCorpus) -> LocalRetriever:
    """A BM25 engine over passages in memory."""
    return LocalRetriever(passages, index_of(passages))
