"""Analysis of GDCR: do correct rollouts come nearer to the answer in the entity graph, and earlier?

Per turn ("step" in the paper) the distance d_t = min d(v) over newly cited or retrieved entities (eq. 16) and the best so
far (eq. 17), as in the paper's table 1; and the correlation of the step reward (eq. 12) with the correctness of the
rollout. The turn with the answer is excluded, as in the paper. Turns of one rollout are not independent, so the confidence
interval resamples questions, and there is no p-value.

  python -m creditflow.train.analyses.gdcr LOG.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.analyses import finding
from creditflow.train.analyses.entities import episodes, with_entities
from creditflow.train.analyses.finding import Finding, NotDefined, Table, decimals, run_analysis
from creditflow.train.arguments.programs import run_program
from creditflow.train.statistics import pearson
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityProgress, EntityReader
from creditflow.wrappers.records.group import Group

__all__ = ["SOURCE", "add_arguments", "analyse", "clustered_correlation", "read_group", "run"]

SOURCE: Final = "distance to the answer by step, GDCR (arXiv 2605.29697) eqs. 12, 16, 17 and table 1"
DECAY: Final = 2.0
MAX_STEPS: Final = 30  # rows of the table


class _Rollout(NamedTuple):
    """One rollout by step, without the turn of the answer; arrays are float64 (steps,).

    Attributes:
        distance: minimum distance of the newly cited or retrieved entities to the answer; nan if there are none.
        best: minimum of the distances so far; nan before the first.
        reward: step reward (eq. 12).
        correct: whether the answer was correct.
    """

    distance: NDArray[np.float64]
    best: NDArray[np.float64]
    reward: NDArray[np.float64]
    correct: bool


def read_group(group: Group, graph: EntityGraph, match: Any = "normalized") -> list[_Rollout]:
    """The group's rollouts, step by step.

    Args:
        group: group of one question.
        graph: entity graph of its task.
        match: rule by which a text names an entity.
    """
    reader = EntityReader(graph, rule=match)
    distance, contribution = graph.distances(), graph.contributions(DECAY)
    out = []
    for turns, answered, correct in episodes(group):
        progress = EntityProgress()
        steps = turns[:-1] if answered else turns
        nearest, rewards = [], []
        for turn, retrieved in zip(steps, reader.shown(turns), strict=False):
            cited, seen = progress.step(reader.found(reader.thought(turn)), retrieved)
            new = [*cited, *seen]
            nearest.append(float(distance[new].min(initial=np.inf)))
            rewards.append(float(contribution[new].sum()))
        d = np.array(nearest, np.float64)
        best = np.minimum.accumulate(d)
        out.append(_Rollout(_known(d), _known(best), np.array(rewards, np.float64), correct))
    return out


def _known(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(distance), distance, np.nan)


def clustered_correlation(
    x: Sequence[NDArray[np.float64]],
    y: Sequence[NDArray[np.float64]],
    *,
    n_resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Pearson's r over all entries, and its 95 % percentile interval from resampling clusters; nan where undefined.

    Args:
        x, y: one array per cluster, of equal lengths in x and y.
        n_resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
    """
    every_x, every_y = np.concatenate(x), np.concatenate(y)
    r = pearson(every_x, every_y)
    if len(x) < 2 or np.isnan(r):
        return r, float("nan"), float("nan")
    clusters = np.split(np.arange(len(every_x)), np.cumsum([len(cluster) for cluster in x])[:-1])
    drawn = np.random.default_rng(seed).integers(len(clusters), size=(n_resamples, len(clusters)))
    resamples = [np.concatenate([clusters[i] for i in row]) for row in drawn]
    low, high = np.nanquantile([pearson(every_x[at], every_y[at]) for at in resamples], [0.025, 0.975])
    return r, float(low), float(high)


def _by_step(rollouts: Sequence[_Rollout]) -> list[dict[str, Any]]:
    rows = []
    for t in range(max((len(r.best) for r in rollouts), default=0)):
        row: dict[str, Any] = {"step": t + 1}
        for name, correct in (("correct", True), ("incorrect", False)):
            active = [r for r in rollouts if r.correct is correct and len(r.best) > t]
            row[name] = {
                "rollouts": len(active),
                "best": _mean([r.best[t] for r in active]),
                "distance": _mean([r.distance[t] for r in active]),
                "nothing_yet": int(sum(np.isnan(r.best[t]) for r in active)),
            }
        row["difference"] = row["correct"]["best"] - row["incorrect"]["best"]
        rows.append(row)
    return rows


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


def analyse(groups: Sequence[Group], *, match: Any = "normalized") -> Finding:
    """Distances by step, and correlations.

    Args:
        groups: groups of the log.
        match: rule by which a text names an entity, "normalized" or "exact_substring".

    Raises:
        NotDefined: no question has an answer node, or no turn retrieves or names an entity.
    """
    chosen = with_entities(groups, answer=True)
    by_group = [read_group(group, graph, match) for group, graph in chosen]
    rollouts = [r for group in by_group for r in group]
    steps = sum(len(r.reward) for r in rollouts)
    if not any(r.reward.any() for r in rollouts):
        raise NotDefined(
            f"no turn of {len(rollouts)} rollouts retrieves or cites an entity of its question: were texts and entities "
            "recorded in the log?"
        )
    with_turns = [[*filter(lambda r: len(r.reward), rollouts_of)] for rollouts_of in by_group]
    clusters = list(filter(None, with_turns))
    rewards, of_turns, sums, of_rollouts = [], [], [], []
    for group in clusters:
        correct = np.array([r.correct for r in group], np.float64)
        rewards.append(np.concatenate([r.reward for r in group]))
        of_turns.append(np.repeat(correct, [len(r.reward) for r in group]))
        sums.append(np.array([r.reward.sum() for r in group]))
        of_rollouts.append(correct)
    by_turn = clustered_correlation(rewards, of_turns)
    by_rollout = clustered_correlation(sums, of_rollouts)
    rows = _by_step(rollouts)
    named = ("r", "low", "high")
    numbers = {
        "groups": len(chosen),
        "groups_left_out": len(groups) - len(chosen),
        "correct": sum(r.correct for r in rollouts),
        "incorrect": sum(not r.correct for r in rollouts),
        "steps": steps,
        "match": match,
        "by_step": rows,
        "correlation_of_steps": dict(zip(named, by_turn, strict=True)),
        "correlation_of_rollouts": dict(zip(named, by_rollout, strict=True)),
    }
    notes = [
        "best: mean over the rollouts that have not ended and have found an entity with a path to the answer; rollouts that "
        "end drop out of later rows, so a column may increase",
        f"step reward and correctness: r = {_interval(by_turn)} over {steps} steps (paper: 0.334); reward of a whole "
        f"rollout and correctness: r = {_interval(by_rollout)} over {len(rollouts)} rollouts; 95 % confidence intervals resample "
        "questions",
    ]
    if len(rows) > MAX_STEPS:
        notes.append(f"{len(rows) - MAX_STEPS} later steps are in the JSON only")
    if numbers["groups_left_out"]:
        notes.append(f"left out: {numbers['groups_left_out']} groups whose question has no answer node")
    return Finding("gdcr", SOURCE, numbers, [_table(rows[:MAX_STEPS])], notes)


def _interval(found: tuple[float, float, float]) -> str:
    r, low, high = found
    return f"{decimals(r)} [{decimals(low)}, {decimals(high)}]"


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    out = [["step", "correct", "best", "none yet", "incorrect", "best", "none yet", "difference"]]
    for row in rows:
        cells = [str(row["step"])]
        for name in ("correct", "incorrect"):
            side = row[name]
            cells += [str(side["rollouts"]), decimals(side["best"]), str(side["nothing_yet"])]
        out.append([*cells, decimals(row["difference"])])
    return Table("Best distance to the answer so far, of correct and incorrect rollouts", out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    finding.add_arguments(parser)
    parser.add_argument(
        "--match", choices=["normalized", "exact_substring"], default="normalized",
        help="when a text mentions an entity: by normalised words, or by the exact phrase (default %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the analysis of a log."""
    return run_analysis(analyse, args, match=args.match)


if __name__ == "__main__":
    sys.exit(run_program("creditflow.train.analyses.gdcr"))
