"""A corpus as a web site: a search lists pages with their URLs and the beginnings of passages, a visit opens a page.

A result list shows no evidence: whoever wants it has to open the page. A page of more passages than one visit returns has
parts with URLs of their own, to which the entries of a result list lead; its own URL opens the passages that
share most words with the visitor's goal. The site has two rows for each passage of the corpus: the passage, and its entry in result lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import numpy as np

from creditflow.envs.wikisearch.render import searchable
from creditflow.envs.wikisearch.retrieval.base import SITE, Corpus, Passage, Ranking, RowIndex, site_url
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever

__all__ = ["ENTRY", "SiteCorpus", "SiteOptions", "SiteRetriever", "open_site", "page_of_url"]

ENTRY: Final = "entry:"  # begins the ids of entries of result lists
DEPTH: Final = 4  # passages ranked for each page that is listed: pages with several good passages are listed once
_PART: Final = re.compile(r"(?P<page>.*)\?part=(?P<part>[1-9]\d{0,5})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """How a site shows its pages.

    Attributes:
        snippet: characters of a passage in a result list.
        page_passages: passages that one visit returns; the parts of a longer page have so many.
    """

    snippet: int = 160
    page_passages: int = 5


def page_of_url(url: str) -> tuple[str, int]:
    """The page of a URL and its part (0 if the URL has none); other texts are names of pages.

    >>> page_of_url("https://corpus.example/Ada%20Lovelace?part=2"), page_of_url("Ada Lovelace")
    (('Ada Lovelace', 2), ('Ada Lovelace', 0))
    """
    if not url.startswith(SITE):
        return url, 0
    path = url.removeprefix(SITE)
    match = _PART.fullmatch(path)
    return (unquote(match["page"]), int(match["part"])) if match else (unquote(path), 0)


class SiteCorpus:
    """The rows of a corpus, and after them as many entries of result lists.

    Args:
        base: the passages.
        options: how they are shown.
    """

    def __init__(self, base: Corpus, options: SiteOptions) -> None:
        self.base, self._options = base, options
        self.digest = base.digest

    def __len__(self) -> int:
        return 2 * len(self.base)

    def passage(self, row: int) -> Passage:
        """The passage or entry of a row."""
        if row < len(self.base):
            return self.base.passage(row)
        passage = self.base.passage(row - len(self.base))
        text = beginning(passage.text, self._options.snippet)
        return replace(passage, id=ENTRY + passage.id, text=text, url=self.url(row - len(self.base)))

    def url(self, row: int) -> str:
        """The URL of the page, or of the part of a long page, on which the passage of a row stands."""
        page, size = self.base.passage(row).page, self._options.page_passages
        rows = self.base.page_rows(page)
        return site_url(page, rows.index(row) // size + 1 if len(rows) > size else 0)

    def row(self, passage_id: str) -> int | None:
        """The row of an id; an entry's id begins with ``ENTRY``."""
        row = self.base.row(passage_id)
        if row is None and passage_id.startswith(ENTRY):
            of = self.base.row(passage_id.removeprefix(ENTRY))
            return None if of is None else of + len(self.base)
        return row

    def page_rows(self, page: str) -> tuple[int, ...]:
        """The passages of a page, in order."""
        return self.base.page_rows(page)

    def find_page(self, name: str) -> str | None:
        """The page with this URL, page id, passage id or title."""
        return self.base.find_page(page_of_url(name)[0])


class _SiteIndex:
    """Ranks passages by their whole text, and lists the best one of each page as an entry."""

    def __init__(self, index: RowIndex, corpus: Corpus) -> None:
        self._index, self._corpus = index, corpus

    def __len__(self) -> int:
        return 2 * len(self._corpus)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The entries of the best ``k`` pages for each query."""
        size, ranked = len(self._corpus), []
        for rows, scores in self._index.rank(queries, min(DEPTH * k, max(size, 1))):
            first: dict[str, int] = {}
            for rank, row in enumerate(rows.tolist()):
                first.setdefault(self._corpus.passage(row).page, rank)
            places = list(first.values())[:k]
            ranked.append((rows[places] + np.int64(size), scores[places]))
        return ranked


class SiteRetriever(LocalRetriever):
    """Search and visits of a site.

    Args:
        engine: an engine over the passages, in this process.
        options: how pages are shown.
    """

    def __init__(self, engine: LocalRetriever, options: SiteOptions) -> None:
        self.site = SiteCorpus(engine.corpus, options)
        super().__init__(self.site, _SiteIndex(engine.index, engine.corpus), options.page_passages)

    def visit_rows(self, name: str, goal: str = "") -> tuple[int, ...]:
        """Rows that a visit returns: a named part, or as of any page."""
        page, page_number = self.corpus.find_page(name), page_of_url(name)[1]
        if not page_number:
            return super().visit_rows(name, goal)
        rows = () if page is None else self.corpus.page_rows(page)
        return rows[(page_number - 1) * self.page_passages : page_number * self.page_passages]

    def listed_visit(self, passage: Passage) -> str:
        """The URL to which an entry leads, or under which a passage stands; "" if no dialect can write it."""
        row = self.site.row(passage.id)
        url = passage.url or ("" if row is None else self.site.url(row))
        return url if url and searchable(url) == url and self.site.find_page(url) == passage.page else ""


def beginning(text: str, characters: int) -> str:
    """The beginning of a text, at most so many characters, cut between words where that is possible.

    >>> beginning("a town by the sea", 8), beginning("a town", 9)
    ('a town …', 'a town')
    """
    if len(text) <= characters:
        return text
    cut = text[: characters + 1].rpartition(" ")[0] or text[:characters]
    return f"{cut} …"


@lru_cache(maxsize=4)
def open_site(engine: LocalRetriever, options: SiteOptions) -> SiteRetriever:
    """The site of a corpus, shared by all environments of this process."""
    return SiteRetriever(engine, options)
