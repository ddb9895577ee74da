"""Sources of questions and passages: an embedded panel, another fictional world, or files and search servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, OracleLimitError, short_repr, unknown_name_error
from creditflow.envs.files.paths import checked_path
from creditflow.envs.tasks import PanelRow, RowTasks, Task, TaskSource, parse_panel_spec
from creditflow.envs.wikisearch.action_graph import ActionGraph
from creditflow.envs.wikisearch.question_files import file_rows, question_over
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.retrieval.base import MemoryCorpus, Passage, Retriever
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever
from creditflow.envs.wikisearch.retrieval.site import SiteOptions, open_site
from creditflow.envs.wikisearch.retrieval.store import open_corpus, open_engine
from creditflow.envs.wikisearch.rules import Reader, question_lexicon, title_lexicon
from creditflow.envs.wikisearch.slices import SLICES, find_questions
from creditflow.envs.wikisearch.world.ask import build_question
from creditflow.envs.wikisearch.world.encyclopedia import (
    DEFAULT_ARTICLES,
    DEFAULT_SEED,
    Encyclopedia,
    load_encyclopedia,
)
from creditflow.envs.wikisearch.world.selection import select_questions

__all__ = ["DEFAULT_PANEL", "Library", "open_library", "world_rows"]

DEFAULT_PANEL: Final = "standard-v1:train"
DEFAULT_QUESTIONS: Final = 1_000
SEED_LIMIT: Final = 2**64
MAX_TITLED_PASSAGES: Final = 100_000  # the titles of larger corpora are not collected


@dataclass(frozen=True, eq=False)
class Library:
    """Tasks, and the engine that searches their corpus.

    Attributes:
        tasks: the questions.
        retriever: the engine.
        digest: digest of the corpus; "" if it is unknown.
        shared_reader: finds names for all questions; None where each question has its own reader.
        visits: whether visits are listed.
    """

    tasks: TaskSource
    retriever: Retriever
    digest: str = ""
    shared_reader: Reader | None = None
    visits: bool = True

    @property
    def local(self) -> LocalRetriever | None:
        """The engine, if it runs in this process."""
        return self.retriever if isinstance(self.retriever, LocalRetriever) else None

    def search(self, queries: Sequence[str], k: int) -> list[tuple[Passage, ...]]:
        """The best ``k`` passages for each query.

        Raises:
            ServiceError: the engine cannot answer.
        """
        return [tuple(hit.passage for hit in hits) for hits in self.retriever.search(queries, k)]

    def visit(self, names: Sequence[str], goal: str) -> list[tuple[Passage, ...] | None]:
        """The passages of each page; None for an unknown one.

        Raises:
            ServiceError: the engine cannot answer.
        """
        return self.retriever.visit(names, goal)

    def reader(self, question: Question) -> Reader:
        """The reader that finds names in passages."""
        return Reader(question_lexicon(question)) if self.shared_reader is None else self.shared_reader

    def listed_visit(self, passage: Passage) -> str:
        """The name by which a listed visit opens the passage's page; "" if none does."""
        local = self.local
        return local.listed_visit(passage) if local is not None and self.visits else ""

    def action_graph(self, k: int) -> ActionGraph | None:
        """The graph of all listed calls; None where the corpus cannot be listed."""
        local, reader = self.local, self.shared_reader
        if local is None or reader is None:
            return None
        try:
            return _graph(local, reader, k, self.visits)
        except OracleLimitError:
            return None

    def on_site(self, options: SiteOptions) -> Library:
        """The same tasks over the corpus as a web site.

        Raises:
            ConfigError: the corpus is on a server.
        """
        if self.local is None:
            raise ConfigError(
                "dialect='browse' shows a corpus in this process as a web site, but the retriever is a server: give corpus=PATH"
            )
        return replace(self, retriever=open_site(self.local, options))


@lru_cache(maxsize=4)
def _graph(local: LocalRetriever, reader: Reader, k: int, visits: bool) -> ActionGraph:
    return ActionGraph(local, reader, k, visits=visits)


@lru_cache(maxsize=4)
def _title_reader(local: LocalRetriever) -> Reader | None:
    if not isinstance(local.corpus, MemoryCorpus) or len(local.corpus) > MAX_TITLED_PASSAGES:
        return None
    return Reader(title_lexicon(local.corpus.passages))


@lru_cache(maxsize=2)
def _world_reader(encyclopedia: Encyclopedia) -> Reader:
    return Reader(encyclopedia.lexicon)


def _builder(digest: str, encyclopedia: Encyclopedia | None = None) -> Callable[[Any], Task]:
    """A function that builds tasks over one corpus, from questions or, with ``encyclopedia``, from panel locators.

    A locator is ``{"world": [seed, articles], …recipe}``.
    """

    def build(content: Any) -> Task:
        if encyclopedia is not None and isinstance(content, Mapping) and "world" in content:
            world = [encyclopedia.world.seed, encyclopedia.world.articles]
            if content["world"] != world:
                raise DataError(
                    f"the locator is about the world {short_repr(content['world'])}, this source about {world}"
                )
            return question_task(build_question(encyclopedia, content))
        return question_over(Question.from_json(content), digest)

    return build


@lru_cache(maxsize=2)
def world_rows(seed: int, articles: int, questions: int) -> tuple[PanelRow, ...]:
    """Panel rows of a world's questions, in order. Each row is small, because it contains only a recipe."""
    rows = []
    for chosen in select_questions(load_encyclopedia(seed, articles), questions):
        task = question_task(chosen.question)
        strata = {"kind": chosen.question.kind, "hops": chosen.hops}
        rows.append(PanelRow(task.task_id, chosen.split, {"world": [seed, articles], **chosen.recipe}, strata))
    return tuple(rows)


def open_library(
    *,
    panel: str | None = None,
    questions: str | None = None,
    world: Mapping[str, int] | None = None,
    corpus: str | None = None,
    server: Mapping[str, Any] | None = None,
    file_format: str = "auto",
) -> Library:
    """Open the one source that is given; the default is the panel "standard-v1:train".

    The arguments are those of ``WikiSearchEnv``; ``server`` is its ``retriever``.

    Raises:
        ConfigError: more than one source, or a wrong option.
        DataError: a malformed file.
    """
    if isinstance(panel, str) and panel.partition(":")[0] == SLICES:
        return _open_slices(panel, questions, _engine_of(corpus, server), file_format)
    named = [k for k, v in {"panel": panel, "questions": questions, "world": world}.items() if v is not None]
    if len(named) > 1:
        raise ConfigError(f"pass only one of panel, questions or world; got {' and '.join(named)}")
    if questions is not None:
        engine = _engine_of(corpus, server)
        rows = file_rows(questions, engine.digest, file_format)
        return Library(RowTasks("wikisearch", rows, _builder(engine.digest)), engine, engine.digest, _reader_of(engine))
    if corpus is not None or server is not None:
        raise ConfigError("corpus and retriever require questions; the embedded worlds have their own encyclopedia")
    if world is not None:
        return _from_world(world)
    listed = parse_panel_spec("wikisearch", panel if panel is not None else DEFAULT_PANEL)
    seed, articles = listed[0].locator["world"]
    return _embedded(listed, load_encyclopedia(seed, articles))


@lru_cache(maxsize=4)
def _slice_rows(panel: str, path: Path) -> tuple[PanelRow, ...]:
    rows = parse_panel_spec("wikisearch", panel)
    by_task = find_questions(rows, path)
    return tuple(replace(row, locator=by_task[row.task_id].to_json()) for row in rows)


def _open_slices(panel: str, questions: str | None, engine: Retriever, file_format: str) -> Library:
    """Open questions of published data sets, which have the same ids over every corpus."""
    if questions is None:
        raise ConfigError(
            f"panel {panel!r} lists published questions without their texts; pass their file or folder with questions=PATH"
        )
    if file_format != "auto":
        raise ConfigError("a panel of published questions has a fixed format; leave out file_format")
    listed = _slice_rows(panel, checked_path("questions", questions))
    return Library(RowTasks("wikisearch", listed, _builder(engine.digest)), engine, engine.digest, _reader_of(engine))


def _engine_of(corpus: str | None, server: Any) -> Retriever:
    if (corpus is None) == (server is None):
        raise ConfigError("questions from a file need a corpus or a retriever, and only one of them")
    return open_corpus(corpus) if corpus is not None else _engine(server)


def _engine(options: Any) -> Retriever:
    """A search server (``url``) or an engine in this process (``index``, ``corpus``)."""
    if not isinstance(options, Mapping):
        raise ConfigError(
            f"retriever must be a mapping such as {{'url': …}} or {{'index': …}}, got {short_repr(options)}"
        )
    maker: Callable[..., Retriever] = HttpRetriever if "url" in options else open_engine
    parameters = signature(maker).parameters
    if unknown := sorted(set(options) - set(parameters)):
        raise unknown_name_error("option of a retriever", unknown[0], parameters)
    if maker is open_engine and not all(isinstance(value, str | int) for value in options.values()):
        raise ConfigError(f"the options of an engine are texts and numbers, got {short_repr(options, 120)}")
    retriever: Retriever = maker(**options)
    return retriever


def _from_world(options: Mapping[str, int]) -> Library:
    if not isinstance(options, Mapping):
        raise ConfigError(f"world must be a mapping such as {{'articles': 1000}}, got {short_repr(options)}")
    defaults = {"articles": DEFAULT_ARTICLES, "questions": DEFAULT_QUESTIONS, "seed": DEFAULT_SEED}
    if unknown := set(options) - set(defaults):
        raise ConfigError(f"a world has the options {', '.join(defaults)}; got {', '.join(sorted(map(str, unknown)))}")
    chosen = {**defaults, **options}
    if not all(type(value) is int and 0 <= value < SEED_LIMIT for value in chosen.values()) or not chosen["questions"]:
        raise ConfigError(
            f"the options of a world are integers from 0 to 2**64 - 1, questions at least 1; got {short_repr(dict(options), 100)}"
        )
    rows = world_rows(chosen["seed"], chosen["articles"], chosen["questions"])
    return _embedded(rows, load_encyclopedia(chosen["seed"], chosen["articles"]))


def _embedded(rows: Sequence[PanelRow], encyclopedia: Encyclopedia) -> Library:
    digest = encyclopedia.retriever.digest
    return Library(
        RowTasks("wikisearch", rows, _builder(digest, encyclopedia)),
        encyclopedia.retriever,
        digest,
        _world_reader(encyclopedia),
    )


def _reader_of(engine: Retriever) -> Reader | None:
    return _title_reader(engine) if isinstance(engine, LocalRetriever) else None
