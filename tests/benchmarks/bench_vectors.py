"""Vectors searched exactly and approximately, and exactly by faiss over the same float16 vectors in memory.

    python tests/benchmarks/bench_vectors.py [--toy] [--sizes 62500 250000] [--codes pq96]

One thread, 64 queries in a call, ten rows for each, 768 dimensions; every task runs in a process of its own, so that memory is
measured separately. Vectors are made (``vector_tasks.parts_of``): clustered and of low rank plus noise. Recall is against
float64 scores of the float32 vectors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.bench_retrieval import rounded
from benchmarks.ratios import leave_out, parser_of, print_ratio
from benchmarks.tasks.vector_tasks import exact, lists


def part_of(*words: str) -> dict[str, Any]:
    """The measurements of one task, run in its own process."""
    with tempfile.TemporaryDirectory(prefix="vectors.") as scratch:
        command = [sys.executable, __file__, "--task", json.dumps([scratch, *words])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    """Run the benchmark, or the one task of a child process."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[31_250, 62_500], help="numbers of vectors")
    parser.add_argument("--codes", default="pq96", help="codes of the approximate index (default pq96)")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        scratch, count, *codes = json.loads(args.task)
        done = lists(scratch, int(count), *codes) if codes else exact(scratch, int(count))
        print(json.dumps(rounded(done)))
        return 0
    if not find_spec("faiss"):
        leave_out("vector search", "faiss is not installed; .ci/venv bench dev installs it")
        return 0
    for count in [2_000] if args.toy else args.sizes:
        figures = part_of(str(count))
        print_ratio(
            f"exact search of {count:,} float16 vectors on disk", "faiss in memory", 1 / figures["ratio_to_peer"]
        )
        approximate = part_of(str(count), args.codes)
        probed = next(one for one in approximate["probed"] if one["probes"] >= 16)
        ratio = figures["float16"]["batch_cpu_seconds"] / probed["batch_cpu_seconds"]
        recall = probed["recall_at_10"]
        print_ratio(
            f"{probed['probes']} lists of {args.codes}, recall {recall:.2f}, {count:,} vectors", "exact search", ratio
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
