"""Audit of a trajectory log: what credit schemes can and cannot learn from it, before any training.

Credit schemes fail silently: a group without a success gives GRPO no signal, states visited once give GiGPO none, and a
key that stands for two states misleads graph methods. An audit counts these cases in any log; ``audit_advice``
draws the conclusions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.statistics import pearson
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import assigned, lookup
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import OPEN, TRUNCATED

__all__ = ["Audit", "Coverage", "Keys", "audit", "credits_of"]


class Keys(NamedTuple):
    """Statistics of state keys; fractions are of turns.

    Attributes:
        states: distinct keys that were acted in, summed over groups.
        singletons: turns in keys that were acted in once.
        comparable: turns in keys in which at least two different actions were tried.
        conflicted: turns in keys in which some action had different results.
        explained: fraction of the repeated contexts (previous key, key, action) of conflicts that had one result only:
            near 1 the key hides something that the previous key reveals; near 0 the environment is random. nan without
            repeated contexts.
        connected: turns in keys from which observed transitions lead to a success.
    """

    states: int
    singletons: float
    comparable: float
    conflicted: float
    explained: float
    connected: float


class Coverage(NamedTuple):
    """How much credit a scheme assigns.

    Attributes:
        coverage: fraction of turns with credit.
        step_coverage: fraction of turns with a step advantage.
        dead_groups: fraction of groups without any credit.
        note: why the scheme is not applicable to the log; "" if it is.
    """

    coverage: float
    step_coverage: float
    dead_groups: float
    note: str


@dataclass(frozen=True)
class Audit:
    """The results of an audit; fractions in [0, 1], nan where undefined.

    Attributes:
        groups, trajectories, turns: numbers of each.
        success: fraction of trajectories.
        score: mean score.
        graded_scores: whether scores between 0 and 1 occur.
        all_failed, all_succeeded, tied_groups: fractions of groups without a success, with successes only, with equal scores.
        singleton_groups: fraction of groups with one trajectory.
        length, length_succeeded, length_failed: mean number of turns of an episode, that of a branch with its prefix.
        truncated: fraction of trajectories that a limit ended.
        length_correlation: Pearson's correlation of length and score within groups.
        unparsed, inadmissible, ineffective: fractions of turns.
        penalty_decides: fraction of groups with equal scores but different numbers of invalid turns, in which a penalty is
            the only learning signal.
        revisits: fraction of turns in states that the same episode acted in before.
        state: statistics of the state keys.
        coverage: coverage by scheme.
    """

    groups: int
    trajectories: int
    turns: int
    success: float
    score: float
    graded_scores: bool
    all_failed: float
    all_succeeded: float
    tied_groups: float
    singleton_groups: float
    length: float
    length_succeeded: float
    length_failed: float
    truncated: float
    length_correlation: float
    unparsed: float
    inadmissible: float
    ineffective: float
    penalty_decides: float
    revisits: float
    state: Keys
    coverage: Mapping[str, Coverage]


def audit(groups: Sequence[Group]) -> Audit:
    """Audit a log.

    Args:
        groups: groups of the log.

    Raises:
        DataError: the log has no turns.
    """
    turns = sum(len(group.arrays.reward) for group in groups)
    if not turns:
        raise DataError("the log has no turns: there is nothing to audit")
    arrays = [group.arrays for group in groups]
    lengths = np.concatenate([_lengths(group) for group in groups])
    score = np.concatenate([a.score for a in arrays])
    won = np.concatenate([a.success for a in arrays])
    tied = np.array([np.ptp(a.score) == 0.0 for a in arrays])
    return Audit(
        groups=len(groups),
        trajectories=len(score),
        turns=turns,
        success=float(won.mean()),
        score=float(score.mean()),
        graded_scores=bool(((score > 0.0) & (score < 1.0)).any()),
        all_failed=float(np.mean([not a.success.any() for a in arrays])),
        all_succeeded=float(np.mean([a.success.all() for a in arrays])),
        tied_groups=float(tied.mean()),
        singleton_groups=float(np.mean([a.size == 1 for a in arrays])),
        length=float(lengths.mean()),
        length_succeeded=_mean(lengths[won]),
        length_failed=_mean(lengths[~won]),
        truncated=float(np.mean(np.concatenate([a.end == TRUNCATED for a in arrays]))),
        length_correlation=_within_groups(groups),
        unparsed=_fraction(~a.parsed for a in arrays),
        inadmissible=_fraction(a.parsed & ~a.valid for a in arrays),
        ineffective=_fraction(a.valid & ~a.effective for a in arrays),
        penalty_decides=float(
            np.mean([bool(t) and np.ptp(_invalid_counts(a)) > 0 for t, a in zip(tied, arrays, strict=True)])
        ),
        revisits=_fraction(map(_revisits, groups)),
        state=_key_statistics(groups),
        coverage=_coverage(groups),
    )


def _fraction(parts: Any) -> float:
    return float(np.concatenate(list(parts)).mean())


def _mean(x: NDArray[np.float64]) -> float:
    return float(x.mean()) if len(x) else float("nan")


def _invalid_counts(arrays: Any) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bincount(arrays.trajectory, ~arrays.valid, minlength=arrays.size).astype(np.int64)
    return counts


def _lengths(group: Group) -> NDArray[np.float64]:
    """float64 (G,): number of turns of each full episode."""
    return np.diff(group.episode_index.offsets).astype(np.float64)


def _within_groups(groups: Sequence[Group]) -> float:
    """Correlation of length and score after subtracting each group's means; nan if either is constant."""
    length = np.concatenate([_lengths(group) - _lengths(group).mean() for group in groups])
    score = np.concatenate([group.arrays.score - group.arrays.score.mean() for group in groups])
    return pearson(*(np.where(np.abs(x) < 1e-12, 0.0, x) for x in (length, score)))  # smaller ones are rounding


def _revisits(group: Group) -> NDArray[np.bool_]:
    """bool (N,): the episode acted in this state before."""
    index, state = group.episode_index, group.arrays.state
    pair = index.episode.astype(np.int64) * (int(state.max(initial=0)) + 1) + state[index.stored]
    _, first = np.unique(pair, return_index=True)
    again = np.ones(len(pair), np.bool_)
    again[first] = False
    return again[index.own]


def _previous(group: Group, state: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """int64 (N,): the state that the episode acted in one turn earlier; −1 in its first turn."""
    index = group.episode_index
    previous = np.concatenate([[-1], state[index.stored][:-1]]).astype(np.int64)
    previous[index.offsets[:-1][np.diff(index.offsets) > 0]] = -1
    return previous[index.own]


def _key_statistics(groups: Sequence[Group]) -> Keys:
    """Statistics of the state keys of groups with turns."""
    states, by_turn = 0, list[NDArray[np.bool_]]()
    contexts = repeated = 0
    for group in groups:
        arrays, index = group.arrays, group.arrays.states
        state, n = index.state, len(index.keys)
        visits = np.bincount(state, minlength=n)
        states += int((visits > 0).sum())
        _, first_action = np.unique(state, return_index=True)
        reference = np.zeros(n, np.int64)
        reference[state[first_action]] = arrays.action[first_action]
        several = np.zeros(n, np.bool_)
        several[state[arrays.action != reference[state]]] = True
        end = np.where(arrays.last, arrays.end[arrays.trajectory], OPEN)
        end = np.where(end == TRUNCATED, OPEN, end)
        result = index.next_state.astype(np.int64) * 4 + end
        edge = state.astype(np.int64) * (int(arrays.action.max(initial=0)) + 1) + arrays.action
        differing = _differs(edge, result)
        conflicted = np.zeros(n, np.bool_)
        conflicted[state[differing]] = True
        # contexts (previous key, key, action) of conflicting actions: does one context still have several results?
        in_conflict = np.isin(edge, np.unique(edge[differing]))
        context = (edge * (n + 1) + _previous(group, state) + 1)[in_conflict]
        distinct, inverse, count = np.unique(context, return_inverse=True, return_counts=True)
        ambiguous = np.zeros(len(distinct), np.bool_)
        ambiguous[inverse[_differs(context, result[in_conflict])]] = True
        repeated += int((count > 1).sum())
        contexts += int((~ambiguous & (count > 1)).sum())
        graph = StateGraph.from_group(group)
        by_turn.append(
            np.stack([visits[state] == 1, several[state], conflicted[state], graph.reachable()[graph.source]])
        )
    single, comparable, conflicted, connected = np.concatenate(by_turn, axis=1).mean(axis=1).tolist()
    explained = contexts / repeated if repeated else float("nan")
    return Keys(states, single, comparable, conflicted, explained, connected)


def _differs(label: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool: entries whose value is not that of the first entry with the same label."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    different: NDArray[np.bool_] = value != value[first][inverse]
    return different


def credits_of(groups: Sequence[Group], annotations: Set[str]) -> Iterator[tuple[str, list[credit.Credit], str]]:
    """Every scheme by name, with its credit on a log, or without any and the reason.

    Args:
        groups: groups of the log.
        annotations: names of the values that its turns have.
    """
    for name in credit.names():
        missing = [need for need in lookup(name).requires if need not in annotations]
        if missing:
            yield name, [], f"needs the annotations {', '.join(missing)}"
            continue
        try:
            yield name, assigned(credit.make(name), groups), ""
        except credit.CreditError as error:
            yield name, [], str(error)


def _coverage(groups: Sequence[Group]) -> dict[str, Coverage]:
    annotations = {name for group in groups for turn in group.turns[:1] for name in turn.values}
    coverage = {}
    for name, scored, reason in credits_of(groups, annotations):
        if reason:
            coverage[name] = Coverage(float("nan"), float("nan"), float("nan"), reason)
            continue
        any_credit = np.concatenate([c.flat_advantages for c in scored]) != 0.0
        step = np.concatenate([c.flat_step_advantages for c in scored]) != 0.0
        dead = float(np.mean([not c.flat_advantages.any() for c in scored]))
        coverage[name] = Coverage(float(any_credit.mean()), float(step.mean()), dead, "")
    return coverage
