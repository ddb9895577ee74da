"""Analyses of three papers on a log: repeated states (RewardFlow), entities that rollouts name (E-GRPO), distance to the answer (GDCR).

  python tests/evidence/papers.py rewardflow LOG.jsonl
  python tests/evidence/papers.py egrpo LOG.jsonl
  python tests/evidence/papers.py gdcr LOG.jsonl

RewardFlow: the unique states of a group (eq. 1) and their fraction of all visits, by number of rollouts (figure 4). A
sub-group of g of G rollouts contains a state that m rollouts visit, except in C(G − m, g) of the C(G, g) sub-groups.

E-GRPO: the match rate of a rollout is the fraction of the question's entities that its thoughts name (eq. 2), divided by the
best of its group (eq. 3). Figure 1 shows histograms of the normalised rate (bottom) and the number of questions in which
correct rollouts name more entities than incorrect ones (top), here with an exact sign test. Figure 5 is the same for whole
trajectories, with queries, results and answers.

GDCR: per turn ("step" in the paper) the distance d_t = min d(v) over newly cited or retrieved entities (eq. 16) and the best so
far (eq. 17), as in table 1; and the correlation of the step reward (eq. 12) with the correctness of the rollout. The turn
with the answer is excluded, as in the paper. Turns of one rollout are not independent, so the confidence interval resamples
questions, and there is no p-value.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.reading.plain_data import nan_as_none
from creditflow.envs.sums import sum_in_order
from creditflow.train.arguments.outputs import add_json, add_log_argument, read_log
from creditflow.train.arguments.programs import run_program
from creditflow.train.statistics import pearson, scipy_module
from creditflow.train.text_table import decimals, percent, text_table
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityProgress, EntityReader
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import ANSWERED, OPEN
from creditflow.wrappers.records.trajectory import Turn

__all__ = [
    *(
        "ANALYSES",
        "BINS",
        "Finding",
        "NotDefinedError",
        "add_arguments",
        "answer_distances",
        "bins",
        "clustered_correlation",
    ),
    *("expected_unique", "match_rates", "read_group", "repeated_states", "run"),
]

BINS: Final = ("0", "(0, ¼]", "(¼, ½]", "(½, ¾]", "(¾, 1)", "1")
SCOPES: Final = ("thoughts", "trajectory")
DECAY: Final = 2.0
MAX_STEPS: Final = 30  # rows of the table
_EQUAL: Final = 1e-12  # rates are ratios of small integers


class NotDefinedError(DataError):
    """An analysis is not applicable to a log; the message gives the reason and the data that are missing."""


@dataclass(frozen=True)
class Finding:
    """The result of one analysis.

    Attributes:
        source: table or figure of the paper.
        numbers: all results, with nan where undefined.
        caption, rows: a table for readers, header first.
        notes: how to read it.
    """

    source: str
    numbers: dict[str, Any]
    caption: str
    rows: list[list[str]]
    notes: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    parser.add_argument("paper", choices=ANALYSES, help=f"analysis, one of: {', '.join(ANALYSES)}")
    add_log_argument(parser)
    add_json(parser, "print the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the analysis of a log.

    Raises:
        NotDefinedError: the log lacks what the analysis needs.
    """
    finding = ANALYSES[args.paper](read_log(args))
    if args.json:
        numbers = {"source": finding.source, **finding.numbers, "notes": finding.notes}
        print(json.dumps(nan_as_none(numbers), indent=1, allow_nan=False))
        return 0
    notes = "\n".join(f"- {note}" for note in finding.notes)
    print("\n\n".join([f"{args.paper}: {finding.source}", finding.caption, text_table(finding.rows), notes]))
    return 0


# RewardFlow


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


def repeated_states(groups: Sequence[Group], *, key: Literal["state", "text"] = "state") -> Finding:
    """Unique among visited states, by number of rollouts: means over all groups that have at least as many.

    Args:
        groups: groups of the log.
        key: the key by which states are compared.

    Raises:
        NotDefinedError: the log has no turns.
    """
    live = [group for group in groups if len(group.turns)]
    if not live:
        raise NotDefinedError("needs turns: the log has none")
    curves = [_curves(group, key) for group in live]
    sizes, table = (
        [],
        [["rollouts", "groups", "states visited", "unique", "fraction", "unique transitions", "fraction"]],
    )
    for g in range(1, max(map(len, live)) + 1):
        at_size = np.array([curve[:, g - 1] for curve in curves if curve.shape[1] >= g])
        states, edges, turns = at_size.mean(axis=0).tolist()
        row = {"rollouts": g, "groups": len(at_size), "turns": turns, "states": states, "state_share": states / turns}
        sizes.append(row | {"transitions": edges, "transition_share": edges / turns})
        visited = [str(g), str(len(at_size)), decimals(turns, 1)]
        unique = [decimals(states, 1), percent(states / turns), decimals(edges, 1), percent(edges / turns)]
        table.append(visited + unique)
    notes = ["a state visit is a turn; unique states are those acted in; fractions are of the visits"]
    if len(set(map(len, live))) > 1:
        notes.append("groups differ in size: rows of more rollouts are means over the larger groups only")
    return Finding(
        "repeated states, RewardFlow (arXiv 2603.18859) eq. 1, figure 4",
        {"key": key, "groups": len(live), "by_size": sizes},
        "Unique among visited, by number of rollouts",
        table,
        notes,
    )


# Groups with entities


class _Episode(NamedTuple):
    """A complete rollout: its turns, whether it ended with an answer, and whether the answer was correct."""

    turns: tuple[Turn, ...]
    answered: bool
    correct: bool


def _episodes(group: Group) -> list[_Episode]:
    """The group's rollouts; that of a branch begins with its prefix."""
    return [
        _Episode(turns, member.stop_reason in ANSWERED, member.success)
        for member, turns in zip(group.trajectories, group.episodes, strict=True)
    ]


def _with_entities(groups: Sequence[Group], *, answer: bool) -> list[tuple[Group, EntityGraph]]:
    """The groups whose task has entities (and, with ``answer``, an answer node), with their entity graphs.

    Raises:
        NotDefinedError: there are no such groups.
    """
    graphs = [(group, EntityGraph.from_task(group.task)) for group in groups]
    named = [(group, graph) for group, graph in graphs if len(graph)]
    chosen = [(group, graph) for group, graph in named if graph.answer >= 0] if answer else named
    if not chosen:
        requirement = "an entity graph with an answer node" if answer else "the question's entities"
        unanswered = ", the others no answer node: open the question file with answers=virtual" if named else ""
        raise NotDefinedError(
            f"needs {requirement} in the task's payload ('entities', 'edges', 'answer_node'); {len(graphs) - len(named)} of "
            f"{len(graphs)} groups have no entities at all{unanswered}"
        )
    return chosen


# E-GRPO


def bins(rates: NDArray[np.float64]) -> NDArray[np.int64]:
    """int64 (6,): how many rates lie in each of ``BINS``; exactly 0 and exactly 1 have bins of their own."""
    inner = np.clip(np.ceil(4.0 * rates - _EQUAL), 1, 4)
    where = np.where(rates <= _EQUAL, 0, np.where(rates >= 1.0 - _EQUAL, 5, inner)).astype(np.int64)
    return np.bincount(where, minlength=len(BINS))


def _rates(reader: EntityReader, played: Sequence[_Episode]) -> dict[str, NDArray[np.float64]]:
    """float64 (rollouts,) per scope: the match rate of each rollout, in [0, 1]."""
    thought_rates, whole_rates = [], []
    for turns, _, _ in played:
        thoughts = {v for turn in turns for v in reader.matcher.found(reader.thought(turn))}
        in_actions = {v for turn in turns for v in reader.matcher.found(turn.action)}
        retrieved = {v for step in reader.shown(turns) for v in step}
        thought_rates.append(len(thoughts) / max(reader.countable, 1))
        whole_rates.append(len(thoughts | in_actions | retrieved) / max(reader.countable, 1))
    return {"thoughts": np.array(thought_rates), "trajectory": np.array(whole_rates)}


def _scope(per_group: Sequence[NDArray[np.float64]], correct: Sequence[NDArray[np.bool_]]) -> dict[str, Any]:
    """Histograms, means and the sign test of one scope."""
    binomtest = scipy_module("stats").binomtest

    rate = np.concatenate(per_group)
    normalised = np.concatenate([rates / rates.max() if rates.max() > 0.0 else rates for rates in per_group])
    is_correct = np.concatenate(correct)
    gaps = np.array(
        [r[c].mean() - r[~c].mean() for r, c in zip(per_group, correct, strict=True) if c.any() and not c.all()]
    )
    more, less = int((gaps > _EQUAL).sum()), int((gaps < -_EQUAL).sum())
    sides = {}
    for name, mask in (("correct", is_correct), ("incorrect", ~is_correct)):
        n = int(mask.sum())
        sides[name] = {
            "rollouts": n,
            "rate": float(rate[mask].mean()) if n else float("nan"),
            "normalised": float(normalised[mask].mean()) if n else float("nan"),
            "histogram": dict(zip(BINS, bins(normalised[mask]).tolist(), strict=True)),
        }
    return {
        **sides,
        "questions": len(gaps),
        "correct_higher": more,
        "incorrect_higher": less,
        "equal": len(gaps) - more - less,
        "sign_test_p": float(binomtest(more, more + less).pvalue) if more + less else float("nan"),
    }


def match_rates(groups: Sequence[Group], *, match: Any = "exact_substring") -> Finding:
    """Match rates in thoughts and in whole trajectories.

    Args:
        groups: groups of the log.
        match: rule by which a text names an entity: "exact_substring" (paper: the full name only) or "normalized" (words,
            aliases too).

    Raises:
        NotDefinedError: no question has entities, or no text names any.
    """
    chosen = _with_entities(groups, answer=False)
    correct, rates = [], {scope: list[NDArray[np.float64]]() for scope in SCOPES}
    thinks = False
    for group, graph in chosen:
        reader = EntityReader(graph, rule=match, aliases=match == "normalized")
        played = _episodes(group)
        thinks = thinks or any(reader.thought(turn).strip() for turns, _, _ in played for turn in turns)
        for scope, values in _rates(reader, played).items():
            rates[scope].append(values)
        correct.append(np.array([episode.correct for episode in played], np.bool_))
    if not any(values.any() for values in rates["trajectory"]):
        raise NotDefinedError("no text of the log mentions an entity of its question; were texts recorded in the log?")
    scopes = [scope for scope in SCOPES if scope == "trajectory" or thinks]
    numbers: dict[str, Any] = {"groups": len(chosen), "groups_left_out": len(groups) - len(chosen), "match": match}
    numbers |= {scope: _scope(rates[scope], correct) for scope in scopes}
    table = [["in", "rollouts", "", "rate", "normalised", *BINS]]
    for scope in scopes:
        for side in ("correct", "incorrect"):
            row = numbers[scope][side]
            total = row["rollouts"] or float("nan")
            fractions = [percent(n / total, 0) for n in row["histogram"].values()]
            rate, normalised = decimals(row["rate"]), decimals(row["normalised"])
            table.append([scope, side, str(row["rollouts"]), rate, normalised, *fractions])
    notes = [_comparison(scope, numbers[scope]) for scope in scopes]
    if not thinks:
        notes.append("the log contains no thoughts, which the paper matches: only whole trajectories can be compared")
    if numbers["groups_left_out"]:
        notes.append(f"left out: {numbers['groups_left_out']} groups whose question has no entities")
    return Finding(
        "entity match rates, E-GRPO eqs. 1 to 3, figures 1 and 5",
        numbers,
        "Match rate, and the distribution of the rate normalised by the group's best",
        table,
        notes,
    )


def _comparison(scope: str, numbers: dict[str, Any]) -> str:
    if not numbers["questions"]:
        return f"{scope}: no question has both correct and incorrect rollouts to compare"
    return (
        f"{scope}: correct rollouts name more entities in {numbers['correct_higher']} of {numbers['questions']} questions, fewer in "
        f"{numbers['incorrect_higher']}, equally many in {numbers['equal']}; sign test p = {numbers['sign_test_p']:.2g} (paper: more "
        "in 1939, fewer in 487)"
    )


# GDCR


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
    rollouts = []
    for turns, answered, correct in _episodes(group):
        progress = EntityProgress()
        steps = turns[:-1] if answered else turns
        nearest, rewards = [], []
        for turn, retrieved in zip(steps, reader.shown(turns), strict=False):
            cited, seen = progress.step(reader.found(reader.thought(turn)), retrieved)
            new = [*cited, *seen]
            nearest.append(float(distance[new].min(initial=np.inf)))
            rewards.append(float(contribution[new].sum()))
        d = np.array(nearest, np.float64)
        reached, best = (np.where(np.isfinite(x), x, np.nan) for x in (d, np.minimum.accumulate(d)))
        rollouts.append(_Rollout(reached, best, np.array(rewards, np.float64), correct))
    return rollouts


def clustered_correlation(
    x: Sequence[NDArray[np.float64]], y: Sequence[NDArray[np.float64]], *, n_resamples: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """Pearson's r over all entries, and its 95 % percentile interval from resampling clusters; nan where undefined.

    Args:
        x, y: one array per cluster, of equal lengths in x and y.
        n_resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
    """
    r = pearson(np.concatenate(x), np.concatenate(y))
    if len(x) < 2 or np.isnan(r):
        return r, float("nan"), float("nan")
    drawn = np.random.default_rng(seed).integers(len(x), size=(n_resamples, len(x)))
    resampled = []
    for row in drawn:
        of_x, of_y = np.concatenate([x[i] for i in row]), np.concatenate([y[i] for i in row])
        resampled.append(pearson(of_x, of_y))
    low, high = np.nanquantile(resampled, [0.025, 0.975])
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


def answer_distances(groups: Sequence[Group], *, match: Any = "normalized") -> Finding:
    """Distances to the answer by step, and correlations.

    Args:
        groups: groups of the log.
        match: rule by which a text names an entity, "normalized" or "exact_substring".

    Raises:
        NotDefinedError: no question has an answer node, or no turn retrieves or names an entity.
    """
    chosen = _with_entities(groups, answer=True)
    by_group = [read_group(group, graph, match) for group, graph in chosen]
    rollouts = [r for group in by_group for r in group]
    steps = sum(len(r.reward) for r in rollouts)
    if not any(r.reward.any() for r in rollouts):
        raise NotDefinedError(
            f"no turn of {len(rollouts)} rollouts retrieves or cites an entity of its question: were texts and entities "
            "recorded in the log?"
        )
    rewards, of_turns, sums, of_rollouts = [], [], [], []
    for group in by_group:
        cluster = [r for r in group if len(r.reward)]
        if not cluster:
            continue
        correct = np.array([r.correct for r in cluster], np.float64)
        rewards.append(np.concatenate([r.reward for r in cluster]))
        of_turns.append(np.repeat(correct, [len(r.reward) for r in cluster]))
        sums.append(np.array([r.reward.sum() for r in cluster]))
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
    table = [["step", "correct", "best", "none yet", "incorrect", "best", "none yet", "difference"]]
    for row in rows[:MAX_STEPS]:
        sides = [row["correct"], row["incorrect"]]
        cells = [[str(side["rollouts"]), decimals(side["best"]), str(side["nothing_yet"])] for side in sides]
        table.append([str(row["step"]), *cells[0], *cells[1], decimals(row["difference"])])
    intervals = [f"{decimals(r)} [{decimals(low)}, {decimals(high)}]" for r, low, high in (by_turn, by_rollout)]
    notes = [
        "best: mean over the rollouts that have not ended and have found an entity with a path to the answer; rollouts that "
        "end drop out of later rows, so a column may increase",
        f"step reward and correctness: r = {intervals[0]} over {steps} steps (paper: 0.334); reward of a whole "
        f"rollout and correctness: r = {intervals[1]} over {len(rollouts)} rollouts; 95 % confidence intervals resample questions",
    ]
    if len(rows) > MAX_STEPS:
        notes.append(f"{len(rows) - MAX_STEPS} later steps are in the JSON only")
    if numbers["groups_left_out"]:
        notes.append(f"left out: {numbers['groups_left_out']} groups whose question has no answer node")
    return Finding(
        "distance to the answer by step, GDCR (arXiv 2605.29697) eqs. 12, 16, 17 and table 1",
        numbers,
        "Best distance to the answer so far, of correct and incorrect rollouts",
        table,
        notes,
    )


ANALYSES: Final[dict[str, Callable[..., Finding]]] = {
    "rewardflow": repeated_states,
    "egrpo": match_rates,
    "gdcr": answer_distances,
}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(run_program("evidence.papers"))
