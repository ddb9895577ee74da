"""The tasks that ``bench_retrieval.py`` measures in separate processes: building an index, searching it."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.documents import read_passages
from creditflow.envs.wikisearch.retrieval.opening import open_engine
from creditflow.envs.wikisearch.retrieval.store import write_store

DEPTH = 10


def resident(field: str) -> float:
    """A memory statistic of this process in MiB."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split(f"{field}:")[1].split()[0]) / 1024


class PrivateMemory(threading.Thread):
    """Samples the anonymous memory of this process; memory of mapped files is left out, as the system can free it."""

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


def build(engine: str, folder: str, passages: str) -> dict[str, Any]:
    """Build an index in this process."""
    watch, before, cpu = PrivateMemory(), time.perf_counter(), time.process_time()
    write_store(folder, read_passages(passages), engine)
    private = watch.stop()
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    sizes = {file.name: file.stat().st_size for file in Path(folder).iterdir()}
    corpus = sum(size for name, size in sizes.items() if name.startswith(("passages", "by_", "header")))
    return {
        "build_seconds": time.perf_counter() - before,
        "build_cpu_seconds": time.process_time() - cpu + child.ru_utime + child.ru_stime,
        "build_peak_mib": max(resident("VmHWM"), child.ru_maxrss / 1024),
        "build_peak_private_mib": private,
        "passages_mib": corpus / 2**20,
        "index_mib": (sum(sizes.values()) - corpus) / 2**20,
    }


def search(folder: str, questions: Sequence[Question], results: str) -> dict[str, Any]:
    """Open the index and search one question at a time in this process; the ids found are written to a file."""
    blank = resident("VmRSS")
    before = time.perf_counter()
    engine = open_engine(index=folder)
    opened = time.perf_counter() - before
    for row in questions[:50]:
        engine.search([row.text], DEPTH)  # warm-up: Java compiles, and files are read into memory
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
