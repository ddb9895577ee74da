"""A world as a searchable encyclopedia: passages with an index, names, and the passage of every fact."""

from __future__ import annotations

from functools import lru_cache

from creditflow.envs.text.entity_matching import Lexicon
from creditflow.envs.wikisearch.retrieval.base import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.world.articles import Article, Fact, article
from creditflow.envs.wikisearch.world.graph import KINDS, World, make_world

__all__ = ["DEFAULT_ARTICLES", "DEFAULT_SEED", "Encyclopedia", "load_encyclopedia"]

DEFAULT_SEED = 20_261_121
DEFAULT_ARTICLES = 5_000


class Encyclopedia:
    """A world held in memory.

    Args:
        world: the knowledge graph.

    Attributes:
        retriever: BM25 over all passages.
        lexicon: every written form of every entity.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.articles: tuple[Article, ...] = tuple(article(world, number) for number in range(world.articles))
        self.retriever: LocalRetriever = index_passages(MemoryCorpus(p for a in self.articles for p in a.passages))
        self._found: dict[str, tuple[int, ...]] = {}
        self.lexicon = Lexicon({form: form for form in self._forms()})

    def _forms(self) -> list[str]:
        forms = []
        for kind in KINDS:
            for i in range(self.world.counts[kind]):
                forms += [self.world.name(kind, i), self.world.alias(kind, i)]
        return forms

    def rows(self, query: str, k: int) -> tuple[int, ...]:
        """Rows of the best ``k`` (≤ 10) passages for a query; cached."""
        rows = self._found.get(query)
        if rows is None:
            rows = self._found[query] = self.retriever.rows(query, 10)
        return rows[:k]

    def article(self, kind: str, i: int) -> Article:
        """The article of an entity."""
        return self.articles[self.world.offsets[kind] + i]

    def stated(self, kind: str, i: int, relation: str, name: str) -> tuple[str, Fact] | None:
        """The passage of an entity's article that states a fact, by id, and the fact; None if no passage states it."""
        article = self.article(kind, i)
        for passage, facts in zip(article.passages, article.facts, strict=True):
            for fact in facts:
                if fact.relation == relation and fact.object == name:
                    return passage.id, fact
        return None


@lru_cache(maxsize=2)
def load_encyclopedia(seed: int = DEFAULT_SEED, articles: int = DEFAULT_ARTICLES) -> Encyclopedia:
    """The encyclopedia of a seed, cached in this process."""
    return Encyclopedia(make_world(seed, articles))
