"""Which products of a catalogue have a wanted attribute: the reward's test for all products at once.

The oracle needs it for every goal; results are cached per attribute.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.goals.token_set_ratio import token_set_ratio
from creditflow.envs.webshop.reward import SIMILARITY_THRESHOLD

__all__ = ["AttributeMatcher"]


class AttributeMatcher:
    """Attribute tests over the rows of a catalogue, vectorised by its distinct attributes.

    Args:
        catalogue: the catalogue.
        rows: the products to test.
    """

    def __init__(self, catalogue: Catalogue, rows: tuple[int, ...]) -> None:
        carriers: dict[str, list[int]] = {}
        self._texts: list[tuple[str, str, str]] = []
        for position, row in enumerate(rows):
            product = catalogue.store.product(row)
            bullets = " ".join(product.bullets).lower()
            self._texts.append((product.title.lower(), bullets, product.description.lower()))
            for attribute in product.attributes:
                carriers.setdefault(attribute, []).append(position)
        self._carriers = {attribute: np.array(positions) for attribute, positions in carriers.items()}
        self.met = lru_cache(maxsize=2048)(self._met)

    def _met(self, wanted: str) -> NDArray[np.bool_]:
        """bool (rows,): whether each product counts as having ``wanted``. Treat as read-only."""
        met = np.fromiter((any(wanted in text for text in texts) for texts in self._texts), bool, len(self._texts))
        for attribute, positions in self._carriers.items():
            if not met[positions].all() and token_set_ratio(attribute, wanted) > SIMILARITY_THRESHOLD:
                met[positions] = True
        return met
