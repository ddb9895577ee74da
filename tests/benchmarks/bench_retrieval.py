"""The retrieval engines side by side, and what tantivy costs as the corpus grows.

    python tests/benchmarks/bench_retrieval.py [--passages FILE --questions FILE …] [--engines bm25 tantivy lucene]
        [--grow 62500 250000 1000000] [--out tests/evidence/retrieval.json]

Without files the fictional encyclopedia is searched with its own questions. An engine that is not installed is left out,
which is said; all three: ``pip install 'creditflow[tantivy,lucene]'``, ``pip install --no-deps pyserini==0.25.0``, and Java.
Every engine builds and searches in processes of its own, one after the other, so that memory is theirs alone. R@k is the mean share of a question's golden passages among the best k. Grown corpora are made of
the passages' own text: each passage is a title and runs of 12 to 24 words from random places, about 100 words; so words are
as frequent as in real text, the vocabulary does not grow with the corpus, and equal scores are rare. Milliseconds and
seconds are as the clock saw them, beside whatever else ran; the CPU's are given too. The estimate for
21,015,324 passages fits a line through seconds and bytes, a power of the size through milliseconds, and for a build's memory adds tantivy's
heap to what the passages' bookkeeping takes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.corpus import read_passages
from creditflow.envs.wikisearch.retrieval.disk_corpus import PassageWriter
from creditflow.envs.wikisearch.retrieval.engines.java import find_jar, find_java
from creditflow.envs.wikisearch.retrieval.engines.tantivy_index import HEAP
from creditflow.envs.wikisearch.retrieval.opening import open_engine
from creditflow.envs.wikisearch.retrieval.store import write_store
from creditflow.envs.wikisearch.world.build import build_wiki
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.commands.arguments.parser import CommandParser

WIKI_18 = 21_015_324
DEPTH = 10


def questions_of(paths: Sequence[str]) -> list[Question]:
    """Questions of the files that have golden passages."""
    return [question for path in paths for question in read_questions(path) if question.supporting]


def words_of(path: str) -> NDArray[np.object_]:
    """All words of the passages in a file, in order."""
    return np.array([word for passage in read_passages(path) for word in passage.text.split()], object)


def grown(words: NDArray[np.object_], count: int, seed: int = 0) -> Iterator[Passage]:
    """``count`` passages made of runs of these words."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        lengths = rng.integers(12, 25, 5)
        starts = rng.integers(0, len(words) - 25, 6)
        runs = [words[start : start + length] for start, length in zip(starts[1:], lengths, strict=True)]
        title = " ".join(words[starts[0] : starts[0] + 2])
        yield Passage(str(number), title, " ".join(word for run in runs for word in run), f"{title} {number // 4}")


def resident(field: str) -> float:
    """A memory figure of this process in MiB."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split(f"{field}:")[1].split()[0]) / 1024


class PrivateMemory(threading.Thread):
    """Watches the memory of this process that is not a file's: what it needs, where mapped files only use what is free."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._done = 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._done.wait(0.05):
            self.peak = max(self.peak, resident("RssAnon"))

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self.peak


def build(engine: str, folder: str, passages: str, count: int) -> dict[str, Any]:
    """Index, in this process."""
    extra = {}
    if count:
        words, sample, start = words_of(passages), 20_000, time.perf_counter()
        for _ in grown(words, sample):
            pass
        extra["seconds_of_making_passages"] = (time.perf_counter() - start) * count / sample
        extra["rss_before_build_mib"] = resident("VmRSS")
    stream = grown(words, count) if count else read_passages(passages)
    watch, before, cpu = PrivateMemory(), time.perf_counter(), time.process_time()
    write_store(folder, stream, engine)
    private = watch.stop()
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    sizes = {file.name: file.stat().st_size for file in Path(folder).iterdir()}
    corpus = sum(size for name, size in sizes.items() if name.startswith(("passages", "by_", "header")))
    return extra | {
        "build_seconds": time.perf_counter() - before,
        "build_cpu_seconds": time.process_time() - cpu + child.ru_utime + child.ru_stime,
        "build_peak_mib": max(resident("VmHWM"), child.ru_maxrss / 1024),
        "build_peak_private_mib": private,
        "passages_mib": corpus / 2**20,
        "index_mib": (sum(sizes.values()) - corpus) / 2**20,
    }


def bookkeeping(folder: str, count: int) -> dict[str, Any]:
    """What the passages' side of a build keeps in memory, with passages of no words; the engine's side is not in it."""
    Path(folder).mkdir()
    watch, writer = PrivateMemory(), PassageWriter(Path(folder))
    for number in range(count):
        writer.add(Passage(str(number), str(number), "", str(number)))
    writer.finish()
    return {"passages": count, "peak_private_mib": watch.stop()}


def search(folder: str, questions: Sequence[Question], results: str) -> dict[str, Any]:
    """Open and search one question at a time, in this process; the ids found go to a file."""
    blank = resident("VmRSS")
    before = time.perf_counter()
    engine = open_engine(index=folder)
    opened = time.perf_counter() - before
    for row in questions[:50]:
        engine.search([row.text], DEPTH)  # Java compiles, files come into memory
    took, found, cpu = [], [], time.process_time()
    for row in questions:
        start = time.perf_counter()
        hits = engine.search([row.text], DEPTH)[0]
        took.append((time.perf_counter() - start) * 1000)
        found.append([hit.passage.id for hit in hits])
    cpu = time.process_time() - cpu
    Path(results).write_text(json.dumps(found), encoding="ascii")
    private = resident("RssAnon")
    return {
        "passages": len(engine.corpus),
        "open_seconds": opened,
        "cpu_ms": cpu * 1000 / len(questions),
        "mean_ms": float(np.mean(took)),
        "p50_ms": float(np.percentile(took, 50)),
        "p95_ms": float(np.percentile(took, 95)),
        "rss_mib": resident("VmRSS"),
        "rss_private_mib": private,
        "rss_before_mib": blank,
    }


def recall(found: Sequence[Sequence[str]], questions: Sequence[Question], k: int) -> float:
    """Mean share of golden passages among the best k."""
    shares = [len(set(f[:k]) & set(q.supporting)) / len(q.supporting) for f, q in zip(found, questions, strict=True)]
    return float(np.mean(shares))


def part_of(args: argparse.Namespace, part: str, **task: Any) -> dict[str, Any]:
    """One task in a process of its own; what it measured."""
    with tempfile.TemporaryDirectory(prefix="retrieval.") as scratch:
        words = json.dumps({"folder": f"{scratch}/index", **task, "part": part})
        command = [
            sys.executable,
            __file__,
            "--passages",
            args.passages,
            "--questions",
            *args.questions,
            "--task",
            words,
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measured(engine: str, args: argparse.Namespace, count: int = 0) -> tuple[dict[str, Any], list[list[str]]]:
    """Build and search in two processes."""
    with tempfile.TemporaryDirectory(prefix="retrieval.") as scratch:
        where = {"folder": f"{scratch}/index", "results": f"{scratch}/found.json"}
        figures: dict[str, Any] = {"engine": engine}
        for part in ("build", "search"):
            figures |= part_of(args, part, engine=engine, count=count, **where)
        found: list[list[str]] = json.loads(Path(where["results"]).read_text(encoding="ascii"))
    print("  ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{v}" for k, v in figures.items()), flush=True)
    return figures, found


def installed(engine: str) -> bool:
    """Whether an engine can run here; says why not."""
    if engine == "lucene":
        try:
            find_java(find_jar())
        except MissingExtraError as error:
            print(f"lucene is left out: {error}")
            return False
    needed = {"tantivy": "tantivy", "lucene": "jnius_config"}.get(engine)
    if needed is not None and find_spec(needed) is None:
        print(f"{engine} is left out: install creditflow[{engine}]")
        return False
    return True


def compare(args: argparse.Namespace, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """All engines on the passages themselves."""
    runs = [measured(engine, args) for engine in args.engines if installed(engine)]
    peers = {figures["engine"]: found for figures, found in runs}
    for figures, found in runs:
        figures |= {"recall_at_3": recall(found, questions, 3), "recall_at_10": recall(found, questions, 10)}
        if reference := peers.get("lucene"):
            pairs = list(zip(found, reference, strict=True))
            figures["overlap_at_10_with_lucene"] = float(
                np.mean([len(set(a) & set(b)) / max(len(b), 1) for a, b in pairs])
            )
            figures["same_top_1_as_lucene"] = float(np.mean([a[:1] == b[:1] for a, b in pairs]))
    return [figures for figures, _ in runs]


def estimate(rows: Sequence[dict[str, Any]], kept: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the fits say about the passages of wiki-18.

    A build's memory is no line: tantivy's writer fills its heap once, the passages' bookkeeping grows on.
    """
    sizes = np.array([row["passages"] for row in rows], float)
    slope, start = np.polyfit([row["passages"] for row in kept], [row["peak_private_mib"] for row in kept], 1)
    said: dict[str, Any] = {"passages": WIKI_18, "build_private_mib": float(start + slope * WIKI_18 + HEAP / 2**20)}
    for name in ("build_seconds", "build_cpu_seconds", "passages_mib", "index_mib"):
        slope, start = np.polyfit(sizes, [row[name] for row in rows], 1)
        said[name] = float(start + slope * WIKI_18)
    for name in ("cpu_ms", "mean_ms", "p95_ms"):
        power, start = np.polyfit(np.log(sizes), np.log([row[name] for row in rows]), 1)
        said[name], said[f"{name}_grows_with_size_to_the"] = (
            float(np.exp(start + power * np.log(WIKI_18))),
            float(power),
        )
    return said


def versions() -> dict[str, str]:
    """Of what was measured."""
    found = {}
    for name in ("tantivy", "pyjnius", "pyserini"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    try:
        jar = find_jar()
        found |= {"jar": jar.name, "java": str(find_java(jar).version)}
    except MissingExtraError as error:
        found["java"] = str(error)[:80]
    return found


def rounded(value: Any) -> Any:
    """Numbers as they are printed: four digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Run everything, or the one task of a child process."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--passages", help="JSON lines of passages (.gz or plain)")
    parser.add_argument("--questions", nargs="+", help="question files with golden passages")
    parser.add_argument("--engines", nargs="*", default=["bm25", "tantivy", "lucene"])
    parser.add_argument("--grow", nargs="*", type=int, default=[], help="sizes of corpora for tantivy")
    parser.add_argument("--out", help="JSON file of all figures")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if bool(args.passages) != bool(args.questions):
        parser.error("--passages and --questions go together")
    if args.passages:
        run(args)
        return
    with tempfile.TemporaryDirectory(prefix="retrieval.") as made:
        build_wiki(f"{made}/wiki", articles=DEFAULT_ARTICLES, questions=200)
        args.passages = f"{made}/wiki/passages.jsonl.gz"
        args.questions = [str(path) for path in sorted(Path(made, "wiki").glob("*.jsonl")) if path.stat().st_size]
        run(args)


def run(args: argparse.Namespace) -> None:
    """Measure what was asked for."""
    questions = questions_of(args.questions)
    if args.task:
        task = json.loads(args.task)
        if task["part"] == "build":
            done = build(task["engine"], task["folder"], args.passages, task["count"])
        elif task["part"] == "search":
            done = search(task["folder"], questions, task["results"])
        else:
            done = bookkeeping(task["folder"], task["count"])
        print(json.dumps(done))
        return
    load = os.getloadavg()[0]
    report = {
        **provenance([], 0),
        "command": "python " + " ".join(["tests/benchmarks/bench_retrieval.py", *sys.argv[1:]]),
        "versions": versions(),
        "load_at_start": load,
        "questions": len(questions),
        "engines": compare(args, questions),
        "grown": [measured("tantivy", args, count)[0] for count in args.grow],
    }
    if len(args.grow) >= 3:
        report["bookkeeping"] = [part_of(args, "bookkeeping", count=count) for count in (500_000, 1_000_000, 2_000_000)]
        report["estimate_of_wiki_18"] = estimate(report["grown"], report["bookkeeping"])
    text = json.dumps(rounded(report), indent=1) + "\n"
    if args.out:
        with atomic_writer(args.out, encoding="ascii") as out:
            out.write(text)
    print(text)


if __name__ == "__main__":
    main()
