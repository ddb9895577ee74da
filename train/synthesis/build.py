"""Synthesise questions over a corpus, candidate by candidate; the files depend on the settings and the corpus alone.

Every candidate is a pure function of the graph, the seed and its number. Results are used in the order of the numbers,
whatever the number of requests to a model at a time. Every candidate that became a question or had a reason not to is
appended to FILE.partial as one line, from which an interrupted synthesis is resumed: replies of a model are not asked for again.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, ServiceError
from creditflow.envs.files.appended import read_appended
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph, Row, build_graph
from creditflow.envs.wikisearch.synthesis.make import Made, Writer, make_question
from creditflow.envs.wikisearch.synthesis.queries import links_of
from creditflow.envs.wikisearch.synthesis.walks import Candidate, candidate, pivots_of
from creditflow.train.progress import note, progress
from creditflow.train.run.identity import require_same
from creditflow.train.run.interrupted import partial_of
from creditflow.train.synthesis.settings import FORMAT, SynthesisSettings
from creditflow.train.synthesis.yields import Yield

__all__ = ["graph_of", "provenance_of", "synthesize"]

BEGINNING: Final = f'{{"format":"{FORMAT}",'  # of the provenance
MAX_FAILURES: Final = 3  # requests in a row that a server may fail; then it counts as down
IN_FLIGHT: Final = 2  # candidates per request at a time that are begun but not yet written


def provenance_of(out: Path) -> Path:
    """The file beside the questions: one line for every candidate, with its reason."""
    stem, dot, rest = out.name.partition(".")
    return out.with_name(f"{stem}.provenance{dot}{rest}")


def graph_of(retriever: LocalRetriever, settings: SynthesisSettings) -> CorpusGraph:
    """The graph of a corpus, or of a range of it if it has more than ``max_passages``."""
    corpus, most = retriever.corpus, settings.max_passages
    first = 0
    if len(corpus) > most:
        first = int(np.random.default_rng([settings.seed, len(corpus)]).integers(len(corpus) - most + 1))
    count = min(len(corpus), most)

    def rows() -> Iterator[Row]:
        for number in progress(range(first, first + count), "passages", count):
            passage = corpus.passage(number)
            yield Row(number, passage.title, passage.page, passage.text)

    return build_graph(rows, first)


def synthesize(
    retriever: LocalRetriever,
    settings: SynthesisSettings,
    out: Path,
    *,
    writer: Writer | None = None,
    workers: int = 1,
    resume: bool = False,
) -> tuple[Yield, CorpusGraph | None]:
    """Write questions and their provenance.

    Args:
        retriever: the corpus and its search engine.
        settings: settings of the synthesis.
        out: file to write, .jsonl or .jsonl.gz; the provenance is written beside it.
        writer: a language model (see ``make_question``); None for templates.
        workers: requests to the model at a time; the files do not depend on it.
        resume: continue an interrupted synthesis, or leave a finished one unchanged.

    Returns:
        what became of the candidates, and the graph (None if there was nothing left to do).

    Raises:
        ConfigError: there is an interrupted synthesis, and not ``resume``.
        OtherRunError: ``resume``, but it has other settings or another corpus.
        DataError: the corpus gave no question; or ``resume``, and the files are not those of a synthesis.
        ServiceError: the model's server cannot be reached.
    """
    partial, provenance = partial_of(out), provenance_of(out)
    identity, outcome = settings.identity(retriever.digest), Yield(settings)
    if partial.exists() and not resume:
        raise ConfigError(f"{partial} is left from an interrupted synthesis: continue it with --resume, or use --force")
    if resume and not partial.exists() and (out.exists() or provenance.exists()):
        if not (out.exists() and provenance.exists()):
            raise DataError(
                f"{out} and {provenance}: one is missing, so the synthesis is not complete; start over with --force"
            )
        _read(read_json_lines(provenance), provenance, identity, outcome)
        outcome.finish()
        return outcome, None
    out.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="ascii") as stream:
        if not _read(read_appended(partial, BEGINNING, "an interrupted synthesis"), partial, identity, outcome):
            stream.write(_line({"format": FORMAT, "settings": identity}))
            stream.flush()
        graph = graph_of(retriever, settings)
        note(f"graph: {len(graph.nodes)} names, {len(graph.statements)} statements")
        with closing(_results(graph, retriever, outcome, writer, workers)) as results:
            for _ in progress(_new(graph, results, outcome, stream), "questions", settings.limit):
                pass
    outcome.finish()
    if not outcome.questions:
        raise DataError(_nothing(outcome, graph))
    with atomic_writer(provenance) as finished:
        finished.write(_line({"format": FORMAT, "settings": identity}))
        finished.writelines(_line(line) for line in outcome.lines)
    with atomic_writer(out) as finished:
        finished.writelines(_line(question.to_json()) for question in outcome.questions)
    partial.unlink()
    return outcome, graph


def _nothing(outcome: Yield, graph: CorpusGraph) -> str:
    reasons = Counter[str]()
    for (_, reason), count in outcome.reasons.items():
        reasons[reason] += count
    rejections = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    return (
        f"none of {outcome.candidates} candidates became a question ({rejections}); the corpus has {len(graph.statements)} statements that "
        "are understood: more passages, more --attempts or --recipe walk may help"
    )


def _read(lines: Iterator[tuple[str, Any]], path: Path, identity: dict[str, Any], outcome: Yield) -> bool:
    """Count the candidates of an interrupted or finished synthesis; returns whether its first line was written."""
    where, first = next(lines, ("", None))
    if first is None:
        return False
    if not isinstance(first, dict) or first.get("format") != FORMAT or not isinstance(first.get("settings"), dict):
        raise DataError(f"{where}: not the beginning of a synthesis; start over with --force")
    require_same(first["settings"], json.loads(json.dumps(identity)), str(path))
    for where, line in lines:
        try:
            outcome.add(line)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where}: not a candidate of a synthesis ({error}); start over with --force") from error
    return True


def _new(
    graph: CorpusGraph, results: Iterator[tuple[Candidate, Made | ServiceError]], outcome: Yield, stream: IO[str]
) -> Iterator[Question]:
    """Count the results of the candidates that are left, write each as one line, and yield the questions."""
    if outcome.is_complete():
        return
    failed: list[ServiceError] = []
    waiting: list[dict[str, Any]] = []  # since a failure: written once a later reply shows that the server is up
    for chosen, attempt in results:
        if isinstance(attempt, ServiceError):
            failed.append(attempt)
            if len(failed) == MAX_FAILURES:
                raise attempt
            waiting.append(_record(graph, chosen, Made(None, "no reply", {})))
            continue
        if failed and not attempt.asked:
            waiting.append(_record(graph, chosen, attempt))
            continue
        failed.clear()
        if attempt.question is not None and (reason := outcome.repeats(attempt.question)):
            attempt = Made(None, reason, attempt.facts)
        for line in (*waiting, _record(graph, chosen, attempt)):
            outcome.add(line)
            stream.write(_line(line))
        stream.flush()
        waiting.clear()
        if attempt.question is not None:
            yield attempt.question
        if outcome.is_complete():
            return
    if failed:
        raise failed[-1]


def _results(
    graph: CorpusGraph, retriever: LocalRetriever, outcome: Yield, writer: Writer | None, workers: int
) -> Generator[tuple[Candidate, Made | ServiceError], None, None]:
    """The candidates from the next one on that are no dead ends, and what became of them, in order."""
    settings, pivots = outcome.settings, pivots_of(graph)

    def try_candidate(chosen: Candidate) -> Made | ServiceError:
        try:
            return make_question(graph, retriever, chosen, k=settings.top_k, writer=writer)
        except ServiceError as error:
            return error

    def walks() -> Iterator[Candidate]:
        for number in range(outcome.candidates, settings.limit * settings.attempts):
            chosen = candidate(graph, pivots, number, settings.seed, settings.recipes, settings.hops)
            if chosen.root is not None:
                yield chosen

    if writer is None or workers == 1:
        yield from ((chosen, try_candidate(chosen)) for chosen in walks())
        return
    requested = deque[tuple[Candidate, Future[Made | ServiceError]]]()
    pool = ThreadPoolExecutor(workers)
    try:
        for chosen in walks():
            requested.append((chosen, pool.submit(try_candidate, chosen)))
            if len(requested) == IN_FLIGHT * workers:
                first, future = requested.popleft()
                yield first, future.result()
        while requested:
            first, future = requested.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _record(graph: CorpusGraph, chosen: Candidate, attempt: Made) -> dict[str, Any]:
    """A line of the provenance."""
    facts = [
        [
            graph.nodes[link.other.node].name,
            link.relation,
            "forward" if link.forward else "inverse",
            graph.nodes[term.node].name,
        ]
        for term, link in (links_of(chosen.root) if chosen.root is not None else ())
    ]
    return {
        "candidate": chosen.number, "recipe": chosen.recipe, "hops": chosen.hops, "reason": attempt.reason, "links": facts,
        "checks": attempt.facts, "question": None if attempt.question is None else attempt.question.to_json(),
    }  # fmt: skip


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"
