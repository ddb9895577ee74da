"""The words of the fictional world: syllables of names, and the wordings of articles and questions.

They stand in ``assets/worlds/wikisearch.json``, by kind of entity or by "kind.relation"; {s} is the subject of a sentence, {o} its
object, {x} an inner phrase.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

__all__ = ["WORDS", "by_relation"]

WORDS: Final[Mapping[str, Any]] = json.loads(
    (files("creditflow.assets") / "worlds" / "wikisearch.json").read_text("ascii")
)


def by_relation(name: str) -> dict[tuple[str, str], Any]:
    """A table of the words by (kind of the subject, relation)."""
    pairs = ((key.partition("."), words) for key, words in WORDS[name].items())
    return {(kind, relation): words for (kind, _, relation), words in pairs}
