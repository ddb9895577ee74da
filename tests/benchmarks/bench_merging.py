"""Merging of 10,000 noisy shop pages, compared with comparing all pairs and the released greedy clusters, in one run.

Both of these take quadratic time: they run on every tenth page (greedy: on 120 pages), and for the ratios so does this package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import parser_of, print_ratio

import creditflow
from creditflow.wrappers.canonical.embedding import HashingEmbedder, SparseVectors
from creditflow.wrappers.canonical.merge import leader_clusters
from creditflow.wrappers.canonical.similarity import greedy_similarity

THRESHOLD = 0.9
T = TypeVar("T")


def pages(count: int) -> list[str]:
    """Distinct pages with advertisements that a random agent visits, the shortest first."""
    env = creditflow.make("webshop", preset="graphgpo", ads=2)
    tasks, rng, seen, number = env.unwrapped.tasks.task_ids(), np.random.default_rng(0), dict[str, None](), 0  # type: ignore[attr-defined]  # an AgentEnv
    while len(seen) < count:
        _, info = env.reset(seed=number, options={"task_id": tasks[number % len(tasks)]})
        number += 1
        ended = False
        while not ended and len(seen) < count:
            seen[info["text_key"]] = None
            actions = info["admissible_actions"]
            _, _, terminated, truncated, info = env.step(actions[int(rng.integers(len(actions)))])
            ended = terminated or truncated
    return sorted(seen, key=lambda text: (len(text), text))


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """The result of a call, and its seconds."""
    began = perf_counter()
    result = call()
    return result, perf_counter() - began


def all_pairs(vectors: SparseVectors) -> int:
    """Compute every pairwise similarity once; returns their number."""
    rows = [
        (vectors.feature[a:b], vectors.weight[a:b])
        for a, b in zip(vectors.offsets[:-1].tolist(), vectors.offsets[1:].tolist(), strict=True)
    ]
    count = 0
    for i, (features, weights) in enumerate(rows):
        for others, theirs in rows[:i]:
            place = np.minimum(np.searchsorted(others, features), len(others) - 1)
            _ = float(weights @ np.where(others[place] == features, theirs[place], 0.0))
            count += 1
    return count


def main() -> None:
    """Print seconds, comparisons and ratios."""
    count, tenth, few_pages = (120, 60, 12) if parser_of(__doc__).parse_args().toy else (10_000, 1_000, 120)
    texts = pages(count)
    embedder = HashingEmbedder()
    vectors, embedding = timed(lambda: embedder.embed(texts))
    print(f"{count} pages of {np.mean([len(t) for t in texts]):.0f} characters: embedded in {embedding:.1f} s")
    found, clustering = timed(lambda: leader_clusters(vectors, range(count), THRESHOLD))
    naive = count * (count - 1) // 2
    print(
        f"clusters {len(set(found.leader.tolist()))}, {clustering:.1f} s, {found.comparisons} comparisons: "
        f"1/{naive / max(found.comparisons, 1):.0f} of all pairs; {found.visited / naive:.2f} index entries a pair"
    )
    part = texts[:: count // tenth][:tenth]
    small = embedder.embed(part)
    ours, seconds = timed(lambda: leader_clusters(small, range(len(part)), THRESHOLD))
    pairs, theirs = timed(lambda: all_pairs(small))
    print(
        f"{len(part)} of them: {seconds:.2f} s, {ours.comparisons} comparisons; all pairs {theirs:.2f} s, {pairs}: "
        f"{theirs / seconds:.0f} times the time, {pairs / max(ours.comparisons, 1):.0f} times the comparisons"
    )
    print_ratio(f"merging {len(part)} shop pages", "comparing all pairs", theirs / seconds)
    few = texts[:: count // few_pages][:few_pages]
    _, seconds = timed(lambda: leader_clusters(embedder.embed(few), range(len(few)), THRESHOLD))
    _, theirs = timed(lambda: greedy_similarity(few, range(len(few)), THRESHOLD))
    print_ratio(f"merging {len(few)} shop pages, embedding included", "the released greedy clusters", theirs / seconds)


if __name__ == "__main__":
    main()
