"""Analysis of GDCR's motive: how many of the question's entities does a rollout retrieve, and then never use?

GDCR rewards citations beside retrievals because relevant entities are retrieved and not cited in later thoughts (its introduction and the
figure there, whose numbers are not in the text). An entity of the question's graph is *retrieved* if an observation shows it (O of
eq. 8), *cited* if a later thought names it (T), and *used* if it is cited or the answer names it. The share is over the retrieved
entities of all rollouts, so a rollout counts by what it retrieved. Confidence intervals resample questions with all their rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.analyses.entities import episodes, with_entities
from creditflow.train.analyses.finding import Finding, NotDefined, Table, decimals, percent
from creditflow.train.bench.report.figures import COLOURS, new_figure, save_figure, tidy
from creditflow.train.statistics import N_RESAMPLES, crossed_mean, percentile_interval
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityProgress, EntityReader
from creditflow.wrappers.records.group import Group

__all__ = ["NEEDS", "SOURCE", "Retrieved", "analyse", "draw", "read_group"]

SOURCE: Final = "entities retrieved but not cited, GDCR (arXiv 2605.29697) section 1 and eqs. 5 to 9"
NEEDS: Final = "an entity graph with an answer node, and thoughts"
DISTANCES: Final = ("0", "1", "2", "3 or more", "no path")
OUTCOMES: Final[Mapping[str, bool | None]] = {"all": None, "correct": True, "incorrect": False}
Floats = NDArray[np.float64]


class Retrieved(NamedTuple):
    """The retrieved entities of one group's rollouts, one entry per rollout and entity.

    Attributes:
        distance: int64, index into ``DISTANCES``: edges to the answer.
        cited: bool, a later thought names it.
        used: bool, cited, or named by the answer.
        correct: bool, the rollout's answer was correct.
    """

    distance: NDArray[np.int64]
    cited: NDArray[np.bool_]
    used: NDArray[np.bool_]
    correct: NDArray[np.bool_]


Column = Callable[[Retrieved], tuple[NDArray[np.bool_], NDArray[np.bool_]]]


def read_group(group: Group, graph: EntityGraph, match: Any = "normalized") -> tuple[Retrieved, bool]:
    """The retrieved entities of a group, and whether any of its turns has a thought.

    Args:
        group: group of one question.
        graph: entity graph of its task.
        match: rule by which a text names an entity.
    """
    reader = EntityReader(graph, rule=match)
    distance = graph.distances()
    rows, thinks = [], False
    for turns, answered, correct in episodes(group):
        progress = EntityProgress()
        for turn, retrieved in zip(turns, reader.shown(turns), strict=True):
            thought = reader.thought(turn)
            thinks = thinks or bool(thought.strip())
            progress.step(reader.found(thought), retrieved)
        named = set(reader.found(turns[-1].action)) if answered else set()
        for entity in sorted(progress.seen):
            edges = int(min(distance[entity], 3.0)) if np.isfinite(distance[entity]) else 4
            cited = entity in progress.cited
            rows.append((edges, cited, cited or entity in named, correct))
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Retrieved(columns[0], *(column.astype(np.bool_) for column in columns[1:])), thinks


def _shares(parts: Sequence[Retrieved], columns: Mapping[str, Column]) -> dict[str, dict[str, float]]:
    """Shares with their intervals: by name the marked fraction of the counted entries, over the questions ``parts``.

    Args:
        parts: one per question; each is drawn with all its entries.
        columns: by name, from a question's entries to what is marked and what is counted, bool.
    """
    counts = []
    for question in parts:
        for column in columns.values():
            marked, counted = column(question)
            counts.append(((marked & counted).sum(), counted.sum()))
    sums = np.array(counts, np.float64).reshape(len(parts), len(columns), 2)  # the last axis: marked, counted
    rng, n, drawn = np.random.default_rng(0), len(parts), list[Floats]()
    for _ in range(N_RESAMPLES if n > 1 else 0):
        drawn.append(_ratio(np.tensordot(np.bincount(rng.integers(n, size=n), minlength=n), sums, 1)))
    overall, resampled = _ratio(sums.sum(axis=0)), np.array(drawn).reshape(-1, len(columns))
    out = {}
    for i, name in enumerate(columns):
        repeated = (sums[:, i, 1] > 0).sum() > 1
        low, high = percentile_interval(resampled[:, i]) if repeated else (float("nan"), float("nan"))
        out[name] = {"share": float(overall[i]), "low": low, "high": high}
    return out


def _ratio(sums: Floats) -> Floats:
    """float64 (columns,): marked / counted; nan where nothing is counted."""
    out = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=out, where=sums[:, 1] > 0)
    return out


def _column(kind: Literal["uncited", "unused"], correct: bool | None, far: int | None = None) -> Column:
    """What is marked (not cited, not used), among the entries of this outcome at this distance."""

    def of(part: Retrieved) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        counted = np.ones(len(part.cited), np.bool_) if correct is None else part.correct == correct
        return ~(part.cited if kind == "uncited" else part.used), counted if far is None else counted & (
            part.distance == far
        )

    return of


def _difference(parts: Sequence[Retrieved], kind: Literal["uncited", "unused"]) -> dict[str, float]:
    """Mean over questions with retrieved entities on both sides: the share in incorrect rollouts minus that in correct ones."""
    gaps = []
    for question in parts:
        unused = ~(question.cited if kind == "uncited" else question.used)
        if question.correct.any() and not question.correct.all():
            gaps.append(float(unused[~question.correct].mean() - unused[question.correct].mean()))
    difference = crossed_mean(np.array([gaps])) if gaps else None
    low, high = difference.interval if difference else (float("nan"), float("nan"))
    return {"mean": difference.mean if difference else float("nan"), "low": low, "high": high, "questions": len(gaps)}


def analyse(groups: Sequence[Group], *, match: Any = "normalized", **_: Any) -> Finding:
    """Shares of retrieved entities that are never cited, and never used, by outcome and by distance to the answer.

    Args:
        groups: groups of the log.
        match: rule by which a text names an entity, "normalized" or "exact_substring".

    Raises:
        NotDefined: no question has an answer node, no rollout retrieves an entity of its question, or the log has no thoughts.
    """
    chosen = with_entities(groups, answer=True)
    read = [read_group(group, graph, match) for group, graph in chosen]
    if not any(thinks for _, thinks in read):
        raise NotDefined("needs thoughts: without any, every retrieved entity is uncited")
    questions = [entities for entities, _ in read if len(entities.cited)]
    if not questions:
        raise NotDefined("no observation shows an entity of its question: were texts and entities recorded in the log?")
    kinds: tuple[Literal["uncited", "unused"], ...] = ("uncited", "unused")
    columns = {f"{kind} {name}": _column(kind, value) for kind in kinds for name, value in OUTCOMES.items()}
    columns |= {
        f"{edges} {name}": _column("uncited", v, edges)
        for edges in range(len(DISTANCES))
        for name, v in OUTCOMES.items()
    }
    shares = _shares(questions, columns)
    distance = np.concatenate([question.distance for question in questions])
    correct = np.concatenate([question.correct for question in questions])
    retrieved = {"all": len(correct), "correct": int(correct.sum()), "incorrect": int((~correct).sum())}
    by_outcome: dict[str, dict[str, Any]] = {}
    for name in OUTCOMES:
        by_outcome[name] = {"retrieved": retrieved[name]} | {kind: shares[f"{kind} {name}"] for kind in kinds}
    by_distance: list[dict[str, Any]] = []
    for edges, text in enumerate(DISTANCES):
        row = {"distance": text, "retrieved": int((distance == edges).sum())}
        by_distance.append(row | {name: shares[f"{edges} {name}"] for name in OUTCOMES})
    differences = {kind: _difference(questions, kind) for kind in kinds}
    by_group = [
        {
            "group": group.group_id,
            "retrieved": len(entities.cited),
            "uncited": int((~entities.cited).sum()),
            "unused": int((~entities.used).sum()),
        }
        for (group, _), (entities, _) in zip(chosen, read, strict=True)
    ]
    numbers = {
        "groups": len(chosen), "groups_left_out": len(groups) - len(chosen), "match": match, "by_outcome": by_outcome,
        "incorrect_minus_correct": differences, "by_distance": by_distance, "by_group": by_group,
    }  # fmt: skip
    notes = [
        "uncited: no thought after the retrieval names the entity; unused: nor does the answer; shares are of retrieved entities, "
        f"with 95 % intervals over {len(questions)} questions, resampled with all their rollouts",
        f"incorrect minus correct, mean over the {differences['uncited']['questions']} questions that have both, t interval: uncited "
        f"{_signed(differences['uncited'])}, unused {_signed(differences['unused'])}",
    ]
    if numbers["groups_left_out"]:
        notes.append(f"left out: {numbers['groups_left_out']} groups whose question has no answer node")
    return Finding("uncited", SOURCE, numbers, [_outcome_table(by_outcome), _distance_table(by_distance)], notes)


def _text(found: Mapping[str, float]) -> str:
    interval = f" [{percent(found['low'])}, {percent(found['high'])}]"
    return percent(found["share"]) + ("" if np.isnan(found["low"]) else interval)


def _signed(found: Mapping[str, float]) -> str:
    return f"{decimals(found['mean'])} [{decimals(found['low'])}, {decimals(found['high'])}]"


def _outcome_table(by_outcome: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = [["rollouts", "retrieved", "uncited [95 % CI]", "unused [95 % CI]"]]
    rows += [[n, str(row["retrieved"]), _text(row["uncited"]), _text(row["unused"])] for n, row in by_outcome.items()]
    return Table("Retrieved entities that are never used, by outcome", rows)


def _distance_table(by_distance: Sequence[Mapping[str, Any]]) -> Table:
    rows = [["edges to the answer", "retrieved", *(f"uncited, {name}" for name in OUTCOMES)]]
    for row in by_distance:
        shares = (_text(row[name]) for name in OUTCOMES)
        rows.append([row["distance"], str(row["retrieved"]), *shares])
    return Table("Uncited among retrieved entities, by distance", rows)


def draw(finding: Finding, folder: Path) -> Path:
    """Plot the uncited share by distance, of correct and incorrect rollouts; returns the PNG file."""
    figure = new_figure(5.0, 3.6)
    axes = figure.subplots()
    rows = finding.numbers["by_distance"]
    for i, name in enumerate(("correct", "incorrect")):
        defined = [(at, row[name]) for at, row in enumerate(rows) if not np.isnan(row[name]["share"])]
        axes.errorbar(
            [at + 0.12 * (i - 0.5) for at, _ in defined], [share["share"] for _, share in defined],
            yerr=np.nan_to_num([[share["share"] - share["low"], share["high"] - share["share"]] for _, share in defined]).reshape(-1, 2).T,
            fmt="o", capsize=3, color=COLOURS[i], label=name,
        )  # fmt: skip
    axes.set(
        xlabel="edges to the answer", ylabel="uncited among retrieved entities", ylim=(-0.03, 1.03),
        xticks=range(len(rows)), xticklabels=[row["distance"] for row in rows],
    )  # fmt: skip
    axes.legend(frameon=False)
    tidy(axes)
    return save_figure(figure, folder / "uncited.png")
