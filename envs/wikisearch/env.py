"""``creditflow/WikiSearch-v0``: answer questions by searching an encyclopedia, in the dialect of your choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, ClassVar, Final

from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Task
from creditflow.envs.text.entity_matching import EntityMatcher
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.dialects import dialect as named_dialect
from creditflow.envs.wikisearch.escaping import one_line
from creditflow.envs.wikisearch.evidence import UNKNOWN, Reader, evidence_bits, listed_calls, num_evidence
from creditflow.envs.wikisearch.grading.grade import Grade, Grader, Judge
from creditflow.envs.wikisearch.oracle import EvidenceOracle, HopOracle
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.snapshot import LastResult, State, read_state, write_state
from creditflow.envs.wikisearch.tasks import Library, open_library

__all__ = ["WikiSearchEnv"]

MAX_ACTION: Final = 50_000  # characters of one action; longer ones are refused unread
MAX_QUERY: Final = 2_000
MAX_ITEMS: Final = 16  # queries or pages in one call


class WikiSearchEnv(AgentEnv[str, str, Call]):
    """Search, open pages, answer.

    Args:
        panel: "<panel>:<split>" of the embedded panels, over the fictional encyclopedia; the default source.
        questions: instead, the path of a question file (see ``loaders``).
        world: instead, ``{"articles": N, "questions": M, "seed": S}``: a fictional encyclopedia of its own.
        corpus: with ``questions``: the path of a passage file or index folder; a folder brings its engine.
        retriever: with ``questions``, instead of a corpus: ``{"url": …}``, a search server (see ``remote``); or
            ``{"index": …, "engine": …, "corpus": …, "memory": …, "threads": …}``, an engine here (see ``opening``).
        file_format: with ``questions``: the file's format, or "auto".
        answers: with ``questions``: what to do where the answer is no graph node: "none", "virtual" or "skip".
        dialect: "plain", "search_r1", "pica" or "tool_call" (see ``dialects``).
        top_k: passages a search returns for each query.
        metric: "em", "f1" or "sub_em": what ``score`` is.
        judge: instead of the metric: a callable (question, golden answers, answer) → score in [0, 1], or the arguments
            of an OpenAI-compatible judge as a mapping (see ``judge``).
        max_steps: turns; the last one is announced, and a search in it is still done.
        max_calls: tool calls; None for no limit of its own.
        max_tokens: of tool results, counted as UTF-8 bytes / 4; None for no limit. Once it is used up, as with
            ``max_calls``, only an answer is admitted, which is announced.
        max_passage_chars: longer passages are shown cut, with a mark.
        oracle: "exact" or "proxy" (see ``oracle``); a server's corpus has only the proxy.

    Reward is the score of the answer when it is given, 0 elsewhere. ``success`` is exact match ("em"), or a score of 1.
    Admissible are listed: searches for the question and for names read, visits of seen pages with more passages,
    "unknown" and some wrong answers, and the golden answer once all golden passages are seen. Any other well-formed
    call is admitted too. The state key names the question and the *set* of passages seen, never the budget.

    Info has, beside the common keys: ``queries``, ``doc_ids``, ``entities`` (graph nodes in what the step showed),
    all tuples of texts; ``message`` (what a transcript appends: the result, or the refusal, in the dialect's words);
    ``thought`` (the action's text outside its call); ``answer``, ``answer_em``, ``answer_f1``, ``answer_sub_em``;
    ``evidence`` (pieces of golden evidence seen) of ``evidence_total``; ``tool_calls``, ``tool_tokens``; ``stop_reason``.

    Raises:
        ConfigError: a wrong argument.
        DataError: a malformed file.
    """

    env_name: ClassVar[str] = "wikisearch"
    actions_reveal_answer: ClassVar[bool] = True  # the right answer is listed once its evidence was read
    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(
        self,
        *,
        panel: str | None = None,
        questions: str | None = None,
        world: Mapping[str, int] | None = None,
        corpus: str | None = None,
        retriever: Mapping[str, Any] | None = None,
        file_format: str = "auto",
        answers: str = "none",
        dialect: str = "plain",
        top_k: int = 3,
        metric: str = "em",
        judge: Judge | Mapping[str, Any] | None = None,
        max_steps: int = 10,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_passage_chars: int = 4_000,
        oracle: str = "exact",
        render_mode: str | None = None,
    ) -> None:
        for name, value, most in (
            ("top_k", top_k, 100), ("max_calls", max_calls, 10**6), ("max_tokens", max_tokens, 10**9),
            ("max_passage_chars", max_passage_chars, 10**7),
        ):  # fmt: skip
            if value is not None and (type(value) is not int or not 1 <= value <= most):
                raise ConfigError(f"{name} must be an integer from 1 to {most}, got {short_repr(value)}")
        if render_mode not in (None, "ansi") or oracle not in ("exact", "proxy"):
            raise ConfigError(f"render_mode is None or 'ansi', oracle 'exact' or 'proxy': {render_mode!r}, {oracle!r}")
        library = open_library(
            panel=panel,
            questions=questions,
            world=world,
            corpus=corpus,
            server=retriever,
            file_format=file_format,
            answers=answers,
        )
        super().__init__(tasks=library.tasks, max_steps=max_steps)
        self.action_space, self.observation_space = TextSpace((f"answer: {UNKNOWN}",)), TextSpace()
        self.library: Library = library
        self.render_mode = render_mode
        self.dialect = named_dialect(dialect)
        self.top_k, self.max_calls, self.max_tokens = top_k, max_calls, max_tokens
        self._cut, self._proxy = max_passage_chars, oracle == "proxy"
        self._grader = Grader(metric, judge)
        self._question: Question | None = None
        self._oracle_now: EvidenceOracle | HopOracle | None = None
        self._clear()

    # -- the episode --------------------------------------------------------------------------------------------------
    def _clear(self) -> None:
        self._evidence: dict[str, Passage] = {}
        self._names: set[str] = set()
        self._pages: dict[str, None] = {}
        self._bits = self._calls = self._tokens = 0
        self._shown, self._content = LastResult(), ""
        self._answer: str | None = None
        self._grade = Grade()
        self._list: tuple[str, ...] = ()
        self._step_info()

    def _step_info(self) -> None:
        self._thought = self._message = ""
        self._fresh: tuple[Passage, ...] = ()
        self._queries: tuple[str, ...] = ()
        self._opened: list[tuple[Passage, ...] | None] = []

    def _start(self, task: Task) -> None:
        self._clear()
        self._question = Question.from_json(task.content)
        self._matcher = EntityMatcher((entity.name, *entity.aliases) for entity in self._question.entities)
        self._reader: Reader = self.library.reader(self._question)
        self._names.update(self._reader.asked(self._question))
        self._content = self.dialect.question(self._question.text)
        self._key = blake2b(task.task_id.encode(), digest_size=16)

    def _parse(self, action: Any) -> tuple[Call | None, str]:
        self._step_info()
        if not isinstance(action, str):
            return self._refused(f"an action is a text, got {type(action).__name__}")
        if len(action) > MAX_ACTION:
            return self._refused(f"the action has {len(action)} characters; at most {MAX_ACTION} are read")
        call, reason, thought = self.dialect.parse(action)
        self._thought = thought
        if call is None:
            return self._refused(reason)
        items = tuple(one_line(item) for item in call.items)
        if not items or not all(items):
            return self._refused(f"an empty {call.tool}: give it a text")
        if len(items) > MAX_ITEMS or max(map(len, items)) > MAX_QUERY or len(call.goal) > MAX_QUERY:
            return self._refused(f"at most {MAX_ITEMS} texts of {MAX_QUERY} characters in one call")
        return Call(call.tool, items, one_line(call.goal)), ""

    def _refused(self, reason: str) -> tuple[None, str]:
        self._message = self.dialect.invalid(reason) + self._notice()
        return None, reason

    def _rejection_reason(self, action: Call) -> str:
        reason = ""
        if action.tool != "answer" and not self._tools_left():
            reason = f"no {action.tool} any more: {self._spent()}; give your answer"
        elif action.tool == "visit":
            self._opened = self._pages_of(action)
            unknown = [name for name, page in zip(action.items, self._opened, strict=True) if page is None]
            if unknown:
                reason = f"no page is called {unknown[0][:80]!r}; visit a title or id from the results"
        if reason:
            self._refused(reason)
        return reason

    def _pages_of(self, action: Call) -> list[tuple[Passage, ...] | None]:
        """What a visit shows; of pages that a server cannot open, the passages that this episode has seen.

        Not those that this process has seen: a snapshot that goes on elsewhere must show the same.
        """
        opened = self.library.retriever.visit(action.items, action.goal or self._asked().text)
        if self.library.local is not None:
            return opened
        seen = self._evidence.values()
        known = [tuple(p for p in seen if name in (p.id, p.page, p.title)) for name in action.items]
        return [page if page is not None else found or None for page, found in zip(opened, known, strict=True)]

    def _apply(self, action: Call) -> Outcome:
        if action.tool == "answer":
            self._grade = self._grader.grade(self._asked(), action.items[0])
            self._answer, self._list = action.items[0], ()
            return Outcome(self._grade.score, True, True)
        if action.tool == "search":
            hits = self.library.retriever.search(action.items, self.top_k)
            groups = [tuple(hit.passage for hit in found) for found in hits]
            self._queries = action.items
        else:
            groups = [page for page in self._opened if page is not None]
        before = len(self._evidence)
        self._calls += 1
        self._take(groups)
        self._shown = LastResult(action.tool, action.items, tuple(tuple(p.id for p in group) for group in groups))
        self._show(groups)
        self._tokens += -(-len(self._content.encode("utf-8", "replace")) // 4)
        self._fresh = tuple({p.id: p for group in groups for p in group}.values())
        self._message = self._observe()
        return Outcome(0.0, False, len(self._evidence) > before)

    def _take(self, groups: Sequence[Sequence[Passage]]) -> None:
        """Add passages to what has been read."""
        question = self._asked()
        for group in groups:
            for passage in group:
                if passage.id not in self._evidence:
                    self._evidence[passage.id] = passage
                    self._names.update(self._reader.names(passage))
                    self._bits |= evidence_bits(question, passage)
                    if title := self.library.listed_title(passage):
                        self._pages[title] = None
        self._list = ()

    def _show(self, groups: Sequence[Sequence[Passage]]) -> None:
        cut = [[self._short(passage) for passage in group] for group in groups]
        write = self.dialect.results if self._shown.tool == "search" else self.dialect.pages
        self._content = write(self._shown.items, cut)

    def _short(self, passage: Passage) -> Passage:
        return passage if len(passage.text) <= self._cut else replace(passage, text=passage.text[: self._cut] + " […]")

    # -- budgets ------------------------------------------------------------------------------------------------------
    def _tools_left(self) -> bool:
        return not self._spent()

    def _spent(self) -> str:
        if self.max_calls is not None and self._calls >= self.max_calls:
            return f"all {self.max_calls} tool calls are used"
        if self.max_tokens is not None and self._tokens >= self.max_tokens:
            return f"all {self.max_tokens} tokens of tool results are used"
        return ""

    def _notice(self) -> str:
        if self._answer is not None:
            return ""
        if spent := self._spent():
            return self.dialect.limit(f"{spent}; only an answer is possible now.")
        last = self.max_steps - self.elapsed_steps == 1
        return self.dialect.limit("this is the last turn; an answer is due now.") if last else ""

    # -- what the base class asks -------------------------------------------------------------------------------------
    def _invalid_action_reward(self) -> float:
        return 0.0

    def _observe(self) -> str:
        return self._content + self._notice()

    def _keys(self) -> tuple[str, str]:
        key = self._key.copy()
        key.update("\n".join(sorted(self._evidence)).encode("utf-8", "replace"))
        if self._answer is not None:
            key.update(b"\0right" if self._grade.right else b"\0wrong")
        text = blake2b(
            self._content.encode("utf-8", "replace"), digest_size=16, key=b"answered"[: 8 * bool(self._answer)]
        )
        return key.hexdigest(), text.hexdigest()

    def _admissible(self) -> tuple[str, ...]:
        if not self._list:
            question = self._asked()
            complete = self._bits == (1 << num_evidence(question)) - 1
            calls = listed_calls(question, self._names, tuple(self._pages), complete, self._tools_left())
            self._list = tuple(sorted({self.dialect.write(call) for call in calls}))
        return self._list

    def _progress(self) -> tuple[bool, float]:
        return self._grade.right, self._grade.score

    def _extra_info(self) -> dict[str, Any]:
        question = self._asked()
        text = "\n".join(self._short(passage).contents for passage in self._fresh)
        return {
            "queries": self._queries,
            "doc_ids": tuple(passage.id for passage in self._fresh),
            "entities": tuple(question.entities[number].name for number in self._matcher.found(text)),
            "message": self._message,
            "thought": self._thought,
            "answer": self._answer or "",
            "answer_em": self._grade.em,
            "answer_f1": self._grade.f1,
            "answer_sub_em": self._grade.sub_em,
            "evidence": self._bits.bit_count(),
            "evidence_total": num_evidence(question),
            "tool_calls": self._calls,
            "tool_tokens": self._tokens,
            "stop_reason": self._stop_reason(),
        }

    def _stop_reason(self) -> str:
        if not self._over:
            return ""
        if self._answer is not None:
            return "success" if self._grade.right else "failed"
        used_calls = self.max_calls is not None and self._calls >= self.max_calls
        return "tool_limit" if used_calls else "token_limit" if self._spent() else "env_limit"

    def _asked(self) -> Question:
        if self._question is None:
            raise EpisodeError("there is no task yet: call reset() first")
        return self._question

    def documents(self) -> dict[str, dict[str, str]]:
        """Passages seen, and the golden ones where the corpus is at hand (a server is not asked for them)."""
        found = dict(self._evidence)
        local = self.library.local
        if local is not None:
            found |= {p.id: p for name in self._asked().supporting for p in local.named(name)}
        return {passage.id: {"title": passage.title, "text": passage.text} for passage in found.values()}

    # -- snapshots and oracle -----------------------------------------------------------------------------------------
    def get_state(self) -> str:
        """The snapshot of the present state (see ``snapshot``)."""
        return write_state(
            State(
                question=self._asked(),
                steps=self.elapsed_steps,
                calls=self._calls,
                tokens=self._tokens,
                evidence=tuple(self._evidence),
                shown=self._shown,
                answer=self._answer,
                documents=() if self.library.local else tuple(self._evidence.values()),
            )
        )

    def set_state(self, snapshot: str) -> tuple[str, dict[str, Any]]:
        """Restore a snapshot of any ``WikiSearchEnv`` over the same corpus; returns what ``reset`` would.

        Raises:
            DataError: not a snapshot, or of another corpus.
        """
        state = read_state(snapshot)
        passages = self._passages(state)
        self._begin(question_task(state.question), elapsed=state.steps)
        self._take([list(passages.values())])
        self._calls, self._tokens, self._shown = state.calls, state.tokens, state.shown
        if state.shown.tool:
            self._show([[passages[name] for name in ids] for ids in state.shown.found])
        if state.answer is not None:
            self._answer, self._grade = state.answer, self._grader.grade(state.question, state.answer)
        self._over = state.answer is not None or state.steps >= self.max_steps
        return self._observe(), self._info(True, True, False, "")

    def _passages(self, state: State) -> dict[str, Passage]:
        corpus = state.question.corpus
        if corpus and self.library.digest and corpus != self.library.digest:
            raise DataError(f"the snapshot is about the corpus {corpus}, this environment has {self.library.digest}")
        known = {passage.id: passage for passage in state.documents}
        missing = [name for name in state.evidence if name not in known]
        known |= {passage.id: passage for passage in self.library.retriever.fetch(missing)}
        return {name: known[name] for name in state.evidence}

    @property
    def oracle(self) -> EvidenceOracle | HopOracle:
        """The oracle; takes snapshots."""
        if self._oracle_now is None:
            graph = None if self._proxy else self.library.action_graph(self.top_k)
            if graph is None:
                self._oracle_now = HopOracle(self, self.dialect)
            else:
                self._oracle_now = EvidenceOracle(self, self.dialect, graph, graph.reader)
        return self._oracle_now

    def seen_bits(self, state: State) -> int:
        """Pieces of evidence among a state's passages, as bits."""
        bits = 0
        for passage in self._passages(state).values():
            bits |= evidence_bits(state.question, passage)
        return bits

    def calls_left(self, state: State) -> float:
        """Tool calls still allowed in a state."""
        if self.max_tokens is not None and state.tokens >= self.max_tokens:
            return 0.0
        return float("inf") if self.max_calls is None else float(self.max_calls - state.calls)

    def grade(self, state: State) -> Grade:
        """The grade of a state's answer."""
        return self._grader.grade(state.question, state.answer or "")

    def render(self) -> str | None:
        """The present observation."""
        return self._observe() if self.render_mode == "ansi" and self._asked() else None
