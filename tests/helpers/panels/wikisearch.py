"""The embedded panels: the code that made them, over the default encyclopedia of 5,000 articles.

``standard-v1``: 1,000 questions, which are two- to four-hop walks, comparisons, intersections and temporal questions; 712 for
training, 96 for validation, 192 for testing, no fact shared between splits.

``easy-v1``: 448 questions about one fact, which the first result of a search for the one name in the question states; 256 for
training, 64 for validation, 128 for testing, no fact shared between splits or with ``standard-v1``.

A row holds the recipe of its question and the hash of its content (corpus digest included), not the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Final

from creditflow.envs.tasks import PanelRow
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.tasks import world_rows
from creditflow.envs.wikisearch.world.ask import InvalidRecipeError, build_question
from creditflow.envs.wikisearch.world.counter_rng import random_int, stream_key
from creditflow.envs.wikisearch.world.encyclopedia import (
    DEFAULT_ARTICLES,
    DEFAULT_SEED,
    Encyclopedia,
    load_encyclopedia,
)
from creditflow.envs.wikisearch.world.graph import KINDS
from creditflow.envs.wikisearch.world.selection import ASKED

__all__ = ["PANELS"]

QUESTIONS: Final = 1_000
EASY: Final = {"train": 256, "valid": 64, "test": 128}


def standard_rows() -> Iterable[PanelRow]:
    """All rows of ``standard-v1`` in published order."""
    return world_rows(DEFAULT_SEED, DEFAULT_ARTICLES, QUESTIONS)


def easy_rows() -> Iterable[PanelRow]:
    """All rows of ``easy-v1`` in published order: the splits take turns until each is full."""
    encyclopedia = load_encyclopedia(DEFAULT_SEED, DEFAULT_ARTICLES)
    used = {edge for row in standard_rows() for edge in build_question(encyclopedia, row.locator).edges}
    key, count = stream_key(DEFAULT_SEED, "questions/easy"), 0
    splits: dict[str, list[PanelRow]] = {split: [] for split in EASY}
    turns = cycle(("train", "train", "train", "train", "valid", "test", "test"))
    while any(len(splits[split]) < EASY[split] for split in EASY):
        count += 1
        kind = KINDS[random_int(key, 3 * count, len(KINDS))]
        entity = random_int(key, 3 * count + 1, encyclopedia.world.counts[kind])
        ask = ASKED[kind][random_int(key, 3 * count + 2, len(ASKED[kind]))]
        recipe = {"kind": "bridge", "start": [kind, entity], "via": [], "ask": ask}
        try:
            question = build_question(encyclopedia, recipe)
        except InvalidRecipeError:
            continue
        if used.intersection(question.edges) or not _is_easy(encyclopedia, question):
            continue
        used.update(question.edges)
        split = next(turn for turn in turns if len(splits[turn]) < EASY[turn])
        locator = {"world": [DEFAULT_SEED, DEFAULT_ARTICLES], **recipe}
        splits[split].append(
            PanelRow(question_task(question).task_id, split, locator, {"kind": question.kind, "hops": 1})
        )
    return [row for rows in splits.values() for row in rows]


def _is_easy(encyclopedia: Encyclopedia, question: Question) -> bool:
    """Whether the question names one thing, whose first search result is the golden passage, and not its answer."""
    names = encyclopedia.lexicon.mentions(question.text)
    if len(names) != 1 or any(normalized_phrase(answer, question.text) for answer in question.answers):
        return False
    corpus = encyclopedia.retriever.corpus
    return [corpus.passage(row).id for row in encyclopedia.rows(names[0], 1)] == list(question.supporting)


PANELS: Final = {"easy-v1": easy_rows, "standard-v1": standard_rows}
