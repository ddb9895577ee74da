"""Merging similar states of a group: the texts of the states, a partition of them, and a log rewritten by it.

A scheme takes the partition as labels (``merge="hash"``), both for its graph and where it compares turns. Merging by a
model happens before the scheme: ``merged_group`` replaces text keys by those of their clusters, and every scheme with
``key="text"`` then sees merged states.

The partition is by clusters of similar vectors: independent of input order, exact, and without comparing all pairs.
Leader clustering in an order that depends on the items alone: each item joins the most similar leader before it, if one
is similar enough, else it becomes a leader. Every member therefore has at least similarity ``threshold`` to its leader.
Single-linkage clustering would need no order, but would merge whole episodes: every page differs a little from the one
before, so the states of an episode are a chain of similar pairs.

The candidate leaders are found exactly, without random hashing:

- Sparse vectors, features ordered from rare to common: an index of the leaders sums the products over a vector's
  rarest features; the rest is bounded by Cauchy–Schwarz (prefix filtering, as in set-similarity joins).
- Dense vectors: a projection never increases a distance, so leaders too far away in the directions of largest variance are
  too far away.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr, unknown_name_error
from creditflow.wrappers.canonical.embedding import DenseVectors, Embedder, SparseVectors
from creditflow.wrappers.records.group import Group, StateIndex
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = [
    "Clusters",
    "TextSource",
    "compared_keys",
    "compared_texts",
    "leader_clusters",
    "merged_group",
    "merged_states",
    "renamed_texts",
    "similar_states",
    "state_texts",
]

TextSource = Literal["key", "observation"]
_DIGEST = re.compile(r"(?:[\w-]+:)?[0-9a-f]{32,128}")
ROUNDING = 1e-9  # precision of comparisons, so that results do not depend on the machine's rounding
DIRECTIONS = 16  # number of directions in which dense vectors are compared first


def state_texts(group: Group, source: TextSource) -> list[str | None]:
    """Return the text of each of the group's K text keys; None where the log has none.

    Args:
        group: a group with text keys.
        source: "key" takes the key itself; "observation" the observation in the state (the shortest of several, then the
            first in alphabetical order), for environments whose text keys are digests. A state in which no action was
            taken has no observation.

    Raises:
        TrajectoryError: there are no such texts.
        ConfigError: ``source`` has another value.
    """
    keys, state = group.states("text").keys, group.states("text").state
    if source == "key":
        if keys and all(_DIGEST.fullmatch(key) for key in keys):
            raise TrajectoryError(
                f"group {group.group_id!r}: text keys such as {keys[0]!r} are digests, which are never similar; compare "
                "observations: merge_text='observation'"
            )
        return list(keys)
    if source != "observation":
        raise unknown_name_error("value of merge_text", str(source), ["key", "observation"])
    texts: list[str | None] = [None] * len(keys)
    for k, turn in zip(state.tolist(), group.turns, strict=True):
        shortest = texts[k]
        if turn.observation and (
            shortest is None or (len(turn.observation), turn.observation) < (len(shortest), shortest)
        ):
            texts[k] = turn.observation
    if group.turns and not any(texts):
        raise TrajectoryError(
            f"group {group.group_id!r} has no observations: record them (Recorder, texts=True), or merge_text='key'"
        )
    return texts


def compared_keys(states: StateIndex, ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool (K,): keys of open states; terminal nodes are typed and never merge.

    Args:
        states: states of a group of N turns.
        ended: bool (N,), turns that lead to a typed terminal node.
    """
    compared = np.zeros(len(states.keys), np.bool_)
    compared[states.state] = True
    compared[states.next_state[~ended]] = True
    return compared


def ended_turns(group: Group) -> NDArray[np.bool_]:
    """bool (N,): the last turns of successes and failures, not of truncated episodes."""
    arrays = group.arrays
    is_end: NDArray[np.bool_] = arrays.last & (arrays.end != TRUNCATED)[arrays.trajectory]
    return is_end


def similar_states(
    group: Group,
    embedder: Embedder,
    threshold: float,
    *,
    source: TextSource = "key",
    end_states: NDArray[np.bool_] | None = None,
) -> Clusters:
    """Partition the group's K text keys; see above for the rule.

    Shorter texts lead: of pages that differ by inserted noise, the one with least noise is nearest to all others. The
    partition depends on the set of texts alone, not on the order of trajectories or the number of visits.

    Args:
        group: trajectories of one task.
        embedder: embedder of the texts.
        threshold: minimum similarity of a state to its cluster's leader, in (0, 1].
        source: text of a state that is compared.
        end_states: bool (N,), turns that lead to a typed terminal node; default the last turns of successes and failures.

    Raises:
        TrajectoryError: the group has no texts to compare (see ``state_texts``).
        ConfigError: the threshold or ``source`` is invalid.
    """
    states = group.states("text")
    if end_states is None:
        end_states = ended_turns(group)
    texts = state_texts(group, source)
    compared = compared_keys(states, end_states)
    chosen = sorted(
        (len(text), text, states.keys[k], k) for k, text in enumerate(texts) if text is not None and compared[k]
    )
    number = np.array([k for *_, k in chosen], np.int32)
    clusters = leader_clusters(embedder.embed([text for _, text, *_ in chosen]), range(len(chosen)), threshold)
    leader = np.arange(len(states.keys), dtype=np.int32)
    similarity = np.ones(len(states.keys))
    leader[number], similarity[number] = number[clusters.leader], clusters.similarity
    return Clusters(leader, similarity, clusters.comparisons, clusters.visited)


def compared_texts(group: Group, source: TextSource) -> list[str]:
    """The distinct texts that ``similar_states`` may compare."""
    return sorted({text for text in state_texts(group, source) if text is not None})


def merged_states(states: StateIndex, leader: NDArray[np.int32]) -> StateIndex:
    """Replace the index of every key by its leader's."""
    return StateIndex(states.keys, leader[states.state], leader[states.next_state])


def merged_group(group: Group, leader: NDArray[np.int32]) -> Group:
    """Replace every text key of the group by its leader's.

    Args:
        group: a group with text keys.
        leader: int (K,), for each text key the index of the key that represents it.
    """
    keys = group.states("text").keys
    return renamed_texts(group, [keys[k] for k in leader.tolist()])


def renamed_texts(group: Group, names: Sequence[str]) -> Group:
    """Replace the K text keys of the group by ``names``; keys of trajectories without turns stay."""
    new_keys = dict(zip(group.states("text").keys, names, strict=True))
    members = []
    for member in group.trajectories:
        turns = tuple(replace(turn, text_key=new_keys[turn.text_key]) for turn in member.turns)
        final = new_keys.get(member.final_text_key, member.final_text_key)
        members.append(replace(member, turns=turns, final_text_key=final))
    return Group(
        tuple(members),
        group.task,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A partition of n items.

    Attributes:
        leader: int32 (n,), the leader of each item's cluster; leaders lead themselves.
        similarity: float64 (n,), similarity of each item to its leader (1 for leaders).
        comparisons: number of similarities computed; all pairs would be n (n − 1) / 2.
        visited: number of index entries read to find candidates.
    """

    leader: NDArray[np.int32]
    similarity: NDArray[np.float64]
    comparisons: int
    visited: int


def leader_clusters(vectors: SparseVectors | DenseVectors, order: Sequence[int], threshold: float) -> Clusters:
    """Cluster the rows of ``vectors``.

    Args:
        vectors: n rows of length 1.
        order: all n row indices, in an order that depends on the rows' content alone. Earlier rows become leaders.
        threshold: minimum inner product of a member with its leader, in (0, 1].

    Raises:
        ConfigError: the threshold is outside (0, 1].
    """
    if not 0.0 < threshold <= 1.0:
        raise ConfigError(f"a similarity threshold must lie in (0, 1], got {short_repr(threshold)}")
    index: _Index = (
        _Prefixes(vectors, threshold) if isinstance(vectors, SparseVectors) else _Projections(vectors, threshold)
    )
    rank = np.empty(len(vectors), np.int64)
    rank[np.asarray(order, np.int64)] = np.arange(len(vectors))
    leader = np.arange(len(vectors), dtype=np.int32)
    similarity = np.ones(len(vectors))
    comparisons = 0
    for i in order:
        candidates = index.candidates(i)
        comparisons += len(candidates)
        if len(candidates):
            scores = np.round(index.similarities(i, candidates), 9)
            best = int(np.lexsort((rank[candidates], -scores))[0])  # the most similar; among equals the first leader
            if scores[best] >= threshold - ROUNDING:
                leader[i], similarity[i] = candidates[best], scores[best]
                continue
        index.add(i)
    return Clusters(leader, similarity, comparisons, index.visited)


class _Index(Protocol):
    """The leaders so far.

    Attributes:
        visited: number of entries read.
    """

    visited: int

    def candidates(self, i: int) -> NDArray[np.int64]:
        """Return all leaders that may be similar enough to row i, and possibly others."""
        ...

    def similarities(self, i: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the inner products of row i with other rows."""
        ...

    def add(self, i: int) -> None:
        """Make row i a leader."""
        ...


class _Prefixes:
    """Leaders indexed by their features; a row queries with its rarest ones only.

    Let p be a row's first features in order of rarity, up to where its rest r is shorter than the threshold t. With a
    leader split at the same feature into p′ and r′, the inner product is p·p′ + r·r′ ≤ p·p′ + |r||r′|, and the index sums
    p·p′: leaders for which the bound is below t need no comparison, those with p·p′ = 0 are never visited.
    """

    def __init__(self, vectors: SparseVectors, threshold: float) -> None:
        self.visited = 0
        self._threshold = threshold - ROUNDING
        self._offsets = vectors.offsets
        _, column, count = np.unique(vectors.feature, return_inverse=True, return_counts=True)
        rank = np.empty(len(count), np.int64)
        rank[np.argsort(count, kind="stable")] = np.arange(len(count))
        row = np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets))
        self._width = max(len(count), 1)
        cell = row * self._width + rank[column]
        order = np.argsort(cell, kind="stable")
        self._cell = cell[order]  # ascending: row by row, rare features first
        self._feature = self._cell - row * self._width
        self._weight = vectors.weight[order]
        # squared length of each row from this feature on
        done = np.concatenate([[0.0], np.cumsum(self._weight**2)])
        self._rest = np.append(np.maximum(done[vectors.offsets[1:]][row] - done[:-1], 0.0), 0.0)
        self._dense_row = np.zeros(self._width)  # buffer for one dense row, all zeros between calls
        # leaders with feature f: a slice of these arrays with room for all rows that have it, and its length so far
        self._start = np.concatenate([[0], np.cumsum(np.sort(count, kind="stable"))])
        self._filled = np.zeros(self._width, np.int64)
        self._leader = np.zeros(len(cell), np.int64)
        self._leader_weight = np.zeros(len(cell))
        self._leaders = np.zeros(len(vectors), np.int64)
        self._size = 0

    def candidates(self, i: int) -> NDArray[np.int64]:
        first, end = int(self._offsets[i]), int(self._offsets[i + 1])
        cut = first + int(np.count_nonzero(self._rest[first:end] >= self._threshold**2 - ROUNDING))
        rarest = self._feature[first:cut]
        sizes = self._filled[rarest]
        self.visited += int(sizes.sum())
        entries = np.arange(sizes.sum()) + np.repeat(self._start[rarest] - (np.cumsum(sizes) - sizes), sizes)
        common = np.bincount(
            self._leader[entries], self._leader_weight[entries] * np.repeat(self._weight[first:cut], sizes), self._size
        )
        number = np.flatnonzero(common)
        leader = self._leaders[number]
        at = self._feature[cut] if cut < end else self._width
        position = np.searchsorted(self._cell, leader * self._width + at)
        leader_rest = np.where(position < self._offsets[leader + 1], self._rest[position], 0.0)
        rest = self._rest[cut] if cut < end else 0.0
        return leader[common[number] + np.sqrt(rest * leader_rest) >= self._threshold - ROUNDING]

    def similarities(self, i: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        features, weights = self._of(i)
        self._dense_row[features] = weights
        products = [float(self._dense_row[f] @ w) for f, w in map(self._of, others.tolist())]
        self._dense_row[features] = 0.0
        return np.array(products)

    def add(self, i: int) -> None:
        features, weights = self._of(i)
        free = self._start[features] + self._filled[features]
        self._leader[free], self._leader_weight[free] = self._size, weights
        self._filled[features] += 1
        self._leaders[self._size] = i
        self._size += 1

    def _of(self, i: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        entries = slice(self._offsets[i], self._offsets[i + 1])
        return self._feature[entries], self._weight[entries]


class _Projections:
    """Leaders indexed by their coordinates in the directions of largest variance."""

    def __init__(self, vectors: DenseVectors, threshold: float) -> None:
        self.visited = 0
        self._vectors = np.asarray(vectors, np.float64)
        centered = self._vectors - self._vectors.mean(axis=0) if len(vectors) else self._vectors
        _, basis = np.linalg.eigh(centered.T @ centered)
        self._projected = self._vectors @ basis[:, ::-1][:, :DIRECTIONS]
        lengths = np.einsum("ij,ij->i", self._vectors, self._vectors)
        # |x − y|² = |x|² + |y|² − 2 x·y, with single-precision vectors' lengths taken as they are
        self._reach = float(2.0 * max(lengths.max(initial=1.0), 1.0) - 2.0 * (threshold - ROUNDING)) + ROUNDING
        self._sorted: list[tuple[float, int]] = []

    def candidates(self, i: int) -> NDArray[np.int64]:
        coordinate, reach = float(self._projected[i, 0]), self._reach**0.5
        low = bisect_left(self._sorted, (coordinate - reach, -1))
        high = bisect_right(self._sorted, (coordinate + reach, len(self._projected)))
        self.visited += high - low
        window = np.array(sorted(leader for _, leader in self._sorted[low:high]), np.int64)
        difference = self._projected[window] - self._projected[i]
        within_reach: NDArray[np.int64] = window[np.einsum("ij,ij->i", difference, difference) <= self._reach]
        return within_reach

    def similarities(self, i: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        products: NDArray[np.float64] = self._vectors[others] @ self._vectors[i]
        return products

    def add(self, i: int) -> None:
        insort(self._sorted, (float(self._projected[i, 0]), i))
