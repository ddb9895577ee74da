"""Scoring estimators: the document of all results, and its tables.

The gradient of an estimator is measured for unbiasedness and improvement, on tables and with a policy shared by many tasks.
On tables every group is a batch of its own; with a shared policy a batch has many tasks, so that normalisation over
the batch shows. Samples are tasks (tables) and layout seeds (shared policy).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.estimators.conformance import (
    REJECTED,
    SITUATIONS,
    Conformance,
    RandomBatches,
    candidates,
    compare,
)
from creditflow.train.bench.estimators.loading import Estimator
from creditflow.train.bench.exact.cells import starts_of
from creditflow.train.bench.exact.offline import measure
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.report.statistics import CellMeans, Estimate
from creditflow.train.bench.shared.cells import SharedCell, start_of
from creditflow.train.bench.shared.metrics import measure_shared
from creditflow.train.text_table import text_table

__all__ = ["VERSION", "WORK", "score_estimators", "scores_text", "unscored"]

VERSION: Final = 1
RIVALS: Final = ("grpo", "rloo", "gigpo", "grouptd_base")
CONTROLS: Final = ("oracle_adv", "shuffled(oracle_adv)")
SHORT: Final = {"equal up to a small number": "equal (ε)"}
BATCH: Final = 8


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


# M1 and M3: bias; M2: improvement by one small step
METRICS: Final = ("cos_mean", "bias2", "variance", "gain")


@dataclass(frozen=True)
class GradientWork:
    """Sizes.

    Attributes:
        kinds: kinds of grid.
        tasks: tasks of each kind, as tables.
        groups: groups per task.
        size: rollouts in a group.
        success: success rate of the initial policies.
        units: layout seeds of the shared policy.
        batches: batches per layout seed, of 8 tasks.
    """

    kinds: tuple[str, ...]
    tasks: int
    groups: int
    units: int
    batches: int
    size: int = 8
    success: float = 0.25


WORK: Final[Mapping[str, GradientWork]] = {
    "smoke": GradientWork(("pits",), 2, 8, 2, 2),
    "quick": GradientWork(("open", "pits", "slip"), 4, 100, 4, 12),
}


def gradient_tables(names: Sequence[str], work: GradientWork, seed: int) -> dict[str, Any]:
    """Metrics of methods in both regimes, and the reasons why methods have none.

    Returns:
        "tables" and "shared", each by method and metric [mean, low, high]; "undefined" by regime and method.
    """
    tables, undefined_tables = _tables(names, work, seed)
    shared, undefined_shared = _shared(names, work, seed)
    return {
        "tables": tables, "shared": shared, "work": asdict(work),
        "undefined": {"tables": undefined_tables, "shared": undefined_shared},
    }  # fmt: skip


def _tables(names: Sequence[str], work: GradientWork, seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    def measured(kind: str) -> Iterator[tuple[str, Any]]:
        starts = starts_of("grids", kind, work.success, seed, work.tasks)
        if not starts:
            raise ConfigError(f"no grid of kind {kind!r} has an initial policy of success {work.success}")
        for number, (mdp, logits) in enumerate(starts):
            rng = np.random.default_rng([seed, number, 5])
            yield mdp.name, measure(mdp, logits, names, rng, size=work.size, groups=work.groups)

    return _estimates(names, work.kinds, measured)


def _shared(names: Sequence[str], work: GradientWork, seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    sizes = SharedWork(
        units=work.units, train=2 * BATCH, held_out=0, groups=work.batches * BATCH, updates=0, every=1, kinds=work.kinds
    )

    def measured(kind: str) -> Iterator[tuple[str, Any]]:
        # one aggregation for all, in which the sum over turns is that of the policy gradient
        cell = SharedCell(kind, batch=BATCH, size=work.size, success=work.success, aggregation="token_mean")
        for unit in range(work.units):
            tasks, policy = start_of(cell, sizes, seed, unit)
            yield f"{kind} {unit}", measure_shared(
                policy, [task.mdp for task in tasks], range(len(tasks)), range(0), names,
                np.random.default_rng([seed, unit, 6]), sampling=cell.sampling, batches=work.batches,
            )  # fmt: skip

    return _estimates(names, work.kinds, measured)


def _estimates(
    names: Sequence[str], kinds: Sequence[str], measured: Callable[[str], Iterator[tuple[str, Any]]]
) -> tuple[dict[str, dict[str, list[float | None]]], dict[str, str]]:
    """Estimates by method and metric over the named tasks of every kind, and the reason by method if one is undefined."""
    of_kinds = {kind: list(measured(kind)) for kind in kinds}
    undefined = {name: why for of_kind in of_kinds.values() for _, m in of_kind for name, why in m.undefined.items()}
    means = CellMeans(
        [{"kind": kind, "task_names": [task for task, _ in of_kind]} for kind, of_kind in of_kinds.items()]
    )
    estimates = dict[str, dict[str, list[float | None]]]()
    for name in names:
        if name in undefined:
            continue
        estimates[name] = {}
        for metric in METRICS:
            values = [[getattr(m.methods[name], metric) for _, m in of_kind] for of_kind in of_kinds.values()]
            estimates[name][metric] = [_rounded(x) for x in astuple(Estimate.of(means(values)))]
    return estimates, undefined


def _rounded(x: float) -> float | None:
    return float(f"{x:.5g}") if math.isfinite(x) else None
