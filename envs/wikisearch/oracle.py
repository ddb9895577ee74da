"""The oracle: how many calls a grounded agent still needs, and which calls begin a shortest plan.

``EvidenceOracle`` is exact for the entity-query action set (the listed actions): searches for names that have been
read, visits of seen pages, and the golden answer once all evidence is seen. Free text can do better, by
guessing or by another query: for it the distance is a proxy. ``HopOracle`` only counts missing evidence, always a proxy.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.action_graph import UNREACHABLE, ActionGraph, Plan
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.grading.grade import Grade, Grader
from creditflow.envs.wikisearch.protocol.dialects import Dialect
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.render import searchable
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.rules import Budget, Reader, evidence_bits, num_evidence
from creditflow.envs.wikisearch.snapshot import State, read_state
from creditflow.envs.wikisearch.tasks import Library

__all__ = ["EvidenceOracle", "HopOracle", "StateReader"]

PLANS: Final = 64


class StateReader:
    """Facts about snapshots that the oracle needs.

    Args:
        library: the corpus.
        budget: limits of an episode.
        grader: grades answers.
    """

    def __init__(self, library: Library, budget: Budget, grader: Grader) -> None:
        self._library, self._budget, self._grader = library, budget, grader

    def passages(self, state: State) -> dict[str, Passage]:
        """The passages that a state has seen, by id, in order.

        Raises:
            DataError: the state is about another corpus.
        """
        corpus, digest = state.question.corpus, self._library.digest
        if corpus and digest and corpus != digest:
            raise DataError(f"the snapshot is about the corpus {corpus}, this environment has {digest}")
        by_id = {passage.id: passage for passage in state.documents}
        missing = [name for name in state.evidence if name not in by_id]
        by_id |= {passage.id: passage for passage in self._library.retriever.fetch(missing)}
        return {name: by_id[name] for name in state.evidence}

    def seen_bits(self, state: State) -> int:
        """Pieces of golden evidence that a state has seen, as bits."""
        bits = 0
        for passage in self.passages(state).values():
            bits |= evidence_bits(state.question, passage)
        return bits

    def calls_left(self, state: State) -> float:
        """Tool calls still allowed in a state."""
        return self._budget.calls_left(state.calls, state.tokens)

    def grade(self, state: State) -> Grade:
        """The grade of a state's answer."""
        return self._grader.grade(state.question, state.answer or "")


class _Oracle:
    """What both oracles share: values, distances and action texts, from a number of calls."""

    exact = False

    def __init__(self, facts: StateReader, dialect: Dialect) -> None:
        self._facts, self._dialect = facts, dialect

    def _calls(self, state: State) -> tuple[float, list[Call]]:
        """Fewest tool calls until all evidence is seen, and the calls that begin such a plan."""
        raise NotImplementedError

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """1.0 if a correct answer is reachable (within ``steps_left`` steps); the score once an answer is given."""
        read = read_state(state)
        if read.answer is not None:
            return self._facts.grade(read).score
        distance = self.distance(state)
        return float(math.isfinite(distance) and (steps_left is None or distance <= steps_left))

    def distance(self, state: str) -> float:
        """Fewest steps to the correct answer, the answer included; 0.0 after it, infinity if unreachable."""
        read = read_state(state)
        if read.answer is not None:
            return 0.0 if self._facts.grade(read).correct else math.inf
        calls, _ = self._calls(read)
        return calls + 1.0 if self._within(calls, read) else math.inf

    def _within(self, calls: float, state: State) -> bool:
        """Whether the plan exists and its tool calls are still allowed."""
        return math.isfinite(calls) and calls <= self._facts.calls_left(state)

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Texts of the calls that begin a shortest plan, sorted, in the environment's dialect."""
        read = read_state(state)
        if read.answer is not None:
            return ()
        calls, best = self._calls(read)
        if not self._within(calls, read):
            return ()
        if calls == 0:
            best = [Call("answer", read.question.answers[:1])]
        return tuple(sorted({self._dialect.write(call) for call in best}))


class HopOracle(_Oracle):
    """A proxy: one call for each missing golden passage; suggests a search for an entity of the first missing step."""

    def _calls(self, state: State) -> tuple[float, list[Call]]:
        question, seen = state.question, self._facts.seen_bits(state)
        missing = [j for j in range(num_evidence(question)) if not seen >> j & 1]
        if not missing:
            return 0.0, []
        # the next search: an entity that the first missing step names, else the question
        names = [entity.name for entity in question.entities]
        step = question.steps[missing[0]].question if missing[0] < len(question.steps) else ""
        query = next((name for name in names if name in step), question.text)
        return float(len(missing)), [Call("search", (searchable(query),))]


class EvidenceOracle(_Oracle):
    """Exact on the listed actions.

    Args:
        facts: about states.
        dialect: the format of the actions.
        graph: the listed calls of the corpus.
        reader: finds names in passages.
    """

    exact = True

    def __init__(self, facts: StateReader, dialect: Dialect, graph: ActionGraph, reader: Reader) -> None:
        super().__init__(facts, dialect)
        self._graph, self._reader = graph, reader
        self._plans: OrderedDict[str, _Planned] = OrderedDict()

    def _planned(self, question: Question) -> _Planned:
        key = f"{question.id}\n{question.text}"
        plan = self._plans.get(key)
        if plan is None or plan.question != question:
            plan = self._plans[key] = _Planned(self._graph, self._reader, question)
            if len(self._plans) > PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return plan

    def _calls(self, state: State) -> tuple[float, list[Call]]:
        return self._planned(state.question).calls(state, self._facts.seen_bits(state))


class _Planned:
    """A question's plan, with the search for the question itself, a call to which no passage leads."""

    def __init__(self, graph: ActionGraph, reader: Reader, question: Question) -> None:
        self.graph, self.question = graph, question
        self.plan = Plan(graph, question)
        stated = [graph.forms[form] for form in reader.names_in_question(question) if form in graph.forms]
        rows = graph.retriever.rows(searchable(question.text), graph.k)
        self.begin = np.array(stated, np.int64)  # nodes known from the question
        self.text_found, self.text_leads = self.plan.bits(rows), np.array(graph.leads(rows), np.int64)
        # names in the question that no passage mentions lead to the rows their search finds, as the question does
        self.loose = [form for form in reader.names_in_question(question) if form not in graph.forms]
        self._known: dict[tuple[str, ...], tuple[float, list[Call]]] = {}

    def calls(self, state: State, seen: int) -> tuple[float, list[Call]]:
        result = self._known.get(state.evidence)
        if result is None:
            if len(self._known) > 4096:
                self._known.clear()
            result = self._known[state.evidence] = self._search(state.evidence, seen)
        return result

    def _search(self, evidence: tuple[str, ...], seen: int) -> tuple[float, list[Call]]:
        plan, graph = self.plan, self.graph
        missing = plan.full & ~seen
        if not missing:
            return 0.0, []
        corpus = graph.retriever.corpus
        rows = [row for name in evidence if (row := corpus.row(name)) is not None]
        nodes = np.union1d(self.begin, np.array(graph.leads(rows), np.int64)).astype(np.int64)
        begin = self._least(nodes)
        extras = [(Call("search", (searchable(self.question.text),)), self.text_found, self.text_leads)]
        for form in self.loose:
            gained = graph.retriever.rows(searchable(form), graph.k)
            extras.append(
                (Call("search", (searchable(form),)), plan.bits(gained), np.array(graph.leads(gained), np.int64))
            )
        masks = np.arange(plan.full + 1)
        for _, bits, leads in extras:  # calls that the question alone allows can also come later
            then = plan.joined(self._least(leads)[:, None])[masks & ~bits, 0]
            begin[1:] = np.minimum(begin, np.minimum(then + np.uint8(1), UNREACHABLE))[1:]
        # what remains after each possible call, for all parts of the evidence at once
        calls = [*self._named(nodes), *(call for call, _, _ in extras)]
        gains = [*plan.found[nodes].tolist(), *(bits for _, bits, _ in extras)]
        after = [self._leads(int(node)) for node in nodes] + [self._least(leads) for _, _, leads in extras]
        if not calls:
            return math.inf, []
        columns = plan.joined(np.minimum(np.stack(after, axis=1), begin[:, None]))
        costs = [int(columns[missing & ~gain, i]) for i, gain in enumerate(gains)]
        least = min(costs)
        if least >= UNREACHABLE - 1:
            return math.inf, []
        return least + 1.0, [call for call, cost in zip(calls, costs, strict=True) if cost == least]

    def _least(self, nodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        first = self.plan.first
        least: NDArray[np.uint8] = (
            first[:, nodes].min(axis=1) if len(nodes) else np.full(len(first), UNREACHABLE, np.uint8)
        )
        least[0] = 0
        return least

    def _leads(self, node: int) -> NDArray[np.uint8]:
        starts, targets = self.graph.edges
        return self._least(targets[starts[node] : starts[node + 1]].astype(np.int64))

    def _named(self, nodes: NDArray[np.int64]) -> list[Call]:
        texts = self.graph.node_names
        named = []
        for node in nodes.tolist():
            if node < len(self.graph.forms):
                named.append(Call("search", (searchable(texts[node]),)))
            else:
                named.append(Call("visit", (texts[node],)))
        return named
