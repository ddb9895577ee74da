"""The built-in BM25 beside Lucene: recall of golden passages, agreement of the ten best, CPU seconds.

    python tests/benchmarks/bench_retrieval.py [--toy] [--passages FILE --questions FILE …]

Without files the fictional encyclopedia is searched with its own questions. Recall at k is the mean fraction of a question's golden
passages among the best k.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.ratios import leave_out, parser_of, print_ratio

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import read_passages
from creditflow.envs.wikisearch.retrieval.engines.java import find_jar, find_java
from creditflow.envs.wikisearch.retrieval.store import open_engine, write_store
from creditflow.envs.wikisearch.world.build import build_wiki
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES

DEPTH = 10


def searched(engine: str, passages: str, questions: Sequence[Question]) -> tuple[list[list[str]], float, float]:
    """Ids of the ten best passages of every question, and the CPU seconds of the build and of all searches."""
    with tempfile.TemporaryDirectory(prefix="retrieval.") as folder:
        began = time.process_time()
        write_store(f"{folder}/index", read_passages(passages), engine)
        built = time.process_time() - began
        opened = open_engine(index=f"{folder}/index")
        opened.search(
            [question.text for question in questions[:50]], DEPTH
        )  # Java compiles, files are read into memory
        began = time.process_time()
        hits = [opened.search([question.text], DEPTH)[0] for question in questions]
        return [[hit.passage.id for hit in found] for found in hits], built, time.process_time() - began


def recall(found: Sequence[Sequence[str]], questions: Sequence[Question], k: int) -> float:
    """Mean fraction of golden passages among the best k."""
    fractions = [len(set(f[:k]) & set(q.supporting)) / len(q.supporting) for f, q in zip(found, questions, strict=True)]
    return float(np.mean(fractions))


def lucene_is_missing() -> str:
    """Why Lucene cannot run here; "" if it can."""
    try:
        find_jar(), find_java()
    except MissingExtraError as error:
        return " ".join(str(error).split())
    return "" if find_spec("jnius_config") else "the extra lucene is not installed"


def compare(passages: str, questions: Sequence[Question]) -> None:
    """Search with both engines and print what they find."""
    ours, built, took = searched("bm25", passages, questions)
    figures = {"questions": len(questions)} | {f"bm25 recall at {k}": recall(ours, questions, k) for k in (3, DEPTH)}
    if reason := lucene_is_missing():
        leave_out("lucene", reason)
    else:
        theirs, their_build, their_search = searched("lucene", passages, questions)
        pairs = list(zip(ours, theirs, strict=True))
        figures |= {f"lucene recall at {k}": recall(theirs, questions, k) for k in (3, DEPTH)}
        figures["overlap of the ten best"] = float(np.mean([len({*a} & {*b}) / max(len(b), 1) for a, b in pairs]))
        figures["same best"] = float(np.mean([a[:1] == b[:1] for a, b in pairs]))
        print_ratio("BM25, searches", "Lucene through pyserini", their_search / took)
        print_ratio("BM25, build", "Lucene through pyserini", their_build / built)
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}, indent=1))


def main() -> None:
    """Run the benchmark."""
    parser = parser_of(__doc__)
    parser.add_argument("--passages", help="JSON lines of passages (.gz or plain)")
    parser.add_argument("--questions", nargs="+", help="question files with golden passages")
    args = parser.parse_args()
    if bool(args.passages) != bool(args.questions):
        parser.error("--passages and --questions go together")
    with tempfile.TemporaryDirectory(prefix="retrieval.") as folder:
        passages, files = args.passages, args.questions
        if not passages:
            build_wiki(
                f"{folder}/wiki", articles=200 if args.toy else DEFAULT_ARTICLES, questions=10 if args.toy else 200
            )
            passages = f"{folder}/wiki/passages.jsonl.gz"
            files = sorted(str(path) for path in Path(folder, "wiki").glob("*.jsonl") if path.stat().st_size)
        compare(passages, [question for path in files for question in read_questions(path) if question.supporting])


if __name__ == "__main__":
    main()
