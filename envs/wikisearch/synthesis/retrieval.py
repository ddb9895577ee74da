"""Whether search finds a question's passages, and how hard that is."""

from __future__ import annotations

from typing import NamedTuple

from creditflow.envs.wikisearch.protocol.escaping import searchable
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.synthesis.checks import supporting_rows
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph
from creditflow.envs.wikisearch.synthesis.queries import Described, Named, terms_of

__all__ = ["Reach", "reach_of"]


class Reach(NamedTuple):
    """What searches find.

    Attributes:
        calls: searches for the question and for names read until all supporting passages are found; −1 if they never are.
        rank: place of the last supporting passage among the results of a search for the question, from 1; −1 if it is
            not among the first ``DEPTH``.
    """

    calls: int
    rank: int


DEPTH = 10


def reach_of(retriever: LocalRetriever, graph: CorpusGraph, root: Described, text: str, k: int) -> Reach:
    """Search as the environment's grounded agent does: for the question, then for each name that it has read.

    Args:
        retriever: the engine.
        graph: the corpus.
        root: the question's tree.
        text: its wording.
        k: results of a search.
    """
    golden = supporting_rows(graph, root)
    ranked = retriever.rows(searchable(text), max(DEPTH, k))
    rank = ranked.index(golden[-1]) + 1 if golden[-1] in ranked[:DEPTH] else -1
    nodes = [term.node for term in terms_of(root)]
    queue = [term.node for term in terms_of(root) if isinstance(term, Named)]
    missing = set(golden)
    calls, results = 1, set(ranked[:k])
    asked = set(queue)
    while missing:
        missing -= results
        for node in nodes:
            if node not in asked and any(row in golden and row in results for row in graph.rows_with(node).tolist()):
                asked.add(node)
                queue.append(node)
        if not missing or not queue:
            break
        results = set(retriever.rows(searchable(graph.nodes[queue.pop(0)].forms[-1]), k))
        calls += 1
    return Reach(calls if not missing else -1, rank)
