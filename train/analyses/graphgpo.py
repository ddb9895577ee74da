"""Analysis of GraphGPO: how many turns of failed rollouts were useful, and how many of successful ones were not.

The paper counts steps that "contribute to task progress" (its figure 1) without defining them. The definition here uses
its distance (eq. 3), the minimum cost from a state to success over all transitions observed in the group:

  shortest     d(s) = c + d(s'), on a shortest path: useful
  detour       d(s') ≤ d(s) otherwise: no progress, or progress at too high a cost
  regress      d(s') > d(s)
  lost         success could be reached before the turn, but not after it
  invalid      the action was not parsed or not admissible, in any state
  out of reach no observed path leads from s to success, so the turn cannot be classified

Distances are over *observed* transitions, so they are upper bounds: with more rollouts, a turn on a shortest path may become a
detour. Groups without a success have no distances and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.train.analyses.finding import Finding, NotDefined, Table, percent
from creditflow.train.bench.report.figures import COLOURS, new_figure, save_figure, tidy
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["CLASSES", "NEEDS", "SOURCE", "analyse", "classes", "draw"]

SOURCE: Final = "fractions of useful turns, GraphGPO (arXiv 2605.26684) figure 1"
NEEDS: Final = "a group with a success"
CLASSES: Final = ("shortest", "detour", "regress", "lost", "invalid", "out of reach")
_TOLERANCE: Final = 1e-9  # of sums of costs


def classes(
    valid: NDArray[np.bool_], cost: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> NDArray[np.int64]:
    """int (N,): the class of each turn, an index into ``CLASSES``.

    Args:
        valid: bool (N,), whether the action was valid.
        cost: float64 (N,), cost of the transition.
        before, after: float64 (N,), distance to success of the states; inf where it cannot be reached.
    """
    return np.select(
        [
            ~valid,
            np.isinf(before),
            np.isinf(after),
            after > before + _TOLERANCE,
            before >= after + cost - _TOLERANCE,
        ],
        [CLASSES.index(name) for name in ("invalid", "out of reach", "lost", "regress", "shortest")],
        CLASSES.index("detour"),
    )


def _distances(group: Group, key: Literal["state", "text"]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    graph = StateGraph.from_group(group, key=key)
    distance = graph.distances()
    return distance[graph.source], distance[graph.target]


def _oracle_distances(group: Group) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The environment's own distances, where ``Recorder(oracle=True)`` wrote them (−1 stands for ∞)."""
    pairs = [(turn.values.get("distance.oracle"), turn.values.get("distance.oracle.next")) for turn in group.turns]
    if any(a is None or b is None for a, b in pairs):
        return None
    numbers = np.array(pairs, np.float64).reshape(-1, 2)
    before, after = np.where(numbers < 0.0, np.inf, numbers).T
    return before, after


def _count(kinds: NDArray[np.int64], chosen: NDArray[np.bool_]) -> dict[str, Any]:
    counts = np.bincount(kinds[chosen], minlength=len(CLASSES))
    total = int(counts.sum())
    fractions = {
        name: float(count / total) if total else float("nan") for name, count in zip(CLASSES, counts, strict=True)
    }
    return {"turns": total, **fractions}


def _by_outcome(kinds: NDArray[np.int64], succeeded: NDArray[np.bool_]) -> dict[str, dict[str, Any]]:
    everything = np.ones(len(kinds), np.bool_)
    chosen = {"successful": succeeded, "failed": ~succeeded, "all": everything}
    return {name: _count(kinds, mask) for name, mask in chosen.items()}


def analyse(groups: Sequence[Group], *, key: Literal["state", "text"] = "state", **_: Any) -> Finding:
    """Classify every turn of every group that has a success.

    Args:
        groups: groups of the log.
        key: which key states are compared by.

    Raises:
        NotDefined: no rollout succeeded.
    """
    live = [group for group in groups if group.arrays.success.any() and len(group.turns)]
    if not live:
        raise NotDefined(
            f"needs {NEEDS}: no rollout succeeded in any of the {len(groups)} groups, so no state has a distance"
        )
    kinds, oracle_kinds, succeeded = [], [], []
    for group in live:
        arrays = group.arrays
        kinds.append(classes(arrays.valid, arrays.cost, *_distances(group, key)))
        exact = _oracle_distances(group)
        if exact is not None:  # an oracle counts environment steps, so each turn costs 1
            oracle_kinds.append(classes(arrays.valid, np.ones(len(group.turns)), *exact))
        succeeded.append(arrays.success[arrays.trajectory])
    won = np.concatenate(succeeded)
    left_out = sum(len(group.turns) for group in groups) - len(won)
    numbers: dict[str, Any] = {
        "key": key,
        "groups": len(live),
        "groups_left_out": len(groups) - len(live),
        "turns_left_out": left_out,
        "graph": _by_outcome(np.concatenate(kinds), won),
    }
    tables = [_table("By the group's own graph", numbers["graph"])]
    if len(oracle_kinds) == len(live):
        numbers["oracle"] = _by_outcome(np.concatenate(oracle_kinds), won)
        tables.append(_table("By the environment's oracle", numbers["oracle"]))
    graph = numbers["graph"]
    numbers["useful_in_failed"] = graph["failed"]["shortest"]
    numbers["not_useful_in_successful"] = 1.0 - graph["successful"]["shortest"]
    notes = [
        f"useful turns in failed rollouts: {percent(numbers['useful_in_failed'])} (paper: 22.0%); turns of "
        f"successful ones that were not useful: {percent(numbers['not_useful_in_successful'])} (paper: 65.3%, by a rule that it does not state)"
    ]
    if left_out:
        notes.append(
            f"left out: {len(groups) - len(live)} groups without a success ({left_out} turns), whose states have no "
            "distance"
        )
    return Finding("graphgpo", SOURCE, numbers, tables, notes)


def _table(caption: str, found: dict[str, dict[str, Any]]) -> Table:
    rows = [["rollouts", "turns", *CLASSES]]
    for name, row in found.items():
        rows.append([name, str(row["turns"]), *(percent(row[kind]) for kind in CLASSES)])
    return Table(caption, rows)


def draw(finding: Finding, folder: Path) -> Path:
    """Plot the fractions of the classes in successful and failed rollouts; returns the PNG file."""
    sides = [name for name in ("graph", "oracle") if name in finding.numbers]
    figure = new_figure(7.0, 0.8 + 1.3 * len(sides))
    axes = figure.subplots()
    bars = [
        (f"{outcome}, {side}", finding.numbers[side][outcome]) for side in sides for outcome in ("successful", "failed")
    ]
    start = np.zeros(len(bars))
    for i, kind in enumerate(CLASSES):
        widths = np.nan_to_num([row[kind] for _, row in bars])
        axes.barh(range(len(bars)), widths, left=start, color=COLOURS[i], label=kind)
        start += widths
    axes.set(yticks=range(len(bars)), yticklabels=[name for name, _ in bars], xlim=(0, 1), xlabel="fraction of turns")
    axes.invert_yaxis()
    tidy(axes)
    figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=8)
    return save_figure(figure, folder / "graphgpo.png")
