"""Values of a group's states by averaging over its turns: with so many turns left, or for ever.

Long episodes make many states and many turns left, and a table of all values would be quadratic. A state's value moves
with the number of turns left only as long as those after it move, so a sweep recomputes what the sweep before has
changed, and nothing is stored but what is asked for. The numbers are those of the full table, to the bit.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Backup", "horizon_values", "stationary_values"]

Floats = NDArray[np.float64]
_DENSE: Final = 300  # states up to which a dense solver is the fastest


class Backup(NamedTuple):
    """V(k) = [κ Φ(k) + Σ_{turns u in k} V(k′_u)] / (κ + n(k)) over K states; Φ(k) where n(k) = κ = 0.

    Attributes:
        source, target, taken: int (E,), distinct transitions that lead on, by source, and how often each was taken.
        ends: float64 (K,), how many turns in each state were a rollout's last and led nowhere.
        outcome: float64 (K,), the sum of what those were worth.
        prior_weight: κ.
        prior: float64 (K,), Φ.
        start: float64 (K,), V with no turns left.
        horizon: H.
        share: float64 (H+1,), Φ of all states by the turns left, instead of ``prior``; None for none.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    taken: NDArray[np.int64]
    ends: Floats
    outcome: Floats
    prior_weight: float
    prior: Floats
    start: Floats
    horizon: int
    share: Floats | None = None

    @property
    def size(self) -> int:
        """K."""
        return len(self.prior)

    @property
    def weight(self) -> Floats:
        """float64 (K,): κ + n(k)."""
        onward = np.bincount(self.source, self.taken, minlength=self.size)
        return self.prior_weight + (onward + self.ends)


class _Rows:
    """The transitions of a backup by the state they leave, for sweeps over some states or all of them."""

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
        """States with a transition into one of these, rising."""
        return np.unique(self._before[_spans(self._enters[states], self._entered[states])])

    def swept(self, value: Floats, prior: Floats, rows: NDArray[np.int64] | None) -> Floats:
        """New values of some states (``rows``), or of all (None), from the present ones of all."""
        backup = self.backup
        if rows is None:
            flow = np.zeros(backup.size)
            if len(self.acting):
                flow[self.acting] = np.add.reduceat(value[backup.target] * backup.taken, self.begin[self.acting])
            out = (backup.prior_weight * prior + backup.outcome + flow) / self.divisor
            return np.where(self.unseen, prior, out)
        degree = self.degree[rows]  # at least 1: they are predecessors
        spans = _spans(self.begin[rows], degree)
        terms = value[backup.target[spans]] * backup.taken[spans]
        flow = np.add.reduceat(terms, np.cumsum(degree) - degree)
        moved: Floats = (backup.prior_weight * prior[rows] + backup.outcome[rows] + flow) / self.divisor[rows]
        return moved


def _spans(begin: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count from begin[0] for length[0] numbers, then from begin[1], and so on."""
    ends = np.cumsum(length)
    steps: NDArray[np.int64] = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    steps += np.repeat(begin - (ends - length), length)
    return steps


def horizon_values(
    backup: Backup, state: NDArray[np.integer], left: NDArray[np.integer], *, visited: list[int] | None = None
) -> tuple[Floats, Floats]:
    """V_h(k) with V_{h−1} on the right-hand side, for the pairs that are asked for.

    Args:
        backup: what is averaged.
        state, left: int (Q,), the pairs (k, h), 0 ≤ h ≤ H.
        visited: if given, the number of states recomputed by each sweep is appended: operations, for tests of growth.

    Returns:
        V_h(k), float64 (Q,), and V_H, float64 (K,).
    """
    rows, horizon = _Rows(backup), backup.horizon
    order = np.argsort(left, kind="stable")
    bounds = np.searchsorted(left[order], np.arange(horizon + 2)).tolist()
    # turns left at which all states are recomputed, the next one last: the first sweep, and where Φ changes
    moves = [] if backup.share is None else (np.flatnonzero(np.diff(backup.share[1:])) + 2).tolist()
    shifts = [horizon + 1, *reversed(moves), 1]
    answers, value = np.empty(len(state)), backup.start.copy()
    changed = np.arange(0)
    h = asked = 0
    while True:
        following = h + 1 if len(changed) else shifts[-1]
        if bounds[following] > asked:
            due = order[asked : bounds[following]]
            answers[due] = value[state[due]]
            asked = bounds[following]
        if following > horizon:
            return answers, value
        h = following
        prior = backup.prior if backup.share is None else np.full(backup.size, backup.share[h])
        chosen = None
        if shifts[-1] == h:
            shifts.pop()
        elif 4 * len(changed) < backup.size:
            chosen = rows.predecessors(changed)
        swept = rows.swept(value, prior, chosen)
        moved = swept != (value if chosen is None else value[chosen])
        changed = np.flatnonzero(moved) if chosen is None else chosen[moved]
        value[changed] = swept[moved]
        if visited is not None:
            visited.append(len(swept))


def stationary_values(backup: Backup) -> Floats:
    """V(k) with itself on the right-hand side, float64 (K,).

    In large groups states with few neighbours are eliminated first, as walks have them, until what is left is small; sums
    of positive numbers alone, so nothing cancels.
    """
    weight = backup.weight
    unseen = weight == 0.0
    divisor = np.where(unseen, 1.0, weight)
    known = np.where(unseen, backup.prior, (backup.prior_weight * backup.prior + backup.outcome) / divisor)
    chance = backup.taken / divisor[backup.source]
    if backup.size <= _DENSE:
        share = np.zeros((backup.size, backup.size))
        share[backup.source, backup.target] = chance
        return np.linalg.solve(np.eye(backup.size) - share, known).astype(np.float64)
    leaving = np.where(unseen, 1.0, (backup.prior_weight + backup.ends) / divisor)
    return _eliminated(backup.source, backup.target, chance, leaving, known)


def _eliminated(
    source: NDArray[np.int64], target: NDArray[np.int64], chance: Floats, leaving: Floats, known: Floats
) -> Floats:
    """x = known + P x by eliminating states, the one with fewest neighbours first (Grassmann, Taksar and Heyman)."""
    n = len(known)
    onward: list[dict[int, float]] = [{} for _ in range(n)]
    before: list[set[int]] = [set() for _ in range(n)]
    for i, j, p in zip(source.tolist(), target.tolist(), chance.tolist(), strict=True):
        onward[i][j] = p
        before[j].add(i)
    out, worth = leaving.tolist(), known.tolist()
    queue = [(len(before[k]) * len(onward[k]), k) for k in range(n)]
    heapq.heapify(queue)
    gone: list[tuple[int, float, dict[int, float]]] = []
    done = [False] * n
    while len(gone) < n - _DENSE:
        cost, k = heapq.heappop(queue)
        if done[k] or cost != len(before[k]) * len(onward[k]):
            continue  # there is a newer entry
        done[k] = True
        onward[k].pop(k, None)
        before[k].discard(k)
        scale = 1.0 / (out[k] + sum(onward[k].values()))
        ways = {j: p * scale for j, p in onward[k].items()}
        gone.append((k, worth[k] * scale, ways))
        touched = [*before[k], *ways]
        for j in ways:
            before[j].discard(k)
        for i in before[k]:
            through = onward[i].pop(k)
            worth[i] += through * worth[k] * scale
            out[i] += through * out[k] * scale
            for j, p in ways.items():
                onward[i][j] = onward[i].get(j, 0.0) + through * p
                before[j].add(i)
        for j in dict.fromkeys(touched):
            heapq.heappush(queue, (len(before[j]) * len(onward[j]), j))
    kept = [k for k in range(n) if not done[k]]
    place = {k: at for at, k in enumerate(kept)}
    core = np.zeros((len(kept), len(kept)))
    for k in kept:
        core[place[k], [place[j] for j in onward[k]]] = [-p for p in onward[k].values()]
    for at, k in enumerate(kept):
        others = sum(p for j, p in onward[k].items() if j != k)
        core[at, at] = out[k] + others  # 1 − p_kk, without the subtraction
    solved = np.zeros(n)
    solved[kept] = np.linalg.solve(core, np.array([worth[k] for k in kept]))
    x = solved.tolist()
    for k, own, ways in reversed(gone):
        x[k] = own + sum(p * x[j] for j, p in ways.items())
    return np.array(x, np.float64)
