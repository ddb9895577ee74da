"""The wording of questions: nested noun phrases, the final question, and descriptions in place of a name.

It differs from the articles' wording where English allows, so that a question shares names, not sentences, with its
evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from creditflow.envs.wikisearch.world.graph import GENRES, World

__all__ = ["ASK", "CALLED", "DESCRIBED", "INJECT", "NOUN", "phrase"]

# (subject kind, relation) -> the object as a noun phrase; {maker} is the genre's word for who made it
NOUN: Final[Mapping[tuple[str, str], str]] = {
    ("person", "birth_place"): "the birthplace of {x}",
    ("person", "teacher"): "the teacher of {x}",
    ("person", "employer"): "the employer of {x}",
    ("place", "architect"): "the designer of the municipal building of {x}",
    ("place", "twin"): "the partner town of {x}",
    ("work", "creator"): "the {maker} of {x}",
    ("work", "publisher"): "the first publisher of {x}",
    ("work", "setting"): "the town portrayed in {x}",
    ("work", "dedicatee"): "the person to whom {x} is dedicated",
    ("organisation", "founder"): "the founder of {x}",
    ("organisation", "seat"): "the home town of {x}",
    ("event", "winner"): "the winner of {x}",
    ("event", "organiser"): "the organiser of {x}",
    ("event", "host"): "the venue of {x}",
}
# (subject kind, relation) -> the question that asks for the object
ASK: Final[Mapping[tuple[str, str], str]] = {
    ("person", "birth_place"): "What is the birthplace of {x}?",
    ("person", "teacher"): "Who was the teacher of {x}?",
    ("person", "employer"): "Who was the employer of {x}?",
    ("person", "born"): "What is the birth year of {x}?",
    ("person", "died"): "In which year did the life of {x} end?",
    ("place", "architect"): "Who designed the municipal building of {x}?",
    ("place", "twin"): "What is the partner town of {x}?",
    ("place", "charter"): "Since which year has {x} been allowed to hold markets?",
    ("place", "population"): "How large is the population of {x}?",
    ("place", "river"): "Which river runs through {x}?",
    ("work", "creator"): "Who created {x}?",
    ("work", "publisher"): "Who was the first publisher of {x}?",
    ("work", "setting"): "Which town is portrayed in {x}?",
    ("work", "dedicatee"): "To whom is {x} dedicated?",
    ("work", "year"): "From which year is {x}?",
    ("organisation", "founder"): "Who was the founder of {x}?",
    ("organisation", "seat"): "What is the home town of {x}?",
    ("organisation", "founded"): "In which year was {x} founded?",
    ("organisation", "head"): "Who were the heads of {x}, and when?",
    ("organisation", "member"): "Who were the founding members of {x}?",
    ("event", "winner"): "Who won {x}?",
    ("event", "organiser"): "Who was the organiser of {x}?",
    ("event", "host"): "What was the venue of {x}?",
    ("event", "participant"): "Who competed in {x}?",
}
# (kind, relation) -> an entity described by what it points to; {d} is its genre or profession
INJECT: Final[Mapping[tuple[str, str], str]] = {
    ("work", "setting"): "the {d}{when} portraying {z}",
    ("work", "dedicatee"): "the {d}{when} dedicated to {z}",
    ("work", "publisher"): "the {d}{when} first published by {z}",
    ("organisation", "founder"): "the organisation{when} founded by {z}",
    ("organisation", "seat"): "the organisation{when} at home in {z}",
    ("event", "winner"): "the contest or show won by {z}",
    ("event", "host"): "the contest or show with {z} as its venue",
    ("person", "teacher"): "the {d}{when} with {z} as teacher",
    ("person", "employer"): "the {d}{when} in the employment of {z}",
    ("place", "architect"): "the town with a municipal building by {z}",
}
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
