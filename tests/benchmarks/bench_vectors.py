"""Vectors searched exactly, and by faiss over the same float16 vectors in memory.

    python tests/benchmarks/bench_vectors.py [--toy] [--sizes 31250 62500]

One thread, 64 queries in a call, ten rows for each, 768 dimensions. Vectors are made: clustered and of low rank plus noise, as
encoders' are.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import leave_out, parser_of, print_ratio

from creditflow.envs.text.vectors.exact import best_rows

DIMENSION, QUERIES, DEPTH, PART = 768, 64, 10, 15_625
Floats = NDArray[np.float32]


def parts_of(count: int) -> Iterator[Floats]:
    """Unit vectors, part by part: around a thousand centres, within a subspace of 64 dimensions, with noise in all 768."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((64, DIMENSION)).astype(np.float32)
    centres = rng.standard_normal((1_000, 64)).astype(np.float32)
    for start in range(0, count, PART):
        rows = min(PART, count - start)
        inner = centres[rng.integers(0, 1_000, rows)] + rng.standard_normal((rows, 64), np.float32)
        vectors = inner @ basis + 2 * rng.standard_normal((rows, DIMENSION), np.float32)
        yield (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def queries_of() -> Floats:
    """Queries of the same kind: rows of the first part, moved by a third of their length."""
    rng, first = np.random.default_rng(1), next(parts_of(PART))
    moved = first[rng.integers(0, PART, QUERIES)]
    moved += rng.standard_normal(moved.shape, np.float32) / np.float32(3 * np.sqrt(DIMENSION))
    unit: Floats = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def written(path: Path, count: int) -> Floats:
    """The vectors in float16, memory-mapped from a new file."""
    with path.open("wb") as out:
        for vectors in parts_of(count):
            vectors.astype("<f2").tofile(out)
    return np.memmap(path, "<f2", "r").reshape(count, DIMENSION)


def timed(search: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the least processor seconds of three calls after one that is not counted."""
    result, times = search(), []
    for _ in range(3):
        began = time.process_time()
        search()
        times.append(time.process_time() - began)
    return result, min(times)


def faiss_seconds(vectors: Floats, queries: Floats) -> float:
    """Processor seconds of faiss's exact search over the same vectors in memory."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexScalarQuantizer(DIMENSION, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    for start in range(0, len(vectors), PART):
        index.add(vectors[start : start + PART].astype(np.float32))
    return timed(partial(index.search, queries, DEPTH))[1]


def main() -> int:
    """Run the benchmark."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[31_250, 62_500], help="numbers of vectors")
    args = parser.parse_args()
    if not find_spec("faiss"):
        leave_out("vector search", "faiss is not installed; .ci/venv bench dev installs it")
        return 0
    queries = queries_of()
    for count in [2_000] if args.toy else args.sizes:
        with tempfile.TemporaryDirectory(prefix="vectors.") as scratch:
            vectors = written(Path(scratch, "vectors"), count)
            seconds = timed(partial(best_rows, queries, vectors, DEPTH))[1]
            peer = faiss_seconds(vectors, queries)
            print_ratio(f"exact search of {count:,} float16 vectors on disk", "faiss in memory", peer / seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
