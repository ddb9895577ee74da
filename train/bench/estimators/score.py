"""Scoring estimators: the document of all results, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from creditflow.train.bench.estimators.conformance import (
    REJECTED,
    SITUATIONS,
    Conformance,
    RandomBatches,
    candidates,
    compare,
)
from creditflow.train.bench.estimators.gradients import METRICS, WORK, gradient_tables
from creditflow.train.bench.estimators.loading import Estimator
from creditflow.train.text_table import text_table

__all__ = ["VERSION", "score_estimators", "scores_text", "unscored"]

VERSION: Final = 1
RIVALS: Final = ("grpo", "rloo", "gigpo", "grouptd_base")
CONTROLS: Final = ("oracle_adv", "shuffled(oracle_adv)")
SHORT: Final = {"equal up to a small number": "equal (ε)"}


def score_estimators(estimators: Sequence[Estimator], preset: str, seed: int) -> dict[str, Any]:
    """Conformance and gradients of estimators, beside our schemes and the controls.

    Args:
        estimators: what to score.
        preset: name of the sizes: "smoke" or "quick".
        seed: seed of batches, tasks and rollouts.
    """
    pool, random = candidates(), RandomBatches(seed)
    rows = []
    for estimator in estimators:
        comparisons = compare(estimator.name, estimator.scheme.function, pool, random)
        rows.append(
            {
                "spec": estimator.spec, "name": estimator.name, "of": estimator.of, "digest": estimator.digest,
                "released": estimator.released,
                "conformance": _conformance(estimator, comparisons),
            }
        )  # fmt: skip
    ours = dict.fromkeys([*(estimator.of for estimator in estimators if estimator.of), *RIVALS])
    names = [*(estimator.name for estimator in estimators), *ours, *CONTROLS]
    return {
        "version": VERSION, "seed": seed, "preset": preset, "estimators": rows,
        "gradients": gradient_tables(names, WORK[preset], seed),
    }  # fmt: skip


def unscored(document: Mapping[str, Any]) -> list[str]:
    """Why estimators have no result, one line each: they failed on every random batch, or no gradient could be measured."""
    reasons = []
    undefined = document["gradients"]["undefined"]
    for row in document["estimators"]:
        name, verdicts = row["name"], row["conformance"]["compared"][0]["verdicts"]
        if all(verdict.startswith(REJECTED) for verdict in verdicts.values()):
            reasons.append(f"{name} scored no random batch: {next(iter(verdicts.values())).removeprefix(REJECTED)}")
        elif all(name in reasons_of for reasons_of in undefined.values()):
            reasons.append(f"no gradient of {name} could be measured: {next(iter(undefined.values()))[name]}")
    return reasons


def _conformance(estimator: Estimator, comparisons: Sequence[Conformance]) -> dict[str, Any]:
    """The comparison with our scheme of its name, and which of all candidates come nearest."""
    nearest = sorted(comparisons, key=lambda each: (-len(each.equal), sum(each.largest.values())))
    namesakes = {f"{estimator.of} (paper)", f"{estimator.of} (release)"} if estimator.of else set()
    named = [each for each in comparisons if each.candidate in namesakes]
    listed = {each.candidate: each for each in (*named, nearest[0])}  # all of them would be a wide table
    return {
        "identified": [each.candidate for each in comparisons if each.identified],
        "nearest": nearest[0].candidate if nearest[0].equal else "",
        "compared": [
            {"with": name, "verdicts": each.verdicts, "largest": each.largest, "first": each.first}
            for name, each in listed.items()
        ],
    }


def scores_text(document: Mapping[str, Any]) -> str:
    """The document as tables."""
    blocks = []
    for row in document["estimators"]:
        conformance = row["conformance"]
        nearest = f"none of our schemes; nearest: {conformance['nearest'] or 'none'}"
        blocks.append(
            f"{row['name']}: {row['spec']}\n  {row['digest']}"
            + "".join(f"\n  {name}: {what}" for name, what in row["released"].items())
            + f"\n  computes {', '.join(conformance['identified']) or nearest}"
        )
        header = ["situation", *(each["with"] for each in conformance["compared"])]
        body = []
        for situation in SITUATIONS:
            verdicts = [each["verdicts"].get(situation, "") for each in conformance["compared"]]
            body.append([situation, *map(_verdict, verdicts)])
        blocks.append(text_table([header, *body]))
        firsts = [
            f"  {each['with']}, {situation}, {text}"
            for each in conformance["compared"]
            for situation, text in list(each["first"].items())[:1]
        ]
        if firsts:
            blocks.append("first differences\n" + "\n".join(firsts))
    for regime, title in (
        ("tables", "Gradients on tables: every group is a batch"),
        ("shared", "Gradients of a policy shared by tasks: a batch has 8"),
    ):
        table = document["gradients"][regime]
        body = []
        for name, values in table.items():
            body.append([name, *(_estimate(values[metric]) for metric in METRICS)])
        blocks.append(f"{title}\n" + text_table([["method", "cos(E g, ∇J)", "bias²", "variance", "gain"], *body]))
        blocks += [f"  {name}: not measured: {why}" for name, why in document["gradients"]["undefined"][regime].items()]
    return "\n\n".join(blocks)


def _verdict(verdict: str) -> str:
    return SHORT.get(verdict, verdict if len(verdict) < 40 else verdict[:39] + "…")


def _estimate(values: Sequence[float | None]) -> str:
    mean, low, high = values
    if mean is None:
        return "–"
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} [{low:.3f}, {high:.3f}]"
