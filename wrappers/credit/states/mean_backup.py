"""Values of a group's states by mean backups: with a number of turns left, or stationary.

A table of all values by state and turns left is quadratic in the length of episodes, but fastest where they are short. In
long episodes a state's value changes with the number of turns left only while its successors' values do, so a sweep
recomputes only the states whose successors the previous sweep changed, and only requested values are stored. Both give the
same numbers to the last bit.
"""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.wrappers.records.group import run_starts

__all__ = ["Backup", "horizon_values", "stationary_values", "values_of"]

Floats = NDArray[np.float64]
_MAX_DENSE: Final = 300  # number of states up to which a dense solver is fastest
_MAX_TABLE_TURNS: Final = 100  # turns left, and entries, up to which all values are tabulated
_MAX_TABLE_SIZE: Final = 1_000_000


class Backup(NamedTuple):
    """V(k) = [κ Φ(k) + Σ_{turns u in k} V(k′_u)] / (κ + n(k)) over K states, and Φ(k) where n(k) = κ = 0.

    Attributes:
        source, target, transitions: int (E,), distinct transitions between states, sorted by source, and their counts.
        ends: float64 (K,), number of turns in each state that ended the episode.
        outcome: float64 (K,), sum of the outcomes of those turns.
        prior_weight: κ.
        prior: float64 (K,), Φ.
        start: float64 (K,), V with no turns left.
        horizon: H.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    transitions: NDArray[np.int64]
    ends: Floats
    outcome: Floats
    prior_weight: float
    prior: Floats
    start: Floats
    horizon: int

    @property
    def size(self) -> int:
        """K."""
        return len(self.prior)

    @property
    def weight(self) -> Floats:
        """float64 (K,): κ + n(k)."""
        onward = np.bincount(self.source, self.transitions, minlength=self.size)
        return self.prior_weight + (onward + self.ends)


class _Rows:
    """The transitions of a backup by source state, for sweeps over some states or all of them."""

    def __init__(self, backup: Backup) -> None:
        self.backup = backup
        self.degree = np.bincount(backup.source, minlength=backup.size)
        self.begin = np.cumsum(self.degree) - self.degree
        self.acting = np.flatnonzero(self.degree)
        weight = backup.weight
        self.unseen = weight == 0.0
        self.divisor = np.where(self.unseen, 1.0, weight)
        by_target = np.argsort(backup.target, kind="stable")
        self._before = backup.source[by_target]
        self._entered = np.bincount(backup.target, minlength=backup.size)
        self._enters = np.cumsum(self._entered) - self._entered

    def predecessors(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """States with a transition into one of these, ascending."""
        return np.unique(self._before[_spans(self._enters[states], self._entered[states])])

    def swept(self, value: Floats, rows: NDArray[np.int64] | None) -> Floats:
        """New values of some states (``rows``) or of all (None), from the current values."""
        backup, prior = self.backup, self.backup.prior
        if rows is None:
            flow = np.zeros(backup.size)
            if len(self.acting):
                flow[self.acting] = np.add.reduceat(value[backup.target] * backup.transitions, self.begin[self.acting])
            out = (backup.prior_weight * prior + backup.outcome + flow) / self.divisor
            return np.where(self.unseen, prior, out)
        degree = self.degree[rows]  # at least 1: they are predecessors
        spans = _spans(self.begin[rows], degree)
        terms = value[backup.target[spans]] * backup.transitions[spans]
        flow = np.add.reduceat(terms, np.cumsum(degree) - degree)
        moved: Floats = (backup.prior_weight * prior[rows] + backup.outcome[rows] + flow) / self.divisor[rows]
        return moved


def _spans(begin: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate the ranges [begin[i], begin[i] + length[i])."""
    ends = np.cumsum(length)
    steps: NDArray[np.int64] = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    steps += np.repeat(begin - (ends - length), length)
    return steps


def values_of(
    backup: Backup, state: NDArray[np.integer], left: NDArray[np.integer], *, stationary: bool = False
) -> Floats:
    """float64 (Q,): V of pairs of a state and a number of turns left, which the stationary form ignores."""
    return stationary_values(backup)[state] if stationary else horizon_values(backup, state, left)[0]


def horizon_values(backup: Backup, state: NDArray[np.integer], left: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """V_h(k) with V_{h−1} on the right-hand side, for the requested pairs.

    Args:
        backup: the mean backup.
        state, left: int (Q,), the pairs (k, h), 0 ≤ h ≤ H.

    Returns:
        V_h(k), float64 (Q,), and V_H, float64 (K,).
    """
    if backup.horizon <= _MAX_TABLE_TURNS and (backup.horizon + 1) * backup.size <= _MAX_TABLE_SIZE:
        values = tabulated_values(backup)
        return values[left, state], values[-1].copy()
    return swept_values(backup, state, left)


def tabulated_values(backup: Backup) -> Floats:
    """float64 (H+1, K): all values. The work is H times the number of transitions."""
    begin = run_starts(backup.source)
    acting = backup.source[begin]
    weight = backup.weight
    unseen = weight == 0.0
    divisor = np.where(unseen, 1.0, weight)
    constant = backup.prior_weight * backup.prior + backup.outcome
    values = np.empty((backup.horizon + 1, backup.size))
    values[0] = backup.start
    values[1:] = np.where(unseen, backup.prior, constant / divisor)
    if not len(acting):
        return values
    target, transitions = backup.target, backup.transitions.astype(np.float64)
    constant, divisor = constant[acting], divisor[acting]
    for before, after in pairwise(values):
        flow = np.add.reduceat(before[target] * transitions, begin)
        flow += constant
        flow /= divisor
        after[acting] = flow
    return values


def swept_values(
    backup: Backup, state: NDArray[np.integer], left: NDArray[np.integer], *, visited: list[int] | None = None
) -> tuple[Floats, Floats]:
    """As ``horizon_values``, by sweeps over the states whose successors changed.

    Args:
        backup: the mean backup.
        state, left: int (Q,), the pairs (k, h), 0 ≤ h ≤ H.
        visited: if given, the number of states that each sweep recomputes is appended, for tests of growth.

    Returns:
        V_h(k), float64 (Q,), and V_H, float64 (K,).
    """
    rows, horizon = _Rows(backup), backup.horizon
    order = np.argsort(left, kind="stable")
    bounds = np.searchsorted(left[order], np.arange(horizon + 2)).tolist()
    out, value = np.empty(len(state)), backup.start.copy()
    changed = np.arange(0)
    h = written = 0
    while True:
        following = h + 1 if h == 0 or len(changed) else horizon + 1  # the first sweep is of all states
        if bounds[following] > written:
            due = order[written : bounds[following]]
            out[due] = value[state[due]]
            written = bounds[following]
        if following > horizon:
            return out, value
        h = following
        chosen = rows.predecessors(changed) if h > 1 and 4 * len(changed) < backup.size else None
        swept = rows.swept(value, chosen)
        moved = swept != (value if chosen is None else value[chosen])
        changed = np.flatnonzero(moved) if chosen is None else chosen[moved]
        value[changed] = swept[moved]
        if visited is not None:
            visited.append(len(swept))


def stationary_values(backup: Backup) -> Floats:
    """float64 (K,): V(k) with itself on the right-hand side.

    In large groups, states with few neighbours are eliminated first, until the remaining system is small. Only positive
    numbers are added, so there is no cancellation.
    """
    weight = backup.weight
    unseen = weight == 0.0
    divisor = np.where(unseen, 1.0, weight)
    constant = np.where(unseen, backup.prior, (backup.prior_weight * backup.prior + backup.outcome) / divisor)
    probability = backup.transitions / divisor[backup.source]
    if backup.size <= _MAX_DENSE:
        matrix = np.zeros((backup.size, backup.size))
        matrix[backup.source, backup.target] = probability
        return np.linalg.solve(np.eye(backup.size) - matrix, constant).astype(np.float64)
    leaving = np.where(unseen, 1.0, (backup.prior_weight + backup.ends) / divisor)
    return _eliminated(backup.source, backup.target, probability, leaving, constant)


def _eliminated(
    source: NDArray[np.int64], target: NDArray[np.int64], probability: Floats, leaving: Floats, known: Floats
) -> Floats:
    """Solve x = known + P x by eliminating states, those with fewest neighbours first (Grassmann, Taksar and Heyman)."""
    n = len(known)
    onward: list[dict[int, float]] = [{} for _ in range(n)]
    before: list[set[int]] = [set() for _ in range(n)]
    for i, j, p in zip(source.tolist(), target.tolist(), probability.tolist(), strict=True):
        onward[i][j] = p
        before[j].add(i)
    out, constant = leaving.tolist(), known.tolist()
    queue = [(len(before[k]) * len(onward[k]), k) for k in range(n)]
    heapq.heapify(queue)
    removed: list[tuple[int, float, dict[int, float]]] = []
    eliminated = [False] * n
    while len(removed) < n - _MAX_DENSE:
        cost, k = heapq.heappop(queue)
        if eliminated[k] or cost != len(before[k]) * len(onward[k]):
            continue  # superseded by a newer entry
        eliminated[k] = True
        onward[k].pop(k, None)
        before[k].discard(k)
        scale = 1.0 / (out[k] + sum_in_order(onward[k].values()))
        onward_k = {j: p * scale for j, p in onward[k].items()}
        removed.append((k, constant[k] * scale, onward_k))
        touched = [*before[k], *onward_k]
        for j in onward_k:
            before[j].discard(k)
        for i in before[k]:
            through = onward[i].pop(k)
            constant[i] += through * constant[k] * scale
            out[i] += through * out[k] * scale
            for j, p in onward_k.items():
                onward[i][j] = onward[i].get(j, 0.0) + through * p
                before[j].add(i)
        for j in dict.fromkeys(touched):
            heapq.heappush(queue, (len(before[j]) * len(onward[j]), j))
    core_states = [k for k in range(n) if not eliminated[k]]
    position = {k: i for i, k in enumerate(core_states)}
    core = np.zeros((len(core_states), len(core_states)))
    for k in core_states:
        core[position[k], [position[j] for j in onward[k]]] = [-p for p in onward[k].values()]
    for i, k in enumerate(core_states):
        leaving_k = sum_in_order(p for j, p in onward[k].items() if j != k)
        core[i, i] = out[k] + leaving_k  # 1 − p_kk, without the subtraction
    solved = np.zeros(n)
    solved[core_states] = np.linalg.solve(core, np.array([constant[k] for k in core_states]))
    x = solved.tolist()
    for k, constant_k, transitions in reversed(removed):
        x[k] = constant_k + sum_in_order(p * x[j] for j, p in transitions.items())
    return np.array(x, np.float64)
