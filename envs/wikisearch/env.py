"""``creditflow/WikiSearch-v0``: answer questions by searching an encyclopedia, in one of several tool-call formats.

The keys of ``info`` in addition to those that all environments have:

=================== ====================================================================================
``queries``         texts of the search
``doc_ids``         ids of the passages that the step returned
``entities``        nodes of the question's evidence graph that these passages mention
``message``         what a transcript appends: the tool result or the rejection, in the dialect's format
``thought``         the thought in the action: between thinking tags; without any, the text before the call
``answer``          the answer given, "" before
``answer_em``       its exact match; also ``answer_f1``, ``answer_sub_em``
``evidence``        pieces of golden evidence seen, of ``evidence_total``
``tool_calls``      tool calls used; also ``tool_tokens``
``stop_reason``     "success", "failed", "tool_limit", "token_limit", "env_limit"; "" during the episode
=================== ====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, ClassVar, Final

from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import ConfigError, EpisodeError, check_name, short_repr
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Task
from creditflow.envs.text.entity_matching import EntityMatcher
from creditflow.envs.text.frame import FRAMES_PER_SECOND, RENDER_MODES, check_render_mode, rendered
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.grading.grade import Grader
from creditflow.envs.wikisearch.grading.scoring import Judge
from creditflow.envs.wikisearch.oracle import EvidenceOracle, HopOracle, StateReader
from creditflow.envs.wikisearch.protocol.dialects import dialect as named_dialect
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.render import count_tokens
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.site import SiteOptions
from creditflow.envs.wikisearch.rules import UNKNOWN, Budget, Episode, check_call, num_evidence
from creditflow.envs.wikisearch.snapshot import LastResult, State, read_state, write_state
from creditflow.envs.wikisearch.tasks import open_library

__all__ = ["WikiSearchEnv", "extra_info", "stop_reason"]

TOOLS: Final = ("search", "visit")
SITE: Final = SiteOptions()
MAX_ACTION: Final = 50_000  # characters of one action; longer ones are rejected unread


class WikiSearchEnv(AgentEnv[str, str, Call]):
    """Search, open pages, answer.

    Args:
        panel: "<panel>:<split>" of the embedded panels, over the fictional encyclopedia; the default source. The panel
            "slices-v1" goes with ``questions``, a file or a folder of them: published questions by content.
        questions: otherwise instead of a panel, the path of a question file (see ``question_files``).
        world: instead, ``{"articles": N, "questions": M, "seed": S}``: another fictional encyclopedia.
        corpus: with ``questions``: the path of a passage file or index folder; a folder names its engine.
        retriever: with ``questions``, instead of a corpus: ``{"url": …}``, a search server (see ``retrieval.remote``); or
            ``{"index": …, "engine": …, "corpus": …, "memory": …, "threads": …}`` (see ``retrieval.store``).
        file_format: with ``questions``: the file's format, or "auto".
        dialect: "plain", "search_r1", "pica", "tool_call", or "browse": the corpus as a web site (see ``protocol.dialects``
            and ``retrieval.site``).
        tools: ("search", "visit"), or ("search",) if no page can be opened; a search with "browse" then returns passages
            with their URLs instead of a result list.
        top_k: passages that a search returns for each query.
        metric: "em", "f1" (bags of words), "pica_f1" (sets of words) or "sub_em": the metric that is the ``score``.
        judge: instead of the metric: a callable (question, golden answers, answer) → score in [0, 1], or the arguments
            of ``grading.judge.ModelJudge`` as a mapping.
        max_steps: limit of an episode; the last step is announced, and a search in it is still executed.
        max_calls: limit of tool calls; None for no limit.
        max_tokens: limit of tool-result tokens, counted as UTF-8 bytes / 4; None for no limit. When it or ``max_calls``
            is used up, only an answer is admissible, which is announced.
        max_passage_chars: longer passages are cut in the observation, with a mark at the cut.
        max_result_tokens: longer tool results are cut in the observation, counted as for ``max_tokens``: the passage that goes
            beyond it has a mark at the cut, those after it are left out; None for no limit.
        oracle: "exact" or "proxy" (see ``oracle``); a server's corpus has only the proxy.

    The reward is the score of the answer when it is given, else 0. ``success`` is exact match ("em"), or a score of 1.
    The listed actions are searches for the question and for names read, visits of seen pages with more passages,
    "unknown", some wrong answers, and the golden answer once all golden passages are seen. Any well-formed call is
    admissible. The state key is the question and the *set* of passages seen, not the budget. Keys of ``info``: see ``info``.

    Raises:
        ConfigError: a wrong argument.
        DataError: a malformed file.
    """

    env_name: ClassVar[str] = "wikisearch"
    lists_all_actions, actions_reveal_answer = False, True  # the golden answer is listed once its evidence is seen
    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_SECOND}

    def __init__(
        self,
        *,
        panel: str | None = None,
        questions: str | None = None,
        world: Mapping[str, int] | None = None,
        corpus: str | None = None,
        retriever: Mapping[str, Any] | None = None,
        file_format: str = "auto",
        dialect: str = "plain",
        tools: Sequence[str] = TOOLS,
        top_k: int = 3,
        metric: str = "em",
        judge: Judge | Mapping[str, Any] | None = None,
        max_steps: int = 10,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_passage_chars: int = 4_000,
        max_result_tokens: int | None = None,
        oracle: str = "exact",
        render_mode: str | None = None,
    ) -> None:
        check_render_mode(render_mode)
        if oracle not in ("exact", "proxy"):
            raise ConfigError(f"oracle must be 'exact' or 'proxy', got {short_repr(oracle)}")
        self.budget = Budget(top_k, max_calls, max_tokens, max_passage_chars, max_result_tokens)
        library = open_library(
            panel=panel, questions=questions, world=world, corpus=corpus, server=retriever, file_format=file_format
        )
        self.dialect, self.visits = named_dialect(dialect), _has_visits(tools)
        if not self.visits:
            library = replace(library, visits=False)
        elif dialect == "browse":
            library = library.on_site(SITE)
        super().__init__(tasks=library.tasks, max_steps=max_steps)
        self.action_space, self.observation_space = TextSpace((f"answer: {UNKNOWN}",)), TextSpace()
        self.library, self.render_mode = library, render_mode
        self._proxy = oracle == "proxy"
        self._grader = Grader(metric, judge)
        self._states = StateReader(library, self.budget, self._grader)
        self._oracle: EvidenceOracle | HopOracle | None = None
        self._episode: Episode | None = None
        self._step, self._content = StepRecord(), ""
        self._listed: tuple[str, ...] = ()  # until they are needed

    # -- the episode --------------------------------------------------------------------------------------------------
    @property
    def episode(self) -> Episode:
        """What the current episode has read, used and answered.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._episode is None:
            raise EpisodeError("there is no task yet: call reset() first")
        return self._episode

    def _start(self, task: Task) -> None:
        question = Question.from_json(task.content)
        self._episode = Episode(question, self.library.reader(question), self.library.listed_visit)
        self._matcher = EntityMatcher((entity.name, *entity.aliases) for entity in question.entities)
        self._step, self._listed = StepRecord(), ()
        self._content = self.dialect.question(question.text)
        self._task_hash = blake2b(task.task_id.encode(), digest_size=16)

    def _parse(self, action: Any) -> tuple[Call | None, str]:
        self._step = StepRecord()
        if not isinstance(action, str):
            return self._reject(f"an action is a text, got {type(action).__name__}")
        if len(action) > MAX_ACTION:
            return self._reject(f"the action has {len(action)} characters; at most {MAX_ACTION} are read")
        call, reason, self._step.thought = self.dialect.parse(action)
        if call is not None:
            call, reason = check_call(call)
        return (call, "") if call is not None else self._reject(reason)

    def _reject(self, reason: str) -> tuple[None, str]:
        self._step.message = self.dialect.invalid(reason) + self._notice()
        return None, reason

    def _spell(self, action: Call) -> str:
        return self.dialect.write(action)

    def _rejection_reason(self, action: Call) -> str:
        reason = ""
        used_up = self._used_up()
        if action.tool != "answer" and used_up:
            reason = f"no {action.tool} any more: {used_up}; give your answer"
        elif action.tool == "visit" and not self.visits:
            reason = "no page can be opened: search, or give your answer"
        elif action.tool == "visit":
            self._step.opened = self._open_pages(action)
            unknown = [name for name, page in zip(action.items, self._step.opened, strict=True) if page is None]
            if unknown:
                reason = f"no page is called {unknown[0][:80]!r}; visit a title or id from the results"
        if reason:
            self._reject(reason)
        return reason

    def _open_pages(self, call: Call) -> list[tuple[Passage, ...] | None]:
        """The passages that a visit returns; of pages that a server cannot open, those that this episode has seen.

        Raises:
            ServiceError: the engine cannot answer.
        """
        opened = self.library.visit(call.items, call.goal or self.episode.question.text)
        if self.library.local is not None:
            return opened
        seen = self.episode.seen_pages(call.items)
        return [page if page is not None else passages for page, passages in zip(opened, seen, strict=True)]

    def _apply(self, action: Call) -> Outcome:
        episode = self.episode
        if action.tool == "answer":
            episode.answer, episode.grade = action.items[0], self._grader.grade(episode.question, action.items[0])
            self._listed = ()
            return Outcome(episode.grade.score, True, True)
        if action.tool == "search":
            groups = self.library.search(action.items, self.budget.top_k)
            self._step.queries = action.items
        else:
            groups = [page for page in self._step.opened if page is not None]
        seen_before = len(episode.evidence)
        episode.calls += 1
        self._read(groups)
        ids = tuple(tuple(passage.id for passage in group) for group in groups)
        self._show(LastResult(action.tool, action.items, ids), groups)
        episode.tokens += count_tokens(self._content)
        self._step.passages = tuple({p.id: p for group in groups for p in group}.values())
        self._step.message = self._observe()
        return Outcome(0.0, False, len(episode.evidence) > seen_before)

    def _read(self, groups: Sequence[Sequence[Passage]]) -> None:
        self.episode.read(groups)
        self._listed = ()

    def _show(self, result: LastResult, groups: Sequence[Sequence[Passage]]) -> None:
        self.episode.last_result = result
        write = self.dialect.results if result.tool == "search" else self.dialect.pages
        self._content = write(result.items, self.budget.shown(groups))

    def _used_up(self) -> str:
        return self.budget.used_up(self.episode.calls, self.episode.tokens)

    def _notice(self) -> str:
        if self.episode.answer is not None:
            return ""
        if used_up := self._used_up():
            return self.dialect.limit(f"{used_up}; only an answer is possible now.")
        last_turn = self.max_steps - self.elapsed_steps == 1
        return self.dialect.limit("this is the last turn; an answer is due now.") if last_turn else ""

    # -- methods that the base class calls ----------------------------------------------------------------------------
    def _invalid_action_reward(self) -> float:
        return 0.0

    def _observe(self) -> str:
        return self._content + self._notice()

    def _keys(self) -> tuple[str, str]:
        episode, key = self.episode, self._task_hash.copy()
        key.update("\n".join(sorted(episode.evidence)).encode("utf-8", "replace"))
        if episode.answer is not None:
            key.update(b"\0right" if episode.grade.correct else b"\0wrong")
        content, text_salt = self._content.encode("utf-8", "replace"), b"answered" if episode.answer else b""
        return key.hexdigest(), blake2b(content, digest_size=16, key=text_salt).hexdigest()

    def _admissible(self) -> tuple[str, ...]:
        if not self._listed:
            calls = self.episode.listed_calls(tools=not self._used_up())
            self._listed = tuple(sorted({self.dialect.write(call) for call in calls}))
        return self._listed

    def _progress(self) -> tuple[bool, float]:
        return self.episode.grade.correct, self.episode.grade.score

    def _extra_info(self) -> dict[str, Any]:
        episode, passages = self.episode, self._step.passages
        (cut,) = self.budget.shown([passages])
        text = "\n".join(passage.contents for passage in cut)
        entities = tuple(episode.question.entities[number].name for number in self._matcher.found(text))
        return extra_info(episode, self._step, entities, stop_reason(episode, self.budget) if self._over else "")

    def documents(self) -> dict[str, dict[str, str]]:
        """Passages seen, and the golden ones where the corpus is in this process (a server is not queried)."""
        passages = dict(self.episode.evidence)
        if (local := self.library.local) is not None:
            passages |= {p.id: p for name in self.episode.question.supporting for p in local.named(name)}
        return {passage.id: {"title": passage.title, "text": passage.text} for passage in passages.values()}

    # -- snapshots and oracle -----------------------------------------------------------------------------------------
    def get_state(self) -> str:
        """The snapshot of the present state (see ``snapshot``)."""
        episode = self.episode
        return write_state(
            State(
                question=episode.question,
                steps=self.elapsed_steps,
                calls=episode.calls,
                tokens=episode.tokens,
                evidence=tuple(episode.evidence),
                shown=episode.last_result,
                answer=episode.answer,
                documents=() if self.library.local else tuple(episode.evidence.values()),
            )
        )

    def set_state(self, snapshot: str) -> tuple[str, dict[str, Any]]:
        """Restore a snapshot of any ``WikiSearchEnv`` over the same corpus; returns what ``reset`` would.

        Raises:
            DataError: not a snapshot, or of another corpus.
        """
        state = read_state(snapshot)
        passages = self._states.passages(state)
        self._begin(question_task(state.question), elapsed=state.steps)
        episode = self.episode
        self._read([list(passages.values())])
        episode.calls, episode.tokens = state.calls, state.tokens
        if state.shown.tool:
            self._show(state.shown, [[passages[name] for name in ids] for ids in state.shown.found])
        if state.answer is not None:
            episode.answer, episode.grade = state.answer, self._grader.grade(state.question, state.answer)
        self._over = state.answer is not None or state.steps >= self.max_steps
        return self._observe(), self._info(True, True, False, "")

    @property
    def oracle(self) -> EvidenceOracle | HopOracle:
        """The oracle, which evaluates snapshots."""
        if self._oracle is None:
            graph = None if self._proxy else self.library.action_graph(self.budget.top_k)
            if graph is None:
                self._oracle = HopOracle(self._states, self.dialect)
            else:
                self._oracle = EvidenceOracle(self._states, self.dialect, graph, graph.reader)
        return self._oracle

    def render(self) -> Any:
        """The present observation, as a text or a frame."""
        return rendered(self._observe(), self.render_mode)


def _has_visits(tools: Sequence[str]) -> bool:
    """Whether pages can be opened with these tools.

    Raises:
        ConfigError: other tools, or no search.
    """
    if isinstance(tools, str) or not isinstance(tools, Sequence) or not all(isinstance(name, str) for name in tools):
        raise ConfigError(f"tools must be a list such as ['search'], got {short_repr(tools)}")
    for name in tools:
        check_name("tool", name, TOOLS)
    if "search" not in tools:
        raise ConfigError(f"an agent needs the tool 'search', got {list(tools)}")
    return "visit" in tools


@dataclass
class StepRecord:
    """What one step read and returned.

    Attributes:
        thought: the thought in the action: between thinking tags; without any, the text before the call.
        message: the tool result or the rejection, in the dialect's format.
        queries: the queries of a search.
        passages: what the step returned, each once.
        opened: the pages of a visit, None for an unknown one.
    """

    thought: str = ""
    message: str = ""
    queries: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    opened: list[tuple[Passage, ...] | None] = field(default_factory=list)


def stop_reason(episode: Episode, budget: Budget) -> str:
    """Why a finished episode ended."""
    if episode.answer is not None:
        return "success" if episode.grade.correct else "failed"
    if budget.max_calls is not None and episode.calls >= budget.max_calls:
        return "tool_limit"
    return "token_limit" if budget.used_up(episode.calls, episode.tokens) else "env_limit"


def extra_info(episode: Episode, step: StepRecord, entities: tuple[str, ...], reason: str) -> dict[str, Any]:
    """The environment's own keys.

    Args:
        episode: what the episode has read and used.
        step: the last step.
        entities: graph nodes in the step's passages.
        reason: the stop reason, "" during the episode.
    """
    return {
        "queries": step.queries,
        "doc_ids": tuple(passage.id for passage in step.passages),
        "entities": entities,
        "message": step.message,
        "thought": step.thought,
        "answer": episode.answer or "",
        "answer_em": episode.grade.em,
        "answer_f1": episode.grade.f1,
        "answer_sub_em": episode.grade.sub_em,
        "evidence": episode.bits.bit_count(),
        "evidence_total": num_evidence(episode.question),
        "tool_calls": episode.calls,
        "tool_tokens": episode.tokens,
        "stop_reason": reason,
    }
