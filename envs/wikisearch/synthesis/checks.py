"""Checks of a question against the graph: one answer, no hop too many, nothing given away.

Each returns the reason of a rejection, or "". All are exact over the rows that the graph was built from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from creditflow.envs.text.entity_matching import normalized_phrase, phrase_tokens
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph
from creditflow.envs.wikisearch.synthesis.queries import (
    Described,
    Named,
    answers_of,
    assignments,
    links_of,
    terms_of,
    without_link,
)

__all__ = ["fewest_passages", "leak", "needless_hop", "not_unique", "shortcut", "supporting_rows", "wrong_text"]

MAX_QUESTION: Final = 600  # characters
MAX_CANDIDATE_ROWS: Final = (
    200_000  # rows that mention two terms; a question with more is about names that are everywhere
)
_COMMON: Final = frozenset(
    [
        "the",
        "of",
        "and",
        "in",
        "a",
        "an",
        "de",
        "la",
        "le",
        "von",
        "van",
        "university",
        "river",
        "county",
        "city",
        "film",
        "st",
        "saint",
    ]
)


def supporting_rows(graph: CorpusGraph, root: Described) -> tuple[int, ...]:
    """Rows of the passages that state the question's links, descriptions and years, in the order of the hops."""
    rows = []
    for term, link in links_of(root):
        rows.append(link.row)
        node = graph.nodes[term.node]
        if (term.word or term.years is not None) and node.row >= 0:
            rows.append(node.row)
    return tuple(dict.fromkeys(rows))


def not_unique(graph: CorpusGraph, root: Described) -> str:
    """Whether another thing fits the question, or other things in between lead to the same one."""
    answers = answers_of(graph, root)
    if answers != frozenset({root.node}):
        return "several answers" if answers else "no answer"
    names = {term.form for term in terms_of(root) if isinstance(term, Named)}
    if any(len(graph.by_form.get(phrase_tokens(name), ())) != 1 for name in names):
        return "ambiguous name"
    return "" if len(assignments(graph, root, root.node)) == 1 else "several chains"


def needless_hop(graph: CorpusGraph, root: Described) -> str:
    """Whether the question has one answer without one of its links, so that this hop is not needed."""
    for _, link in links_of(root):
        answers = answers_of(graph, without_link(root, link))
        if answers is not None and len(answers) == 1:
            return "needless hop"
    return ""


def shortcut(graph: CorpusGraph, root: Described) -> str:
    """Whether fewer passages than the supporting ones connect the names in the question with its answer."""
    needed = len(supporting_rows(graph, root))
    if needed < 2:
        return "one passage"
    nodes = [term.node for term in terms_of(root)]
    if len(set(nodes)) != len(nodes):
        return "circle"
    masks = _masks(graph, nodes)
    if masks is None:
        return "names everywhere"
    terminals = [i for i, term in enumerate(terms_of(root)) if isinstance(term, Named) or term is root]
    return "shortcut" if fewest_passages(masks, terminals, needed) < needed else ""


def _masks(graph: CorpusGraph, nodes: Sequence[int]) -> set[int] | None:
    """For all passages that mention two or more of the nodes: which, as bits."""
    rows = [graph.rows_with(node) for node in nodes]
    if sum(map(len, rows)) > MAX_CANDIDATE_ROWS:
        return None
    every = np.concatenate([*rows, np.zeros(0, np.int64)])
    bits = np.concatenate([np.full(len(rows_of), 1 << i, np.int64) for i, rows_of in enumerate(rows)])
    distinct, inverse = np.unique(every, return_inverse=True)
    masks = np.bincount(inverse, weights=bits.astype(np.float64), minlength=len(distinct)).astype(np.int64)
    return {mask for mask in set(masks.tolist()) if mask & (mask - 1)}


def fewest_passages(masks: Iterable[int], terminals: Sequence[int], most: int) -> int:
    """The fewest passages that connect all terminals; ``most`` if none of fewer do.

    Two things are connected by a passage that mentions both.

    Args:
        masks: for each passage, the things that it mentions, as bits.
        terminals: numbers of the things to connect.
        most: numbers from this on are not distinguished.
    """
    minimal: list[int] = []
    for mask in sorted(set(masks), key=lambda mask: (-mask.bit_count(), mask)):
        if not any(mask | smaller == smaller for smaller in minimal):
            minimal.append(mask)
    terminal_mask = sum(1 << i for i in terminals)
    reached = {
        mask for mask in minimal if mask & terminal_mask & -terminal_mask
    }  # what so many connected passages reach from one terminal
    for count in range(1, most):
        if any(joined & terminal_mask == terminal_mask for joined in reached):
            return count
        reached |= {joined | mask for joined in reached for mask in minimal if joined & mask}
    return most


def leak(graph: CorpusGraph, root: Described, text: str) -> str:
    """Whether the question contains its answer, most words of it, or the name of a thing that it should only describe."""
    for term in terms_of(root):
        if isinstance(term, Named):
            continue
        what = "answer" if term is root else "hidden name"
        for form in graph.nodes[term.node].forms:
            if normalized_phrase(form, text):
                return f"{what} in the question"
        words = set(phrase_tokens(graph.nodes[term.node].forms[-1])) - _COMMON
        if term is root and words and 2 * len(words & set(phrase_tokens(text))) >= len(words):
            return "half the answer in the question"
    return ""


def wrong_text(graph: CorpusGraph, root: Described, text: str) -> str:
    """Whether a text cannot be the question: it is empty, too long, or gives something away."""
    if not text.strip():
        return "no text"
    return "too long" if len(text) > MAX_QUESTION else leak(graph, root, text)
