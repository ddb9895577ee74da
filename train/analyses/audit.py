"""What a log can teach and what it cannot, before anybody trains on it.

Credit schemes fail quietly: a group in which everybody failed gives GRPO nothing, states met once give GiGPO nothing, a
text key that stands for two states gives graph methods something wrong. An audit counts these cases in any trajectory
log; what follows from the counts stands in ``audit_advice``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, TrajectoryError
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import OPEN, TRUNCATED

__all__ = ["Audit", "Keys", "Sight", "audit"]


class Keys(NamedTuple):
    """What one kind of key does to the log; shares are of turns.

    Attributes:
        states: distinct keys acted in, summed over groups.
        singletons: turns in keys that were acted in once.
        comparable: turns in keys in which at least two different actions were tried.
        conflicted: turns in keys in which one action had two different results.
        explained: share of the conflicts' repeated contexts (previous key, key, action) with one result only: near 1 the
            key hides something that the way to it tells; near 0 the environment is random. nan without repeats.
        connected: turns in keys from which a success was reached on observed transitions.
    """

    states: int
    singletons: float
    comparable: float
    conflicted: float
    explained: float
    connected: float


class Sight(NamedTuple):
    """What a scheme sees: shares of turns with any credit and with step credit, share of groups without any credit."""

    coverage: float
    step_coverage: float
    dead_groups: float
    note: str


@dataclass(frozen=True)
class Audit:
    """The findings; shares in [0, 1], nan where undefined.

    Attributes:
        groups, trajectories, turns: how many.
        success: share of trajectories.
        score: mean.
        graded: whether scores between 0 and 1 occur.
        all_failed, all_succeeded, tied: groups in which nobody, everybody succeeded; in which all scores are equal.
        lone: groups of one.
        length, length_succeeded, length_failed: mean turns.
        limited: trajectories ended by a limit.
        length_correlation: of length and score within groups.
        unparsed, inadmissible, ineffective: shares of turns.
        penalty_decides: groups with equal scores but different numbers of invalid turns, where a penalty is all there
            is to learn from.
        revisits: turns in states that the same trajectory acted in before.
        state, text: what each kind of key does; ``text`` is None if the log has no text keys.
        aliased: turns whose text key stands for several states of the group.
        fragmented: turns whose state has several text keys in the group.
        sight: by scheme.
    """

    groups: int
    trajectories: int
    turns: int
    success: float
    score: float
    graded: bool
    all_failed: float
    all_succeeded: float
    tied: float
    lone: float
    length: float
    length_succeeded: float
    length_failed: float
    limited: float
    length_correlation: float
    unparsed: float
    inadmissible: float
    ineffective: float
    penalty_decides: float
    revisits: float
    state: Keys
    text: Keys | None
    aliased: float
    fragmented: float
    sight: Mapping[str, Sight]


def audit(groups: Sequence[Group]) -> Audit:
    """Audit a log.

    Args:
        groups: at least one, with at least one turn in all.

    Raises:
        DataError: there is nothing to audit.
    """
    turns = sum(len(group.arrays.reward) for group in groups)
    if not turns:
        raise DataError("the log has no turns: there is nothing to audit")
    arrays = [group.arrays for group in groups]
    lengths = np.concatenate([np.diff(a.offsets) for a in arrays]).astype(np.float64)
    score = np.concatenate([a.score for a in arrays])
    won = np.concatenate([a.success for a in arrays])
    tied = np.array([np.ptp(a.score) == 0.0 for a in arrays])
    textual = all(map(_has_texts, groups))
    state = _keys(groups, "state")
    text = _keys(groups, "text") if textual else None
    aliased, fragmented = _mismatch(groups) if textual else (float("nan"), float("nan"))
    return Audit(
        groups=len(groups),
        trajectories=len(score),
        turns=turns,
        success=float(won.mean()),
        score=float(score.mean()),
        graded=bool(((score > 0.0) & (score < 1.0)).any()),
        all_failed=float(np.mean([not a.success.any() for a in arrays])),
        all_succeeded=float(np.mean([a.success.all() for a in arrays])),
        tied=float(tied.mean()),
        lone=float(np.mean([a.size == 1 for a in arrays])),
        length=float(lengths.mean()),
        length_succeeded=_mean(lengths[won]),
        length_failed=_mean(lengths[~won]),
        limited=float(np.mean(np.concatenate([a.end == TRUNCATED for a in arrays]))),
        length_correlation=_within_groups(arrays),
        unparsed=_share(~a.parsed for a in arrays),
        inadmissible=_share(a.parsed & ~a.valid for a in arrays),
        ineffective=_share(a.valid & ~a.effective for a in arrays),
        penalty_decides=float(
            np.mean([bool(t) and np.ptp(_invalid_counts(a)) > 0 for t, a in zip(tied, arrays, strict=True)])
        ),
        revisits=_share(map(_revisits, arrays)),
        state=state,
        text=text,
        aliased=aliased,
        fragmented=fragmented,
        sight=_sights(groups),
    )


def _share(parts: Any) -> float:
    return float(np.concatenate(list(parts)).mean())


def _mean(x: NDArray[np.float64]) -> float:
    return float(x.mean()) if len(x) else float("nan")


def _invalid_counts(arrays: Any) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bincount(arrays.trajectory, ~arrays.valid, minlength=arrays.size).astype(np.int64)
    return counts


def _within_groups(arrays: Sequence[Any]) -> float:
    """Correlation of length and score after taking each group's means away; nan if either is constant."""
    length = np.concatenate([np.diff(a.offsets) - np.diff(a.offsets).mean() for a in arrays])
    score = np.concatenate([a.score - a.score.mean() for a in arrays])
    size = float(np.sqrt((length @ length) * (score @ score)))
    return float(length @ score) / size if size > 1e-12 else float("nan")


def _revisits(arrays: Any) -> NDArray[np.bool_]:
    """bool (N,): the trajectory acted in this state before."""
    pair = arrays.trajectory.astype(np.int64) * (int(arrays.state.max(initial=0)) + 1) + arrays.state
    _, first = np.unique(pair, return_index=True)
    again = np.ones(len(pair), np.bool_)
    again[first] = False
    return again


def _keys(groups: Sequence[Group], kind: Literal["state", "text"]) -> Keys:
    states, parts = 0, list[NDArray[np.bool_]]()
    contexts = repeated = 0
    for group in groups:
        arrays, index = group.arrays, group.states(kind)
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
        did = state.astype(np.int64) * (int(arrays.action.max(initial=0)) + 1) + arrays.action
        differing = _differs(did, result)
        torn_keys = np.zeros(n, np.bool_)
        torn_keys[state[differing]] = True
        # the same action after the same predecessor: does it still have several results?
        previous = np.concatenate([[-1], state[:-1]])
        previous[arrays.offsets[:-1][np.diff(arrays.offsets) > 0]] = -1
        torn = np.isin(did, np.unique(did[differing]))
        context = (did * (n + 1) + previous + 1)[torn]
        seen, inverse, count = np.unique(context, return_inverse=True, return_counts=True)
        unsure = np.zeros(len(seen), np.bool_)
        unsure[inverse[_differs(context, result[torn])]] = True
        repeated += int((count > 1).sum())
        contexts += int((~unsure & (count > 1)).sum())
        graph = StateGraph.from_group(group, key=kind)
        parts.append(np.stack([visits[state] == 1, several[state], torn_keys[state], graph.reachable()[graph.source]]))
    single, comparable, conflicted, connected = np.concatenate(parts, axis=1).mean(axis=1).tolist()
    explained = contexts / repeated if repeated else float("nan")
    return Keys(states, single, comparable, conflicted, explained, connected)


def _differs(label: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool: entries whose value is not that of the first entry with the same label."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    different: NDArray[np.bool_] = value != value[first][inverse]
    return different


def _has_texts(group: Group) -> bool:
    try:
        group.states("text")
    except TrajectoryError:
        return False
    return True


def _mismatch(groups: Sequence[Group]) -> tuple[float, float]:
    """Shares of turns whose text stands for several states, and whose state has several texts."""
    aliased, fragmented = list[NDArray[np.bool_]](), list[NDArray[np.bool_]]()
    for group in groups:
        state, text = group.states("state").state.astype(np.int64), group.states("text").state.astype(np.int64)
        for label, value, out in ((text, state, aliased), (state, text, fragmented)):
            several = np.unique(label[_differs(label, value)])
            out.append(np.isin(label, several))
    return float(np.concatenate(aliased).mean()), float(np.concatenate(fragmented).mean())


def _sights(groups: Sequence[Group]) -> dict[str, Sight]:
    sights = {}
    present = {name for group in groups for turn in group.turns[:1] for name in turn.values}
    for name in credit.names():
        missing = [need for need in lookup(name).requires if need not in present]
        if missing:
            sights[name] = Sight(
                float("nan"), float("nan"), float("nan"), f"needs the annotations {', '.join(missing)}"
            )
            continue
        try:
            scored = credit.make(name).assign_batch(groups)
        except credit.CreditError as error:
            sights[name] = Sight(float("nan"), float("nan"), float("nan"), str(error))
            continue
        whole = np.concatenate([c.flat_advantages for c in scored]) != 0.0
        step = np.concatenate([c.flat_step_advantages for c in scored]) != 0.0
        dead = float(np.mean([not c.flat_advantages.any() for c in scored]))
        sights[name] = Sight(float(whole.mean()), float(step.mean()), dead, "")
    return sights
