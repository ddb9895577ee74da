"""The wording of questions: nested noun phrases, the final question, and descriptions in place of a name.

It differs from the articles' wording where English allows, so that a question shares names, not sentences, with its
evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from creditflow.envs.wikisearch.world.graph import GENRES, World
from creditflow.envs.wikisearch.world.words import by_relation

__all__ = ["ASK", "CALLED", "DESCRIBED", "INJECT", "NOUN", "phrase"]

# each by (kind of the subject, relation): the object as a noun phrase, where {maker} is the genre's word for who made it; the
# question that asks for the object; and the subject described by its object, where {d} is the genre or profession
NOUN: Final[Mapping[tuple[str, str], str]] = by_relation("noun_phrases")
ASK: Final[Mapping[tuple[str, str], str]] = by_relation("questions")
INJECT: Final[Mapping[tuple[str, str], str]] = by_relation("descriptions")
# kind -> the year that distinguishes entities with the same description, and its wording
DESCRIBED: Final[Mapping[str, tuple[str, str]]] = {
    "work": ("year", " of the {decade}s"),
    "organisation": ("founded", " of the {decade}s"),
    "person": ("born", " born in the {decade}s"),
}
CALLED: Final[Mapping[str, str]] = {"event": "the {n}"}


def phrase(world: World, kind: str, i: int) -> str:
    """The name of an entity as a question writes it."""
    name = world.name(kind, i)
    if kind == "person" and world.twin(i) != i:
        return f"the {world.profession(i)} {name}"
    if kind == "work":
        return f'the {GENRES[int(world.number["work", "genre"][i])][0]} "{name}"'
    return CALLED.get(kind, "{n}").replace("{n}", name)
