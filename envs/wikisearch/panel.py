"""The embedded panel ``standard-v1``: the code that made it.

1,000 questions over the default encyclopedia of 5,000 articles: two- to four-hop walks, comparisons, intersections and
temporal questions; 712 for training, 96 for validation, 192 for testing, no fact shared between splits. A row holds
the recipe of its question and the hash of its content (corpus digest included), not the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from creditflow.envs.tasks import PanelRow
from creditflow.envs.wikisearch.tasks import world_rows
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES, DEFAULT_SEED

__all__ = ["panel_rows"]

QUESTIONS: Final = 1_000


def panel_rows() -> Iterable[PanelRow]:
    """All rows in published order."""
    return world_rows(DEFAULT_SEED, DEFAULT_ARTICLES, QUESTIONS)
