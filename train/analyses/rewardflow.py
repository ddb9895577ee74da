"""Analysis of RewardFlow: how often rollouts repeat each other's states (its figure 4, eq. 1).

Unique and total states by group size are exact means over all sub-groups of g of the G rollouts: a state that m rollouts
visit is missing from C(G − m, g) of the C(G, g) sub-groups.

  python -m creditflow.train.analyses.rewardflow LOG.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import comb
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.train.analyses import finding
from creditflow.train.analyses.finding import Finding, NotDefined, Table, decimals, percent, run_analysis
from creditflow.train.arguments.programs import run_program
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import OPEN

__all__ = ["SOURCE", "add_arguments", "analyse", "expected_unique", "run"]

SOURCE: Final = "repeated states, RewardFlow (arXiv 2603.18859) eq. 1, figure 4"


def expected_unique(visits: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Expected number of distinct items among g of G rollouts drawn without replacement, for g = 1 … G.

    Args:
        visits: int (K,), for each item the number of rollouts that contain it, ≥ 1.
        size: G.

    Returns:
        float64 (G,).
    """
    items = np.bincount(visits, minlength=size + 1)
    seen = [(m, int(count)) for m, count in enumerate(items) if m and count]

    def expected_states(g: int) -> float:
        return sum_in_order(count * (1.0 - comb(size - m, g) / comb(size, g)) for m, count in seen)

    return np.array([expected_states(g) for g in range(1, size + 1)])


def _num_owners(labels: NDArray[np.int64], owner: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """int (K,): for each distinct label the number of different owners."""
    pairs = np.unique(np.stack([labels, owner.astype(np.int64)]), axis=1)
    _, counts = np.unique(pairs[0], return_counts=True)
    return counts.astype(np.int64)


def _curves(group: Group, key: Literal["state", "text"]) -> NDArray[np.float64]:
    """float64 (3, G): expected distinct states, distinct transitions and turns of sub-groups of 1 … G rollouts.

    A branch has visited what its prefix did, with or without its parent; a turn that several of them share counts once.
    """
    arrays, index, episodes = group.arrays, group.states(key), group.episode_index
    end = np.where(arrays.last, arrays.end[arrays.trajectory], OPEN).astype(np.int64)
    state = index.state.astype(np.int64)
    after = index.next_state.astype(np.int64) * 4 + end
    edge = (state * max(len(arrays.actions), 1) + arrays.action) * (4 * len(index.keys)) + after
    turn = np.arange(len(state))
    owners = [_num_owners(labels[episodes.stored], episodes.episode) for labels in (state, edge, turn)]
    return np.stack([expected_unique(visits, arrays.size) for visits in owners])


def _by_size(groups: Sequence[Group], key: Literal["state", "text"]) -> list[dict[str, Any]]:
    """For every sub-group size the means over all groups that have at least as many rollouts."""
    curves = [_curves(group, key) for group in groups]
    rows = []
    for g in range(1, max(len(group) for group in groups) + 1):
        at_size = np.array([curve[:, g - 1] for curve in curves if curve.shape[1] >= g])
        states, edges, turns = at_size.mean(axis=0).tolist()
        rows.append(
            {
                "rollouts": g,
                "groups": len(at_size),
                "turns": turns,
                "states": states,
                "state_share": states / turns,
                "transitions": edges,
                "transition_share": edges / turns,
            }
        )
    return rows


def analyse(groups: Sequence[Group], *, key: Literal["state", "text"] = "state") -> Finding:
    """Unique among visited states, by number of rollouts.

    Args:
        groups: groups of the log.
        key: the key by which states are compared.

    Raises:
        NotDefined: the log has no turns.
    """
    live = [group for group in groups if len(group.turns)]
    if not live:
        raise NotDefined("needs turns: the log has none")
    sizes = _by_size(live, key)
    table = [["rollouts", "groups", "states visited", "unique", "fraction", "unique transitions", "fraction"]]
    for row in sizes:
        cells = [str(row["rollouts"]), str(row["groups"]), decimals(row["turns"], 1)]
        for name in ("state", "transition"):
            cells += [decimals(row[f"{name}s"], 1), percent(row[f"{name}_share"])]
        table.append(cells)
    notes = ["a state visit is a turn; unique states are those acted in; fractions are of the visits"]
    if len({len(group) for group in live}) > 1:
        notes.append("groups differ in size: rows of more rollouts are means over the larger groups only")
    numbers = {"key": key, "groups": len(live), "by_size": sizes}
    return Finding("rewardflow", SOURCE, numbers, [Table("Unique among visited, by number of rollouts", table)], notes)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    finding.add_arguments(parser)
    parser.add_argument(
        "--key", choices=["state", "text"], default="state", help="key by which two states are equal (default state)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the analysis of a log."""
    return run_analysis(analyse, args, key=args.key)


if __name__ == "__main__":
    sys.exit(run_program("creditflow.train.analyses.rewardflow"))
