"""The graph of all listed calls of a corpus: which passages a call returns, and which calls those passages make possible.

A node is a name to search for or a page to open. It returns rows of the corpus; its edges lead to every name in those
rows and to every page that they belong to. The graph is built once per corpus and ``top_k``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import OracleLimitError
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.render import searchable
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.rules import Reader, evidence_bits, num_evidence

__all__ = ["UNREACHABLE", "ActionGraph", "Plan"]

UNREACHABLE: Final = 100  # distance without a plan; the sum of two fits into a byte
MAX_DEPTH: Final = 24  # calls in a row; deeper plans are not found
MAX_NODES: Final = 60_000
MAX_EVIDENCE: Final = 8
ANSWER_DEPTH: Final = 50  # search results examined for questions without golden passages


class ActionGraph:
    """The listed calls of a corpus.

    Args:
        retriever: BM25 over a corpus in memory.
        reader: finds names in passages.
        k: passages that a search returns.
        visits: whether pages can be opened.

    Raises:
        OracleLimitError: the corpus has too many names and pages.
    """

    def __init__(self, retriever: LocalRetriever, reader: Reader, k: int, *, visits: bool = True) -> None:
        self.retriever, self.reader, self.k = retriever, reader, k
        corpus = retriever.corpus
        self._mentions = [reader.names(corpus.passage(row)) for row in range(len(corpus))]
        forms = list(dict.fromkeys(form for names in self._mentions for form in names))
        self._visits = [retriever.listed_visit(corpus.passage(row)) if visits else "" for row in range(len(corpus))]
        pages = [name for name in dict.fromkeys(self._visits) if name]
        if len(forms) + len(pages) > MAX_NODES:
            raise OracleLimitError(
                f"the exact oracle supports {MAX_NODES} names and pages, and this corpus has {len(forms) + len(pages)}; use a "
                "smaller corpus, or oracle='proxy'"
            )
        self.forms = {form: i for i, form in enumerate(forms)}
        self.pages = {page: len(forms) + i for i, page in enumerate(pages)}
        self.returned: list[tuple[int, ...]] = [retriever.rows(searchable(form), k) for form in forms]
        self.returned += [retriever.visit_rows(page) for page in pages]
        self.node_names = [*forms, *pages]

    def __len__(self) -> int:
        return len(self.returned)

    def leads(self, rows: Sequence[int]) -> list[int]:
        """Nodes that become available once these rows are read, ascending."""
        nodes: set[int] = set()
        for row in rows:
            nodes.update(self.forms[form] for form in self._mentions[row])
            if self._visits[row]:
                nodes.add(self.pages[self._visits[row]])
        return sorted(nodes)

    @cached_property
    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """(starts int64 (nodes + 1,), targets int32): a sentinel node ends every list, so that none is empty."""
        sentinel = len(self)
        starts, targets = [0], []
        for rows in self.returned:
            targets += [*self.leads(rows), sentinel]
            starts.append(len(targets))
        return np.array(starts, np.int64), np.array(targets, np.int32)

    @cached_property
    def finders(self) -> dict[int, list[int]]:
        """For each row the nodes that return it."""
        finders: dict[int, list[int]] = {}
        for node, rows in enumerate(self.returned):
            for row in rows:
                finders.setdefault(row, []).append(node)
        return finders

    def cover(self, question: Question) -> dict[int, int]:
        """For each row that is evidence its pieces, as bits."""
        corpus = self.retriever.corpus
        if question.supporting:
            rows = {row for name in question.supporting if (row := corpus.row(name)) is not None}
            rows |= {row for name in question.supporting for row in corpus.page_rows(corpus.find_page(name) or "")}
        else:
            rows = {row for answer in question.answers for row in self.retriever.rows(answer, ANSWER_DEPTH)}
            rows |= {
                reading
                for row in rows
                if corpus.passage(row).url
                for reading in self.retriever.visit_rows(self._visits[row])
            }
        bits = {row: evidence_bits(question, corpus.passage(row)) for row in sorted(rows)}
        return {row: bit for row, bit in bits.items() if bit}


class Plan:
    r"""Fewest calls that collect any part of a question's evidence from any node: a directed Steiner tree over subsets.

    ``first[m, v]``: fewest calls that collect the pieces m, beginning with the call v. ``after[m, v]``: fewest calls after
    v, which is not counted, ignoring the evidence that v itself returned. Both uint8, UNREACHABLE where impossible.

        first[m, v] = 1 + after[m \ found(v), v]
        after[m, v] = min( min over w in leads(v): first[m, w];  min over ∅ ≠ p ⊂ m: after[p, v] + after[m \ p, v] )

    Args:
        graph: the graph of the corpus.
        question: the task.

    Raises:
        OracleLimitError: the question has more than eight golden passages.
    """

    def __init__(self, graph: ActionGraph, question: Question) -> None:
        n = num_evidence(question)
        if n > MAX_EVIDENCE:
            raise OracleLimitError(f"the exact oracle plans for {MAX_EVIDENCE} golden passages, the question has {n}")
        self.graph, self.full = graph, (1 << n) - 1
        self._row_bits = graph.cover(question)
        finders = np.zeros(len(graph) + 1, np.int64)
        for row, bits in self._row_bits.items():
            finders[graph.finders.get(row, [])] |= bits
        size = len(graph) + 1
        self.found = finders
        self.first = np.full((1 << n, size), UNREACHABLE, np.uint8)
        self.after = np.full((1 << n, size), UNREACHABLE, np.uint8)
        self.first[0] = self.after[0] = 0
        reachable = 0
        for bits in set(finders.tolist()):
            reachable |= bits
        for mask in sorted(range(1, 1 << n), key=lambda m: (m.bit_count(), m)):
            if mask & ~reachable == 0:
                self._solve(mask)

    def bits(self, rows: Sequence[int]) -> int:
        """The pieces of evidence among rows, as bits."""
        bits = 0
        for row in rows:
            bits |= self._row_bits.get(row, 0)
        return bits

    def _solve(self, mask: int) -> None:
        starts, targets = self.graph.edges
        first, after = self.first[mask], self.after[mask]
        self._split(self.after, mask, after)
        helps = np.flatnonzero(self.found & mask)
        first[helps] = _plus_one(self.after[mask & ~self.found[helps], helps])
        idle = (self.found & mask) == 0
        idle[-1] = False
        for _ in range(MAX_DEPTH):
            best = np.minimum.reduceat(first[targets], starts[:-1])
            after[:-1] = np.minimum(after[:-1], best)
            improved = np.where(idle, np.minimum(first, _plus_one(after)), first)
            if np.array_equal(improved, first):
                return
            first[:] = improved

    @staticmethod
    def _split(table: NDArray[np.uint8], mask: int, into: NDArray[np.uint8]) -> None:
        subset = (mask - 1) & mask
        while subset:
            if subset >= mask & ~subset:
                np.minimum(into, table[subset] + table[mask & ~subset], out=into)
            subset = (subset - 1) & mask

    def joined(self, begin: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Fewest calls for each part of the evidence, uint8 (2ⁿ, …), from the best single beginnings (2ⁿ, …)."""
        total = begin.copy()
        for mask in sorted(range(1, self.full + 1), key=lambda m: (m.bit_count(), m)):
            self._split(total, mask, total[mask])
        return total


def _plus_one(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    more: NDArray[np.uint8] = np.minimum(values + np.uint8(1), UNREACHABLE)
    return more
