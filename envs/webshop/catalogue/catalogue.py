"""The catalogue: products, their search index and prices, immutable and shared by any number of environments.

A page is a function of the catalogue and the state. Search results are cached; the caches are bounded and thread-safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from creditflow.envs.text.bm25.index import build_index
from creditflow.envs.webshop.catalogue.products import Product

__all__ = ["Catalogue", "Products", "Results"]

MAX_RESULTS = 50  # results of a free-text search
CACHED_QUERIES = 4096
CACHED_LENGTH = 4000  # characters; longer queries are not cached


class Results(NamedTuple):
    """The results of a query.

    Attributes:
        asins: product ids, best first.
        digest: short hash of the list; queries with equal digests have the same results pages.
    """

    asins: tuple[str, ...]
    digest: str


class Products:
    """Products by row and by id.

    Args:
        products: the products, in catalogue order, with distinct ids.
        prices: the price of each for the reward.

    Attributes:
        digest: hash of all products and prices.
    """

    def __init__(self, products: Sequence[Product], prices: Sequence[float]) -> None:
        self._products, self._prices = tuple(products), tuple(prices)
        self._rows = {product.asin: row for row, product in enumerate(self._products)}
        self._by_query: dict[str, list[int]] = {}
        self._by_category: dict[str, list[int]] = {}
        digest = hashlib.blake2b(digest_size=16)
        for row, product in enumerate(self._products):
            self._by_query.setdefault(product.query, []).append(row)
            self._by_category.setdefault(product.category, []).append(row)
            digest.update(repr((product, self._prices[row])).encode("utf-8", "surrogatepass"))
        self.digest = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._products)

    def __iter__(self) -> Iterator[Product]:
        return iter(self._products)

    def product(self, row: int) -> Product:
        """The product in this row."""
        return self._products[row]

    def row(self, asin: str) -> int | None:
        """The row of a product id, or None."""
        return self._rows.get(asin)

    def asin(self, row: int) -> str:
        """The product id in this row."""
        return self._products[row].asin

    def price(self, row: int) -> float:
        """The price for the reward, in dollars."""
        return self._prices[row]

    def rows_of_query(self, query: str) -> Sequence[int]:
        """Rows collected under a search phrase, ascending."""
        return self._by_query.get(query, ())

    def rows_of_category(self, category: str) -> Sequence[int]:
        """Rows of a department, ascending."""
        return self._by_category.get(category, ())


class Catalogue:
    """Products, and BM25 over them.

    Args:
        store: the products.
    """

    def __init__(self, store: Products) -> None:
        self.store = store
        rows = range(len(store))
        self.engine = build_index((store.product(row).document() for row in rows), [store.asin(row) for row in rows])
        self._cached_search = lru_cache(maxsize=CACHED_QUERIES)(self._search)
        self.product = lru_cache(maxsize=CACHED_QUERIES)(self._product)

    def __len__(self) -> int:
        return len(self.store)

    @property
    def digest(self) -> str:
        """Hash of all products and prices; part of every task's content."""
        return self.store.digest

    def _product(self, asin: str) -> Product:
        row = self.store.row(asin)
        if row is None:
            raise KeyError(asin)
        return self.store.product(row)

    def price(self, asin: str) -> float:
        """The price of this product for the reward, in dollars.

        Raises:
            KeyError: the catalogue has no such product.
        """
        row = self.store.row(asin)
        if row is None:
            raise KeyError(asin)
        return self.store.price(row)

    def search(self, query: str) -> Results:
        """Results of a lower-case query.

        A query that begins with ``<r>`` returns fifty random products, ``<c> name`` all products of a department,
        ``<q> phrase`` all products collected under a phrase. The original crashes on ``<a> …`` and on ``<c>`` alone;
        here they return nothing, and ``<r>`` always returns the same products, so that a state determines its future.
        """
        return self._cached_search(query) if len(query) <= CACHED_LENGTH else self._search(query)

    def _search(self, query: str) -> Results:
        first, _, rest = query.partition(" ")
        rows: Sequence[int]
        if first == "<r>":
            rows = self._random_rows()
        elif first == "<c>":
            rows = self.store.rows_of_category(rest.split(" ")[0].strip()) if rest else ()
        elif first == "<q>":
            rows = self.store.rows_of_query(rest.strip())
        elif first == "<a>":
            rows = ()
        else:
            rows = self.engine.search(query, MAX_RESULTS)[0].tolist()
        asins = tuple(self.store.asin(row) for row in rows)
        return Results(
            asins, hashlib.blake2b("\n".join(asins).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        )

    def _random_rows(self) -> list[int]:
        keyed = (
            (hashlib.blake2b(f"0:{row}".encode(), digest_size=8).digest(), row)
            for row in range(min(len(self.store), 10_000))
        )
        return [row for _, row in sorted(keyed)[:MAX_RESULTS]]
