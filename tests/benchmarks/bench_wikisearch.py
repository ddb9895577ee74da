"""Speed of WikiSearch: BM25 compared with plain Python, environment steps, oracle, generated world, and the HTTP server.

    python tests/benchmarks/bench_wikisearch.py [--toy] [--passages FILE --questions FILE …] [--seconds 5] [--clients 8]

Without files the fictional encyclopedia is searched with its own questions. The server part needs the extra [serve];
the server runs in its own process, and its memory is read from /proc.
"""

from __future__ import annotations

import http.client
import json
import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import leave_out, parser_of, print_ratio, print_speed

import creditflow
from creditflow.envs.http import bound
from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.text.bm25.index import build_index
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.retrieval.base import read_passages
from creditflow.envs.wikisearch.world.articles import passages
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES, DEFAULT_SEED
from creditflow.envs.wikisearch.world.graph import make_world
from creditflow.envs.wikisearch.world.selection import select_questions


class PlainBM25:
    """The reference: postings and scores in dictionaries."""

    def __init__(self, documents: Sequence[str]) -> None:
        counted = [Counter(analyse(document.lower())) for document in documents]
        lengths = [counts.total() for counts in counted]
        average = sum(lengths) / len(lengths)
        self.postings: dict[str, list[tuple[int, float]]] = {}
        for row, (counts, length) in enumerate(zip(counted, lengths, strict=True)):
            for term, tf in counts.items():
                self.postings.setdefault(term, []).append((row, tf / (tf + 0.9 * (0.6 + 0.4 * length / average))))
        n = len(documents)
        self.idf = {t: math.log(1 + (n - len(p) + 0.5) / (len(p) + 0.5)) for t, p in self.postings.items()}

    def search(self, query: str, k: int) -> list[int]:
        scores: dict[int, float] = {}
        for term in analyse(query.lower()):
            for row, weight in self.postings.get(term, ()):
                scores[row] = scores.get(row, 0.0) + self.idf[term] * weight
        return sorted(scores, key=lambda row: (-scores[row], row))[:k]


def rate(run: Callable[[str], object], queries: Sequence[str], seconds: float) -> float:
    """Queries per second of wall-clock time, after a warm-up of 20 queries."""
    for query in queries[:20]:
        run(query)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        run(queries[done % len(queries)])
        done += 1
    return done / (time.perf_counter() - start)


def bench_bm25(documents: Sequence[str], queries: Sequence[str], seconds: float) -> None:
    """Time the index and queries of this package and of the reference."""
    start = time.perf_counter()
    index = build_index((document.lower() for document in documents), [f"{i:08}" for i in range(len(documents))])
    built = time.perf_counter() - start
    start = time.perf_counter()
    peer = PlainBM25(documents)
    peer_built = time.perf_counter() - start
    ours = rate(lambda query: index.search(query.lower(), 10), queries, seconds)
    theirs = rate(lambda query: peer.search(query, 10), queries, seconds)
    words = sum(len(analyse(query.lower())) for query in queries) / len(queries)
    print(f"bm25: {len(documents)} passages, {len(queries)} queries of {words:.1f} terms, top 10")
    print(f"  index  {built:6.2f} s   plain Python {peer_built:6.2f} s   ratio {peer_built / built:.2f}")
    print(f"  search {ours:6.0f} /s  plain Python {theirs:6.0f} /s  ratio {ours / theirs:.2f}")
    print_ratio("BM25 queries", "BM25 in plain Python", ours / theirs)
    print_ratio("building the BM25 index", "BM25 in plain Python", peer_built / built)


def bench_environment(seconds: float, articles: int) -> None:
    """Time the construction of the default environment, steps with random actions, and oracle calls."""
    start = time.perf_counter()
    env = creditflow.make("wikisearch").unwrapped
    made = time.perf_counter() - start
    start = time.perf_counter()
    oracle = env.oracle  # type: ignore[attr-defined]  # an AgentEnv
    env.reset(seed=0)
    oracle.distance(env.get_state())  # type: ignore[attr-defined]  # an AgentEnv
    first = time.perf_counter() - start
    rng, steps, resets, start = np.random.default_rng(0), 0, 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        _, info = env.reset(seed=resets)
        resets += 1
        while info["admissible_actions"]:
            actions = info["admissible_actions"]
            info = env.step(actions[int(rng.integers(len(actions)))])[4]
            steps += 1
    played = time.perf_counter() - start
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.reset(seed=calls)
        oracle.optimal_actions(env.get_state())  # type: ignore[attr-defined]  # an AgentEnv
        calls += 1
    print(f"environment: made in {made:.1f} s; {resets} episodes")
    print_speed("WikiSearch steps, random actions", steps / played)
    print(f"  oracle: ready in {first:.1f} s; a new question in {seconds / calls * 1000:.0f} ms")
    start, words, streaming = time.perf_counter(), 0, int(10_000 * seconds)
    for number, passage in enumerate(passages(make_world(DEFAULT_SEED, articles))):
        words += len(passage.text.split())
        if number == streaming:
            break
    streamed = streaming / (time.perf_counter() - start)
    print(f"  world of {articles:,}: {streamed:.0f} passages/s streamed, {words / streaming:.0f} words each")


def resident(pid: int) -> float:
    """Resident memory of a process in MiB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def bench_server(corpus: str | None, queries: Sequence[str], seconds: float, clients: int) -> None:
    """Throughput and latency of serve search on loopback, and its memory before and after."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        leave_out("server", "the extra serve is not installed")
        return
    with bound(0) as free:
        port = free.getsockname()[1]
    code = (
        "import argparse; from creditflow.train.commands.serve import search as s; p = argparse.ArgumentParser(); "
        "s.add_arguments(p); s.run(p.parse_args())"
    )
    command = [sys.executable, "-c", code, "--port", str(port), *(["--corpus", corpus] if corpus else [])]
    server = subprocess.Popen(command)
    try:
        _wait(port)
        for per_request in (1, 16):
            _load(server.pid, port, queries, seconds, clients, per_request)
    finally:
        server.terminate()
        server.wait()


def _wait(port: int) -> None:
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/health")
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start within a minute")


def _load(pid: int, port: int, queries: Sequence[str], seconds: float, clients: int, per_request: int) -> None:
    """Closed loop: each client sends its next request after the response to the last one."""
    latencies: list[list[float]] = [[] for _ in range(clients)]
    failures = [0] * clients
    before, start = resident(pid), time.perf_counter()

    def run(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        at = client * 97
        while time.perf_counter() - start < seconds:
            batch = [queries[(at + i) % len(queries)] for i in range(per_request)]
            at += per_request
            body = json.dumps({"queries": batch, "topk": 3, "return_scores": True})
            began = time.perf_counter()
            connection.request("POST", "/retrieve", body)
            response = connection.getresponse()
            response.read()
            latencies[client].append(time.perf_counter() - began)
            failures[client] += response.status != 200

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = np.array([latency for client in latencies for latency in client]) * 1000
    spent = time.perf_counter() - start
    print_speed(
        f"queries to serve search, {clients} clients, {per_request} in a request", len(took) * per_request / spent
    )
    print(
        f"server: {clients} clients, {per_request} queries a request: {len(took) * per_request / spent:.0f} queries/s, "
        f"{len(took) / spent:.0f} requests/s, p50 {np.percentile(took, 50):.1f} ms, p95 {np.percentile(took, 95):.1f} ms, "
        f"{sum(failures)} failures, memory {before:.0f} -> {resident(pid):.0f} MiB"
    )


def main() -> None:
    """Run all parts."""
    parser = parser_of(__doc__)
    parser.add_argument("--passages", help="JSON lines of passages (.gz or plain)")
    parser.add_argument("--questions", nargs="*", default=[], help="JSON lines with a 'question' each")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement (default 5)")
    parser.add_argument("--clients", type=int, default=8, help="concurrent clients of the server (default 8)")
    args = parser.parse_args()
    seconds = 0.2 if args.toy else args.seconds
    if args.passages:
        documents = [passage.contents for passage in read_passages(args.passages)]
        queries = [question.text for path in args.questions for question in read_questions(path)]
    else:
        from creditflow.envs.wikisearch.world.encyclopedia import load_encyclopedia

        documents = [passage.contents for passage in passages(make_world(DEFAULT_SEED, DEFAULT_ARTICLES))]
        queries = [chosen.question.text for chosen in select_questions(load_encyclopedia(), 10 if args.toy else 200)]
    if args.toy:
        documents = documents[:500]
    bench_bm25(documents, queries, seconds)
    bench_environment(seconds, 1_000 if args.toy else 1_000_000)
    bench_server(args.passages, queries, seconds, args.clients)


if __name__ == "__main__":
    main()
