"""The rules of an episode: what a call may contain, what it adds to the evidence, and when the budgets are used up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.evidence import Reader, evidence_bits, listed_calls, num_evidence
from creditflow.envs.wikisearch.grading.grade import Grade, Grader
from creditflow.envs.wikisearch.protocol.escaping import one_line
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.render import clip
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.snapshot import LastResult, State
from creditflow.envs.wikisearch.tasks import Library

__all__ = ["Budget", "Episode", "StateReader", "check_call"]

MAX_QUERY: Final = 2_000  # characters of a query, a page name or an answer
MAX_ITEMS: Final = 16  # queries or pages in one call


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one call may return, and how much one episode may use.

    Attributes:
        top_k: passages that a search returns for each query.
        max_calls: tool calls of an episode; None for no limit.
        max_tokens: tokens of tool results, counted as UTF-8 bytes / 4; None for no limit.
        max_passage_chars: longer passages are cut in the observation.
        max_result_tokens: longer tool results are cut in the observation, counted as ``max_tokens``; None for no limit.

    Raises:
        ConfigError: a number out of its range.
    """

    top_k: int
    max_calls: int | None
    max_tokens: int | None
    max_passage_chars: int
    max_result_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value, most in (
            ("top_k", self.top_k, 100), ("max_calls", self.max_calls, 10**6), ("max_tokens", self.max_tokens, 10**9),
            ("max_passage_chars", self.max_passage_chars, 10**7), ("max_result_tokens", self.max_result_tokens, 10**9),
        ):  # fmt: skip
            if value is not None and (type(value) is not int or not 1 <= value <= most):
                raise ConfigError(f"{name} must be an integer from 1 to {most}, got {short_repr(value)}")

    def shown(self, groups: Sequence[Sequence[Passage]]) -> list[list[Passage]]:
        """The passages of a tool result as the observation shows them, cut or left out where the result is too long."""
        room = float("inf") if self.max_result_tokens is None else 4.0 * self.max_result_tokens  # bytes
        shown = []
        for group in groups:
            cut = []
            for passage in group:
                title, text = passage.title.encode("utf-8", "replace"), passage.text.encode("utf-8", "replace")
                if len(title) >= room:
                    room = 0.0
                    continue
                chars = self.max_passage_chars
                if len(title) + len(text) > room:
                    chars = min(chars, len(text[: int(room) - len(title)].decode("utf-8", "ignore")))
                cut.append(clip(passage, chars))
                room -= len(title) + min(len(text), len(passage.text[:chars].encode("utf-8", "replace")))
            shown.append(cut)
        return shown

    def used_up(self, calls: int, tokens: int) -> str:
        """Which budget is used up; "" while tools may still be called."""
        if self.max_calls is not None and calls >= self.max_calls:
            return f"all {self.max_calls} tool calls are used"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"all {self.max_tokens} tokens of tool results are used"
        return ""

    def calls_left(self, calls: int, tokens: int) -> float:
        """Tool calls still allowed; infinity without a limit."""
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return 0.0
        return float("inf") if self.max_calls is None else float(self.max_calls - calls)


def check_call(call: Call) -> tuple[Call | None, str]:
    """The call with every text on one line; or None and the reason why it is not admissible."""
    items = tuple(one_line(item) for item in call.items)
    if not items or not all(items):
        return None, f"an empty {call.tool}: give it a text"
    if len(items) > MAX_ITEMS or max(map(len, items)) > MAX_QUERY or len(call.goal) > MAX_QUERY:
        return None, f"at most {MAX_ITEMS} texts of {MAX_QUERY} characters in one call"
    return Call(call.tool, items, one_line(call.goal)), ""


class Episode:
    """What one episode has read, used and answered.

    Args:
        question: the task.
        reader: finds names in passages.
        listed_visit: the name by which a listed visit opens a passage's page, or "".

    Attributes:
        evidence: passages seen, by id, in the order in which they were first seen.
        names: names read in the question or in passages.
        pages: names of the pages whose visits are listed, in the order in which they were first seen.
        bits: pieces of golden evidence seen, as bits.
        calls, tokens: tool calls and tool-result tokens used.
        last_result: what the last tool call returned.
        answer: the answer given, or None.
        grade: its grade.
    """

    def __init__(self, question: Question, reader: Reader, listed_visit: Callable[[Passage], str]) -> None:
        self.question = question
        self._reader, self._listed_visit = reader, listed_visit
        self.evidence: dict[str, Passage] = {}
        self.names = set(reader.names_in_question(question))
        self.pages: dict[str, None] = {}
        self.bits = self.calls = self.tokens = 0
        self.last_result = LastResult()
        self.answer: str | None = None
        self.grade = Grade()

    @property
    def complete(self) -> bool:
        """Whether all golden evidence is seen."""
        return self.bits == (1 << num_evidence(self.question)) - 1

    def read(self, groups: Sequence[Sequence[Passage]]) -> None:
        """Add passages to what has been read."""
        for group in groups:
            for passage in group:
                if passage.id not in self.evidence:
                    self.evidence[passage.id] = passage
                    self.names.update(self._reader.names(passage))
                    self.bits |= evidence_bits(self.question, passage)
                    if name := self._listed_visit(passage):
                        self.pages[name] = None

    def listed_calls(self, tools: bool) -> list[Call]:
        """The listed calls; without ``tools`` only answers."""
        return listed_calls(self.question, self.names, tuple(self.pages), self.complete, tools)

    def open_pages(self, library: Library, call: Call) -> list[tuple[Passage, ...] | None]:
        """The passages that a visit returns; of pages that a server cannot open, those that this episode has seen.

        Raises:
            ServiceError: the engine cannot answer.
        """
        opened = library.visit(call.items, call.goal or self.question.text)
        if library.local is not None:
            return opened
        seen = self.seen_pages(call.items)
        return [page if page is not None else passages for page, passages in zip(opened, seen, strict=True)]

    def seen_pages(self, names: Sequence[str]) -> list[tuple[Passage, ...] | None]:
        """For each page name the passages of it that this episode has seen; None for none.

        Passages that only this process has seen do not count: a snapshot restored elsewhere must show the same.
        """
        seen = self.evidence.values()
        return [tuple(p for p in seen if name in (p.id, p.page, p.title)) or None for name in names]


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
