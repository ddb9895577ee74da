"""From a candidate to a question or the reason why there is none; whether search finds its passages, and how hard that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from creditflow.envs.wikisearch.protocol.escaping import searchable
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.synthesis.checks import needless_hop, not_unique, shortcut, supporting_rows, wrong_text
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph
from creditflow.envs.wikisearch.synthesis.queries import Described, Named, links_of, terms_of
from creditflow.envs.wikisearch.synthesis.walks import Candidate
from creditflow.envs.wikisearch.synthesis.wording import step_text, wording_of

__all__ = ["Made", "Reach", "Writer", "make_question", "reach_of"]


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


Writer = Callable[[CorpusGraph, Candidate, Question], "tuple[str, str, dict[str, Any]]"]


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a candidate.

    Attributes:
        question: the question; None if it was rejected.
        reason: why it was rejected; "" if it was not.
        facts: figures of the checks, as JSON values.
        asked: whether the writer was asked.
    """

    question: Question | None
    reason: str
    facts: dict[str, Any]
    asked: bool = False


def make_question(
    graph: CorpusGraph, retriever: LocalRetriever, chosen: Candidate, *, k: int, writer: Writer | None = None
) -> Made:
    """Word a candidate and check it.

    Args:
        graph: the corpus.
        retriever: its search engine.
        chosen: the candidate.
        k: results of a search within which every supporting passage must be found.
        writer: a language model that words and verifies the question, given the one of the templates; None: templates.
            Returns the text, the reason of a rejection or "", and figures.

    Raises:
        ServiceError: the writer's server cannot be reached.
    """
    root = chosen.root
    if root is None:
        return Made(None, "dead end", {})
    text = wording_of(graph, root)
    reason = (
        not_unique(graph, root) or needless_hop(graph, root) or shortcut(graph, root) or wrong_text(graph, root, text)
    )
    if reason:
        return Made(None, reason, {})
    question = question_of(graph, retriever, chosen, root, text)
    facts: dict[str, Any] = {}
    if writer is not None:
        written, reason, facts = writer(graph, chosen, question)
        if reason:
            return Made(None, reason, facts, asked=True)
        question = question_of(graph, retriever, chosen, root, written)
    reach = reach_of(retriever, graph, root, question.text, k)
    facts |= {"passages": len(question.supporting), "calls": reach.calls, "rank": reach.rank}
    asked = writer is not None
    return Made(question, "", facts, asked) if reach.calls > 0 else Made(None, "not retrieved", facts, asked)


def question_of(
    graph: CorpusGraph, retriever: LocalRetriever, chosen: Candidate, root: Described, text: str
) -> Question:
    """The question with its evidence graph, golden steps and passages.

    Nodes are named by page title, or by their name; their other written forms are aliases. The entities of the
    construction are all nodes for the recipe "obfuscate", which writes a text for a part of the graph (SailorFog); for
    the others, the things that the text describes in place of their names (ASearcher), without the answer.
    """
    nodes = list(dict.fromkeys(term.node for term in terms_of(root)))
    names = {node: graph.nodes[node].name for node in nodes}
    edges, steps = [], []
    for term, link in links_of(root):
        subject, obj = (link.other.node, term.node) if link.forward else (term.node, link.other.node)
        edges.append((names[subject], link.relation, names[obj]))
        passage = retriever.corpus.passage(link.row).id
        steps.append(SubQuestion(step_text(graph, term, link), graph.nodes[term.node].forms[-1], passage))
    answer = graph.nodes[root.node]
    described = {term.node for term in terms_of(root) if isinstance(term, Described)} - {root.node}
    constructed = nodes if chosen.recipe == "obfuscate" else [node for node in nodes if node in described]
    rows = supporting_rows(graph, root)
    return Question(
        id=f"synthesized/{chosen.recipe}/{chosen.number}",
        text=text,
        answers=tuple(reversed(answer.forms)),
        kind=f"{chosen.recipe}{len(steps)}",
        entities=tuple(
            Entity(names[node], tuple(f for f in graph.nodes[node].forms if f != names[node])) for node in nodes
        ),
        edges=tuple(dict.fromkeys(edges)),
        answer_node=names[root.node],
        steps=tuple(steps),
        supporting=tuple(retriever.corpus.passage(row).id for row in rows),
        corpus=retriever.digest,
        construction_entities=tuple(names[node] for node in constructed),
    )
