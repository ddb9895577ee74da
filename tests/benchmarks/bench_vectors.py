"""Vectors searched exactly and approximately as they grow, and the libraries compared.

    python tests/benchmarks/bench_vectors.py exact 62500 250000 1000000 --out FILE.json
    python tests/benchmarks/bench_vectors.py lists 31250 62500 125000 --codes pq96 --out FILE.json
    python tests/benchmarks/bench_vectors.py libraries 31250 --out FILE.json

One thread, 64 queries in a call, ten rows for each, 768 dimensions; every task runs in a process of its own, so that memory is
measured separately. Vectors are made (``vector_tasks.parts_of``): clustered and of low rank plus noise. Recall is against
float64 scores of the float32 vectors. The peer of exact search is faiss's scan of the same float16 vectors in memory.
With three sizes or more, processor seconds and bytes at 21,015,324 vectors are those of the line through them (for a fixed number of
lists probed in √size, as the lists grow in number and length), given with its largest residual.
Needs ``pip install -e '.[dense]'``; libraries also usearch and hnswlib.
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
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.bench_retrieval import deliver, rounded
from benchmarks.tasks.vector_tasks import exact, library, lists

from creditflow.train.arguments.parser import CommandParser
from creditflow.train.bench.report.provenance import provenance

WIKI_18 = 21_015_324  # passages of the Wikipedia of 2018


def part_of(part: str, *words: str) -> dict[str, Any]:
    """The measurements of one task, run in its own process."""
    command = [sys.executable, __file__, part, "--task", json.dumps(words)]
    with tempfile.TemporaryDirectory(prefix="vectors.") as scratch:
        done = subprocess.run([*command, "--scratch", scratch], stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def line(sizes: Sequence[int], values: Sequence[float], power: float = 1.0) -> dict[str, Any]:
    """The least-squares line in a power of the size, its largest residual as a fraction, and its value at wiki-18's size."""
    x = np.array(sizes, float) ** power
    slope, start = np.polyfit(x, np.array(values, float), 1)
    off = float(np.max(np.abs(start + slope * x - values) / np.array(values)))
    return {"power": power, "slope": float(slope), "start": float(start), "largest_residual": off,
            "at_21_015_324": float(start + slope * WIKI_18**power)}  # fmt: skip


def estimates(part: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Lines through what grows with the number of vectors."""
    sizes = [row["vectors"] for row in rows]
    if part == "lists":
        at = [next(probe for probe in row["probed"] if probe["probes"] == 64) for row in rows]
        # 64 of √n lists hold 64 √n codes; building is not extrapolated, as its sample does not grow before 1,024 lists
        searched = line(sizes, [probe["batch_cpu_seconds"] for probe in at], 0.5)
        return {"batch_cpu_seconds_of_64_probes": searched, "mib": line(sizes, [row["mib"] for row in rows])}
    kinds = [name for name in ("float32", "float16", "int8", "peer faiss float16") if all(name in row for row in rows)]
    return {
        name: {
            key: line(sizes, [row[name][key] for row in rows])
            for key in ("batch_cpu_seconds", "mib")
            if key in rows[0][name]
        }
        for name in kinds
    }


def versions() -> dict[str, str]:
    """Versions of the libraries."""
    found = {}
    for name in ("faiss-cpu", "usearch", "hnswlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def measured(path: str) -> list[dict[str, Any]]:
    """The lines that tasks of earlier runs printed, in the order of sizes."""
    rows: list[dict[str, Any]] = [json.loads(text) for text in Path(path).read_text(encoding="ascii").splitlines()]
    return sorted(rows, key=lambda row: int(row["vectors"]))


def run(args: argparse.Namespace) -> dict[str, Any]:
    """All tasks of a part, in order."""
    if args.measured:
        return {"rows": measured(args.measured)}
    sizes = [str(count) for count in args.sizes]
    if args.part == "exact":
        return {"rows": [part_of("exact", count) for count in sizes]}
    if args.part == "lists":
        return {"rows": [part_of("lists", count, codes) for codes in args.codes for count in sizes]}
    graphs = [part_of("libraries", name, count) for count in sizes for name in ("usearch", "hnswlib")]
    return {"rows": [*(part_of("lists", count, codes) for count in sizes for codes in ("pq96", "sq8")), *graphs]}


def main() -> None:
    """Run the benchmark, or the one task of a child process."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("part", choices=("exact", "lists", "libraries"))
    parser.add_argument("sizes", nargs="*", type=int, help="numbers of vectors")
    parser.add_argument("--codes", nargs="*", default=["pq96"], help="lists: codes of the approximate index")
    parser.add_argument(
        "--measured", help="file of the lines that tasks of interrupted runs printed, instead of measuring"
    )
    parser.add_argument("--out", help="JSON file of all figures")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        words = json.loads(args.task)
        if args.part == "exact":
            done = exact(args.scratch, int(words[0]))
        elif args.part == "lists":
            done = lists(args.scratch, int(words[0]), words[1])
        else:
            done = library(words[0], args.scratch, int(words[1]))
        print(json.dumps(rounded(done)))
        return
    command = " ".join(["python tests/benchmarks/bench_vectors.py", *sys.argv[1:]])
    report: dict[str, Any] = {
        **provenance([], 0),
        "command": command,
        "versions": versions(),
        "load_at_start": os.getloadavg()[0],
        **run(args),
    }
    if len(report["rows"]) >= 3 and args.part != "libraries":
        report["lines"] = estimates(args.part, report["rows"])
    deliver(report, args.out)


if __name__ == "__main__":
    main()
