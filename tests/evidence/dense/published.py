"""Writes ``tests/evidence/dense/published.json``: a published encoder beside BM25 on questions with known golden passages.

    PYTHONPATH=src OMP_NUM_THREADS=1 python tests/evidence/dense/published.py --encoder FOLDER
        [--passages FILE --questions FILE … --out FILE]

``FOLDER`` is any encoder folder; the stored figures are of sentence-transformers/all-MiniLM-L6-v2. Passages are encoded once, by a
build of the engine ``dense``; the approximate index is made of the same vectors and ``hybrid`` fuses the same two rankings as an index
folder of its own would. TF-IDF cosines are the control of fusion: a second ranking that needs no training.

Queries are whole questions, by data set and all together, and where a data set has golden sub-questions these too, with the answers of earlier steps filled
in. R@k is the mean fraction of golden passages among the best k, "all@k" the fraction of questions with all of them there (equal for a sub-question, which has
one). Intervals are 95 %, over questions: sub-questions of one question are averaged first. Differences from BM25 are paired; p-values
are adjusted over the engines, query sets and measures of the whole table (Holm). Seconds are of the processor, one thread, the least of some rounds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.text.encoding.encoder import TextEncoder
from creditflow.envs.text.vectors.approximate import ApproximateSettings, build_approximate, open_approximate
from creditflow.envs.text.vectors.shards import open_shards
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.corpus import MemoryCorpus, read_passages
from creditflow.envs.wikisearch.retrieval.engines.base import Ranking, RowIndex
from creditflow.envs.wikisearch.retrieval.engines.dense_index import DEFAULT_PROBES, DenseIndex
from creditflow.envs.wikisearch.retrieval.engines.dense_options import DenseOptions
from creditflow.envs.wikisearch.retrieval.engines.hybrid_index import HybridIndex
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.store import FORMAT, open_store, write_store
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.statistics import ClusteredMean, clustered_mean, holm

DATA = Path(__file__).resolve().parents[4] / "shared/data/search"
SETS = ("2wiki", "musique", "hotpotqa")
CUTS, BEST, BATCH, ROUNDS, FEW_PROBES, FEW_QUESTIONS = (5, 10), 10, 64, 5, 8, 20
NUMBERS_A_BYTE = 8  # of product quantisation


class Query(NamedTuple):
    """A text, the question that it belongs to, the question's kind, and the golden passages' ids."""

    text: str
    question: str
    kind: str
    golden: frozenset[str]


class Cosines:
    """TF-IDF cosines as a ``RowIndex``: log-counts times log inverse document frequency, rows of unit length; terms as BM25 sees them."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        found = [Counter(analyse(passage.contents.lower())) for passage in passages]
        documents = Counter(term for counts in found for term in counts)
        self._idf = {term: float(np.log(len(found) / count)) for term, count in documents.items()}
        postings: dict[str, list[tuple[int, float]]] = {term: [] for term in documents}
        for row, counts in enumerate(found):
            for term, weight in self._unit(counts).items():
                postings[term].append((row, weight))
        self._rows = {term: np.array([row for row, _ in each], np.int64) for term, each in postings.items()}
        self._weights = {term: np.array([weight for _, weight in each]) for term, each in postings.items()}
        self._size = len(found)

    def _unit(self, counts: Counter[str]) -> dict[str, float]:
        weights = {term: (1 + float(np.log(n))) * self._idf[term] for term, n in counts.items() if term in self._idf}
        length = float(np.sqrt(sum(weight**2 for weight in weights.values()))) or 1.0
        return {term: weight / length for term, weight in weights.items()}

    def __len__(self) -> int:
        return self._size

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query."""
        found = []
        for query in queries:
            scores = np.zeros(self._size)
            for term, weight in self._unit(Counter(analyse(query.lower()))).items():
                scores[self._rows[term]] += weight * self._weights[term]
            best = np.argsort(-scores, kind="stable")[:k]
            found.append((best, scores[best].astype(np.float32)))
        return found


def queries_of(questions: Sequence[Question], ids: frozenset[str]) -> list[Query]:
    """Whole questions with golden passages in the corpus."""
    return [
        Query(one.text, one.id, one.kind, frozenset(one.supporting))
        for one in questions
        if one.supporting and ids.issuperset(one.supporting)
    ]


def filled_in(question: str, answers: Sequence[str]) -> str:
    """A sub-question with the answers of earlier steps in place of "#1", "#2" and so on."""
    return re.sub(r"#(\d+)", lambda match: answers[int(match[1]) - 1], question)


def steps_of(questions: Sequence[Question], ids: frozenset[str]) -> list[Query]:
    """Golden sub-questions, the answers of earlier steps filled in; MuSiQue's "name >> relation" without the sign."""
    found: dict[tuple[str, str], Query] = {}
    for one in questions:
        answers = [step.answer for step in one.steps]
        for step in one.steps:
            text = filled_in(step.question, answers).replace(" >> ", " ")
            if step.passage_id in ids:
                found.setdefault((text, step.passage_id), Query(text, one.id, one.kind, frozenset([step.passage_id])))
    return list(found.values())


def measures(found: Sequence[Sequence[str]], queries: Sequence[Query]) -> dict[str, list[float]]:
    """By measure, its value for each query."""
    values: dict[str, list[float]] = {}
    for k in CUTS:
        hits = [len(query.golden & {*ids[:k]}) for ids, query in zip(found, queries, strict=True)]
        values[f"recall@{k}"] = [hit / len(query.golden) for hit, query in zip(hits, queries, strict=True)]
        values[f"all@{k}"] = [float(hit == len(query.golden)) for hit, query in zip(hits, queries, strict=True)]
    return values


def mean_of(values: Sequence[float], queries: Sequence[Query]) -> ClusteredMean:
    """Mean over questions."""
    return clustered_mean(values, [query.question for query in queries])


def shown(mean: ClusteredMean) -> list[float]:
    """The mean and the ends of its interval."""
    return [round(float(value), 5) for value in (mean.mean, *mean.interval)]


def compared(
    queries: dict[str, list[Query]], found: dict[str, dict[str, list[list[str]]]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """By query set and engine: every measure and its paired difference from BM25's; and R@10 by kind of question."""
    table: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    tested: list[tuple[dict[str, Any], str, float]] = []
    for name, asked in queries.items():
        values = {engine: measures(each[name], asked) for engine, each in found.items()}
        table[name] = {}
        for engine, by_measure in values.items():
            row: dict[str, Any] = {}
            table[name][engine] = row
            for measure, one in by_measure.items():
                row[measure] = shown(mean_of(one, asked))
                if engine == "bm25":
                    continue
                change = mean_of(np.subtract(one, values["bm25"][measure]).tolist(), asked)
                row[f"{measure} - bm25"] = shown(change)
                tested.append((row, f"{measure} - bm25, adjusted p", change.p_value))
        kinds[name] = by_kind(asked, {engine: values[engine]["recall@10"] for engine in ("bm25", "dense", "hybrid")})
    for (row, key, _), p in zip(tested, holm([p for *_, p in tested]), strict=True):
        row[key] = float(f"{p:.3g}")
    return table, kinds


def by_kind(asked: Sequence[Query], values: dict[str, list[float]]) -> dict[str, Any]:
    """BM25's mean for each kind with 20 questions or more, and the others' differences from it."""
    found: dict[str, Any] = {}
    for kind in sorted({query.kind for query in asked}):
        rows = [i for i, query in enumerate(asked) if query.kind == kind]
        part = [asked[i] for i in rows]
        questions = len({query.question for query in part})
        if questions < FEW_QUESTIONS:
            continue
        found[kind] = {"questions": questions}
        for engine, each in values.items():
            less = values["bm25"] if engine != "bm25" else [0.0] * len(asked)
            found[kind][engine] = shown(mean_of([each[i] - less[i] for i in rows], part))
    return found


def seconds_of(work: Callable[[], Any], rounds: int = 1) -> float:
    """Processor seconds, the least of some rounds."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def size_mib(files: Iterator[Path]) -> float:
    """MiB of files."""
    return round(sum(path.stat().st_size for path in files) / 2**20, 2)


def engines_of(scratch: Path, passages: Sequence[Passage], folder: str) -> tuple[dict[str, RowIndex], dict[str, Any]]:
    """Build and open every engine; the figures of their builds."""
    bm25, dense = scratch / "bm25", scratch / "dense"
    options = DenseOptions(encoder=folder)
    build = {"bm25": seconds_of(lambda: write_store(bm25, passages)),
             "dense": seconds_of(lambda: write_store(dense, passages, "dense", dense=options))}  # fmt: skip
    encoder = TextEncoder(folder, options.encoder_settings())
    files = ChecksummedFolder(dense, FORMAT, "")
    facts: dict[str, Any] = files.fact("vectors", dict)
    shards = open_shards(
        files.array, dense, rows=facts["rows"], dimension=encoder.dimension, precision=facts["precision"],
        shard_rows=facts["shard_rows"],
    )  # fmt: skip
    lists, made, codes = scratch / "lists", list[Path](), f"pq{max(1, encoder.dimension // NUMBERS_A_BYTE)}"
    lists.mkdir()
    build["lists"] = seconds_of(lambda: made.extend(build_approximate(shards, ApproximateSettings(codes=codes), lists)))
    lexical, exact = open_store(bm25)[1], open_store(dense, encoder=folder)[1]
    cosines = Cosines(passages)
    near = {probes: open_approximate(made, shards, probes, "") for probes in (DEFAULT_PROBES, FEW_PROBES)}
    approximate = {probes: DenseIndex(encoder, shards, index) for probes, index in near.items()}
    engines: dict[str, RowIndex] = {
        "bm25": lexical, "tf-idf cosine": cosines, "dense": exact,
        "dense, approximate": approximate[DEFAULT_PROBES], f"dense, approximate, {FEW_PROBES} probes": approximate[FEW_PROBES],
        "hybrid": HybridIndex(lexical, exact), "hybrid, approximate": HybridIndex(lexical, approximate[DEFAULT_PROBES]),
        "bm25 fused with tf-idf cosine": HybridIndex(lexical, cosines),
    }  # fmt: skip
    stored = [path for path in dense.iterdir() if path.name.startswith("vectors")]
    figures = {
        "cpu_seconds": build, "passages_per_cpu_second": {name: len(passages) / build[name] for name in ("bm25", "dense")},
        "lists": near[DEFAULT_PROBES].lists, "codes": codes, "probes": DEFAULT_PROBES, "precision": facts["precision"],
        "mib": {"passages": size_mib(bm25.glob("passages*")), "bm25 without passages": size_mib(p for p in bm25.iterdir() if not p.name.startswith("passages")),
                "vectors": size_mib(iter(stored)), "lists": size_mib(iter(made))},
    }  # fmt: skip
    return engines, figures


def about(folder: str) -> dict[str, Any]:
    """What the encoder is: digest of its weights, settings, sizes."""
    settings = DenseOptions(encoder=folder).encoder_settings()
    encoder = TextEncoder(folder, settings)
    weights = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).glob("*.safetensors")}
    return {"sha256": weights, "dimension": encoder.dimension, **settings.to_json(), "max_tokens": encoder.max_tokens}


def main() -> None:
    """Build, search and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True, help="encoder folder")
    parser.add_argument("--passages", default=str(DATA / "passages.jsonl.gz"))
    parser.add_argument("--questions", nargs="+", default=[str(DATA / f"{name}.jsonl.gz") for name in SETS])
    parser.add_argument("--limit", type=int, help="the first passages only, to try it out")
    parser.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    args = parser.parse_args()
    passages = list(read_passages(args.passages))[: args.limit]
    ids, corpus = frozenset(passage.id for passage in passages), MemoryCorpus(passages)
    files = {Path(path).name.partition(".")[0]: read_questions(path) for path in args.questions}
    queries = {name: queries_of(questions, ids) for name, questions in files.items()}
    queries = {name: asked for name, asked in queries.items() if asked}
    queries["all"] = [query for asked in queries.values() for query in asked]
    queries |= {f"{name}, sub-questions": steps for name, each in files.items() if (steps := steps_of(each, ids))}
    with tempfile.TemporaryDirectory(prefix="published.") as scratch:
        engines, build = engines_of(Path(scratch), passages, args.encoder)
        print(json.dumps(build, indent=1), flush=True)
        found = {
            name: {what: [[hit.passage.id for hit in hits] for hits in LocalRetriever(corpus, engine).search([q.text for q in asked], BEST)]
                   for what, asked in queries.items()}
            for name, engine in engines.items()
        }  # fmt: skip
        picked = [queries["all"][i].text for i in np.linspace(0, len(queries["all"]) - 1, BATCH).astype(int)]
        batch = {name: seconds_of(partial(engine.rank, picked, BEST), ROUNDS) for name, engine in engines.items()}
        alone = TextEncoder(args.encoder, DenseOptions(encoder=args.encoder).encoder_settings())
        batch["encoding alone"] = seconds_of(lambda: alone.queries(picked), ROUNDS)
    table, kinds = compared(queries, found)
    same = [
        len({*a} & {*b}) / BEST for a, b in zip(found["dense"]["all"], found["dense, approximate"]["all"], strict=True)
    ]
    report = {
        **provenance([], 0),
        "command": "python tests/evidence/dense/published.py --encoder FOLDER",
        "versions": {name: version(name) for name in ("torch", "transformers", "faiss-cpu")},
        "encoder": about(args.encoder), "passages": len(passages),
        "queries": {name: {"queries": len(each), "questions": len({query.question for query in each}), "golden": float(np.mean([len(q.golden) for q in each]))} for name, each in queries.items()},
        "build": build, "batch_of_64_cpu_seconds": batch,
        "batch_as_a_multiple_of_bm25": {name: value / batch["bm25"] for name, value in batch.items()},
        "approximate_agrees_at_10": float(np.mean(same)), "recall": table, "recall@10_by_kind": kinds,
    }  # fmt: skip
    with atomic_writer(args.out) as out:
        out.write(json.dumps(report, indent=1, allow_nan=False) + "\n")
    print(
        json.dumps({name: {e: row["recall@10"] for e, row in rows.items()} for name, rows in table.items()}, indent=1)
    )


if __name__ == "__main__":
    main()
