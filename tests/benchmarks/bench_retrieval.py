"""The retrieval engines compared.

    python tests/benchmarks/bench_retrieval.py [--toy] [--passages FILE --questions FILE …] [--engines bm25 lucene] [--out FILE.json]

Without files the fictional encyclopedia is searched with its own questions. An engine that is not installed is left out
with a message; both: ``pip install -e '.[lucene]'``, ``pip install --no-deps pyserini==0.25.0``, and Java.
Every engine builds and searches in processes of its own, one after the other, so that their memory is measured separately.
R@k is the mean fraction of a question's golden passages among the best k. Milliseconds and seconds are wall-clock time on a machine with other work; CPU
time is given too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.ratios import leave_out, parser_of, print_ratio
from benchmarks.tasks.retrieval_tasks import build, search

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.engines.java import find_jar, find_java
from creditflow.envs.wikisearch.world.build import build_wiki
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES
from creditflow.train.bench.report.provenance import provenance


def questions_of(paths: Sequence[str]) -> list[Question]:
    """Questions of the files that have golden passages."""
    return [question for path in paths for question in read_questions(path) if question.supporting]


def recall(found: Sequence[Sequence[str]], questions: Sequence[Question], k: int) -> float:
    """Mean fraction of golden passages among the best k."""
    fractions = [len(set(f[:k]) & set(q.supporting)) / len(q.supporting) for f, q in zip(found, questions, strict=True)]
    return float(np.mean(fractions))


def part_of(args: argparse.Namespace, part: str, **task: Any) -> dict[str, Any]:
    """The measurements of one task, run in its own process."""
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


def measured(engine: str, args: argparse.Namespace) -> tuple[dict[str, Any], list[list[str]]]:
    """Build and search in two processes; returns the measurements and the ids found."""
    with tempfile.TemporaryDirectory(prefix="retrieval.") as scratch:
        where = {"folder": f"{scratch}/index", "results": f"{scratch}/found.json"}
        figures: dict[str, Any] = {"engine": engine}
        for part in ("build", "search"):
            figures |= part_of(args, part, engine=engine, **where)
        found: list[list[str]] = json.loads(Path(where["results"]).read_text(encoding="ascii"))
    print("  ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{v}" for k, v in figures.items()), flush=True)
    return figures, found


def installed(engine: str) -> bool:
    """Whether an engine is installed; prints why not."""
    if engine == "lucene":
        try:
            find_java(find_jar())
        except MissingExtraError as error:
            leave_out("lucene", " ".join(str(error).split()))
            return False
    if engine == "lucene" and find_spec("jnius_config") is None:
        leave_out(engine, f"the extra {engine} is not installed")
        return False
    return True


def compare(args: argparse.Namespace, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """All engines on the given passages."""
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
    rows = {figures["engine"]: figures for figures, _ in runs}
    if {"bm25", "lucene"} <= rows.keys():
        for what in ("cpu_ms", "build_cpu_seconds"):
            print_ratio(f"BM25, {what}", "Lucene through pyserini", rows["lucene"][what] / rows["bm25"][what])
    return list(rows.values())


def versions() -> dict[str, str]:
    """Versions of the engines."""
    found = {}
    for name in ("pyjnius", "pyserini"):
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
    """The same values with numbers rounded to four digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def deliver(report: dict[str, Any], path: Path | None) -> None:
    """Print a report as JSON with rounded numbers, and write it to a file if one is given."""
    text = json.dumps(rounded(report), indent=1) + "\n"
    if path:
        with atomic_writer(path, encoding="ascii") as out:
            out.write(text)
    print(text)


def main() -> None:
    """Run the benchmark, or the one task of a child process."""
    parser = parser_of(__doc__)
    parser.add_argument("--passages", help="JSON lines of passages (.gz or plain)")
    parser.add_argument("--questions", nargs="+", help="question files with golden passages")
    parser.add_argument("--engines", nargs="*", default=["bm25", "lucene"], help="engines to measure (default all)")
    parser.add_argument("--out", help="JSON file of all figures")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if bool(args.passages) != bool(args.questions):
        parser.error("--passages and --questions go together")
    if args.passages:
        run(args)
        return
    with tempfile.TemporaryDirectory(prefix="retrieval.") as made:
        build_wiki(f"{made}/wiki", articles=200 if args.toy else DEFAULT_ARTICLES, questions=10 if args.toy else 200)
        args.passages = f"{made}/wiki/passages.jsonl.gz"
        args.questions = [str(path) for path in sorted(Path(made, "wiki").glob("*.jsonl")) if path.stat().st_size]
        run(args)


def run(args: argparse.Namespace) -> None:
    """Run one task of a child process, or the whole benchmark."""
    questions = questions_of(args.questions)
    if args.task:
        task = json.loads(args.task)
        if task["part"] == "build":
            done = build(task["engine"], task["folder"], args.passages)
        else:
            done = search(task["folder"], questions, task["results"])
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
    }
    deliver(report, args.out)


if __name__ == "__main__":
    main()
