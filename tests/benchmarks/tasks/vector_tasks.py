"""The tasks that ``bench_vectors.py`` measures in separate processes: vectors searched exactly and by lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tasks.retrieval_tasks import PrivateMemory, resident
from numpy.typing import NDArray

from creditflow.envs.text.vectors.approximate import ApproximateSettings, build_approximate, open_approximate
from creditflow.envs.text.vectors.exact import Best, best_rows
from creditflow.envs.text.vectors.shards import PRECISIONS, Shard, encoded_rows, join_parts, open_shards, unfinished

DIMENSION, QUERIES, DEPTH, PART = 768, 64, 10, 15_625
Floats = NDArray[np.float32]


def parts_of(count: int, seed: int = 0) -> Iterator[Floats]:
    """Unit vectors, part by part: around a thousand centres, within a subspace of 64 dimensions, with noise in all 768.

    Encoders' vectors are clustered and of low rank as well; isotropic ones would be harder than any text.
    """
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((64, DIMENSION)).astype(np.float32)
    centres = rng.standard_normal((1_000, 64)).astype(np.float32)
    for start in range(0, count, PART):
        rows = min(PART, count - start)
        inner = centres[rng.integers(0, 1_000, rows)] + rng.standard_normal((rows, 64), np.float32)
        vectors = inner @ basis + 2 * rng.standard_normal((rows, DIMENSION), np.float32)
        yield (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def queries_of(seed: int = 1) -> Floats:
    """Queries of the same kind: rows of the first part, moved by a third of their length."""
    rng, first = np.random.default_rng(seed), next(parts_of(PART))
    moved = first[rng.integers(0, PART, QUERIES)]
    moved += rng.standard_normal(moved.shape, np.float32) / np.float32(3 * np.sqrt(DIMENSION))
    found: Floats = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return found


def write(folder: Path, count: int, precision: str) -> list[Shard]:
    """The vectors as memory-mapped shards in a new folder."""
    folder.mkdir()
    parts = []
    for number, vectors in enumerate(parts_of(count)):
        files = {}
        for kind, data in encoded_rows(vectors, precision).items():
            files[kind] = folder / f"{kind}.{number}.part"
            files[kind].write_bytes(data)
        parts.append(files)
    per_shard = 64
    join_parts(parts, folder, precision, per_shard)
    for files in parts:
        for path in files.values():
            path.unlink()
    return open_shards(
        unfinished(folder), folder, rows=count, dimension=DIMENSION, precision=precision, shard_rows=PART * per_shard
    )


def truth(count: int, queries: Floats) -> list[list[int]]:
    """The best rows by the float32 vectors in float64."""
    scores, rows = np.empty((len(queries), 0)), np.empty((len(queries), 0), np.int64)
    for start, vectors in zip(range(0, count, PART), parts_of(count), strict=True):
        new = queries.astype(np.float64) @ vectors.T.astype(np.float64)
        scores = np.concatenate([scores, new], axis=1)
        rows = np.concatenate([rows, np.tile(np.arange(len(vectors)) + start, (len(queries), 1))], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    found: list[list[int]] = rows.tolist()
    return found


def recall_of(found: list[Best], golden: list[list[int]]) -> float:
    """Mean fraction of the true best rows that were found."""
    return float(np.mean([len({*a.tolist()} & {*b}) / len(b) for (a, _), b in zip(found, golden, strict=True)]))


def timed(search: Callable[[], Any], repeats: int = 3) -> tuple[Any, dict[str, float]]:
    """The result, and the least wall-clock and processor seconds of some repeats after one that is not counted."""
    found, walls, cpus = search(), [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        search()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return found, {"batch_seconds": min(walls), "batch_cpu_seconds": min(cpus)}


def exact(folder: str, count: int) -> dict[str, Any]:
    """Exact search of a batch in each precision, beside faiss over float16 in memory."""
    import faiss

    faiss.omp_set_num_threads(1)
    queries, rows = queries_of(), dict[str, Any]()
    golden = truth(count, queries)
    for precision in PRECISIONS:
        if precision == "float32" and count > 500_000:
            continue  # 3 GB on a disk that others need
        where = Path(folder) / precision
        shards = write(where, count, precision)
        watch = PrivateMemory()
        found, took = timed(partial(best_rows, queries, shards, DEPTH))
        size = sum(file.stat().st_size for file in where.iterdir())
        rows[precision] = {
            **took,
            "recall_at_10": recall_of(found, golden),
            "mib": size / 2**20,
            "private_mib": watch.stop(),
        }
        if precision == "float16":
            rows["peer faiss float16"] = _peer(faiss, shards, queries, golden)
            rows["ratio_to_peer"] = took["batch_cpu_seconds"] / rows["peer faiss float16"]["batch_cpu_seconds"]
        for file in where.iterdir():
            file.unlink()
    return {"vectors": count, **rows}


def _peer(faiss: Any, shards: list[Shard], queries: Floats, golden: list[list[int]]) -> dict[str, Any]:
    index = faiss.IndexScalarQuantizer(DIMENSION, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    for shard in shards:
        for start in range(0, len(shard), PART):
            index.add(shard.decoded(slice(start, start + PART)))
    (scores, rows), took = timed(lambda: index.search(queries, DEPTH))
    found = list(zip(rows, scores, strict=True))
    return {**took, "recall_at_10": recall_of(found, golden), "rss_mib": resident("VmRSS")}


def lists(folder: str, count: int, codes: str) -> dict[str, Any]:
    """An approximate index over float16 shards: its build, and a batch at several numbers of probes."""
    queries, where = queries_of(), Path(folder)
    golden = truth(count, queries)
    shards = write(where / "vectors", count, "float16")
    built = where / "lists"
    built.mkdir()
    watch, wall, cpu = PrivateMemory(), time.perf_counter(), time.process_time()
    files = build_approximate(shards, ApproximateSettings(codes=codes), built)
    build = {"build_seconds": time.perf_counter() - wall, "build_cpu_seconds": time.process_time() - cpu}
    build |= {"build_private_mib": watch.stop(), "mib": sum(file.stat().st_size for file in files) / 2**20}
    probed = []
    for probes in (1, 4, 16, 64, 256):
        index = open_approximate(files, shards, probes, "")
        found, took = timed(partial(index.best_rows, queries, DEPTH))
        probed.append({"probes": index.probes, **took, "recall_at_10": recall_of(found, golden)})
    return {"vectors": count, "codes": codes, "lists": index.lists, **build, "probed": probed}
