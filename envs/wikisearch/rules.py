"""The rules of an episode: what a call may contain, what it adds to the evidence, and when the budgets are used up.

The listed calls are those of a *grounded* agent: it searches for the question or for names it has read, opens pages it
has seen, and gives the golden answer only once it has seen all the evidence. Any other call is admissible too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.text.entity_matching import Lexicon, normalized_phrase
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.grading.grade import Grade
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.render import clip, one_line, searchable
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.snapshot import LastResult

__all__ = [
    "UNKNOWN",
    "Budget",
    "Episode",
    "Reader",
    "check_call",
    "evidence_bits",
    "listed_calls",
    "num_evidence",
    "question_lexicon",
    "title_lexicon",
]

MAX_QUERY: Final = 2_000  # characters of a query, a page name or an answer
MAX_ITEMS: Final = 16  # queries or pages in one call
UNKNOWN: Final = "unknown"  # the answer of an agent that gives up
WRONG_CHOICES: Final = 3


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
            ("top_k", self.top_k, 100),
            ("max_calls", self.max_calls, 10**6),
            ("max_tokens", self.max_tokens, 10**9),
            ("max_passage_chars", self.max_passage_chars, 10**7),
            ("max_result_tokens", self.max_result_tokens, 10**9),
        ):
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


def num_evidence(question: Question) -> int:
    """The number of pieces of evidence: the golden passages; without any, one: any passage that contains an answer."""
    return max(1, len(question.supporting))


def evidence_bits(question: Question, passage: Passage) -> int:
    """The pieces of evidence that a passage is, as bits; none for an entry of a result list.

    Golden passages are named by id, page or title.
    """
    if passage.url:
        return 0
    if not question.supporting:
        return int(any(normalized_phrase(answer, passage.text) for answer in question.answers))
    names = (passage.id, passage.page, passage.title)
    return sum(1 << j for j, name in enumerate(question.supporting) if name in names)


class Reader:
    """Finds names in passages; each passage is searched once.

    Args:
        lexicon: the names, in all their written forms.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._read: dict[str, tuple[str, ...]] = {}

    def names(self, passage: Passage) -> tuple[str, ...]:
        """Names in a passage, its title included, in order."""
        entities = self._read.get(passage.id)
        if entities is None:
            entities = self.lexicon.mentions(passage.contents)
            if len(self._read) >= 200_000:
                self._read.clear()
            self._read[passage.id] = entities
        return entities

    def names_in_question(self, question: Question) -> tuple[str, ...]:
        """Names in a question."""
        return self.lexicon.mentions(question.text)


def title_lexicon(passages: Iterable[Passage]) -> Lexicon:
    """A lexicon of page titles, each also without a final part in brackets."""
    forms: dict[str, str] = {}
    for passage in passages:
        title = one_line(passage.title)
        forms.setdefault(title, title)
        plain = title.rpartition(" (")[0] if title.endswith(")") else ""
        if plain:
            forms.setdefault(plain, plain)
    return Lexicon(forms)


def question_lexicon(question: Question) -> Lexicon:
    """A lexicon of one question's entities, for corpora whose titles cannot be listed."""
    forms = {form: form for entity in question.entities for form in (entity.name, *entity.aliases)}
    return Lexicon(forms | {name: name for name in question.supporting})


def listed_calls(
    question: Question, known: Iterable[str], pages: Sequence[str], complete: bool, tools: bool
) -> list[Call]:
    """The listed calls.

    Args:
        question: the task.
        known: names read in passages or the question.
        pages: names of the pages whose visits are listed.
        complete: whether all evidence was seen.
        tools: whether tools may still be called.
    """
    names = set(known)
    calls = []
    if tools:
        queries = {searchable(form) for form in names} | {searchable(question.text)}
        calls += [Call("search", (query,)) for query in sorted(queries - {""})]
        calls += [Call("visit", (page,)) for page in pages]
    golden = {answer.casefold() for answer in question.answers}
    wrong = [form for form in sorted(names) if form.casefold() not in golden and form not in question.text]
    choices = [UNKNOWN, *wrong[:WRONG_CHOICES], *(question.answers[:1] if complete else ())]
    return calls + [Call("answer", (choice,)) for choice in dict.fromkeys(choices)]


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

    def seen_pages(self, names: Sequence[str]) -> list[tuple[Passage, ...] | None]:
        """For each page name the passages of it that this episode has seen; None for none.

        Passages that only this process has seen do not count: a snapshot restored elsewhere must show the same.
        """
        seen = self.evidence.values()
        return [tuple(p for p in seen if name in (p.id, p.page, p.title)) or None for name in names]
