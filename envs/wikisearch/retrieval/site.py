"""A corpus as a web site: a search lists pages with their URLs and the beginnings of passages, a visit opens a page.

A result list shows no evidence: whoever wants it has to open the page. A page of more passages than one visit returns has
parts with URLs of their own, to which the entries of a result list lead; its own URL opens what a page reader chooses for
the visitor's goal. The site has two rows for each passage of the corpus: the passage, and its entry in result lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.wikisearch.render import searchable
from creditflow.envs.wikisearch.retrieval.base import SITE, Corpus, Passage, site_url
from creditflow.envs.wikisearch.retrieval.engines.base import Ranking, RowIndex
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.page_readers import PageReader, make_reader

__all__ = [
    "ENTRY",
    "SiteCorpus",
    "SiteOptions",
    "SiteRetriever",
    "open_site",
    "page_of_url",
    "site_options",
]

ENTRY: Final = "entry:"  # begins the ids of entries of result lists
DEPTH: Final = 4  # passages ranked for each page that is listed: pages with several good passages are listed once
_PART: Final = re.compile(r"(?P<page>.*)\?part=(?P<part>[1-9]\d{0,5})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """How a site shows its pages.

    Attributes:
        snippet: characters of a passage in a result list.
        page_passages: passages that one visit returns; the parts of a longer page have so many.
        reader: a language model that reads longer pages, as arguments of ``page_readers.ModelReader``; None for the passages
            that share most words with the goal.

    Raises:
        ConfigError: a number out of its range.
    """

    snippet: int = 160
    page_passages: int = 5
    reader: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name, value, most in (("snippet", self.snippet, 2_000), ("page_passages", self.page_passages, 1_000)):
            if type(value) is not int or not 1 <= value <= most:
                raise ConfigError(f"{name} of a site must be an integer from 1 to {most}, got {short_repr(value)}")


def site_options(given: Mapping[str, Any] | None, dialect: str) -> SiteOptions | None:
    """The options of the site that the dialect "browse" shows; None for other dialects.

    Raises:
        ConfigError: options for another dialect, an unknown one, or a wrong value.
    """
    if dialect != "browse":
        if given is not None:
            raise ConfigError(f"site requires dialect='browse', got {short_repr(dialect)}")
        return None
    names = [option.name for option in fields(SiteOptions)]
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"site must be a mapping such as {{'snippet': 160}}, got {short_repr(given)}")
    if unknown := sorted(map(str, set(given or {}) - set(names))):
        raise unknown_name_error("option of a site", unknown[0], names)
    return SiteOptions(**given or {})


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
        self.reader: PageReader = make_reader(options.reader)

    def visit_rows(self, name: str, goal: str = "") -> tuple[int, ...]:
        """Rows that a visit returns: a short page, a named part, or what the reader chooses of a long page.

        Raises:
            ServiceError: the reader failed.
        """
        page, page_number = self.corpus.find_page(name), page_of_url(name)[1]
        rows = () if page is None else self.corpus.page_rows(page)
        if page_number:
            return rows[(page_number - 1) * self.page_passages : page_number * self.page_passages]
        if len(rows) <= self.page_passages:
            return rows
        chosen = self.reader(goal, [self.corpus.passage(row).text for row in rows], self.page_passages)
        return tuple(rows[i] for i in chosen)

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
def _plain_site(engine: LocalRetriever, snippet: int, page_passages: int) -> SiteRetriever:
    return SiteRetriever(engine, SiteOptions(snippet=snippet, page_passages=page_passages))


def open_site(engine: LocalRetriever, options: SiteOptions) -> SiteRetriever:
    """The site of a corpus; one without a model is shared by all environments of this process."""
    if options.reader is None:
        return _plain_site(engine, options.snippet, options.page_passages)
    return SiteRetriever(engine, options)
