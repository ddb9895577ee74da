"""The tables of a suite with exact values: the best scheme first, controls below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.annotation_sources import HELD_OUT
from creditflow.train.bench.report.contrasts import table_measure
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline
from creditflow.train.bench.report.tables.contrasts import contrast_table
from creditflow.train.bench.report.tables.table import AREA_TITLE, METRICS_TITLE, Table, number_text, ordered

__all__ = ["exact_tables"]

Suite = Mapping[str, Any]


def exact_tables(suite: Suite) -> list[Table]:
    """Tables of the improvement by one step, the other metrics, the contrasts, and learning where policies were trained."""
    summary = Summary(suite["cells"])
    schemes = [n for n in suite["schemes"] if n in summary.methods]
    controls = [n for n in suite["controls"] if n in summary.methods]
    tables = [_gain_table(summary, schemes, controls), _metric_table(summary, schemes, controls)]
    endpoints = {"gain, KL 0.01": table_measure(summary, "gain")}
    compared = [n for n in schemes if not summary.learned or n in summary.learned]
    if summary.learned:
        endpoints["area"] = table_measure(summary, "area")
    if len(compared) > 1:
        tables.append(contrast_table(compared, endpoints))
    if summary.learned:
        schemes, controls = ([n for n in names if n in summary.learned] for names in (schemes, controls))
        tables += [_area_table(summary, schemes, controls, suite.get("cost", {})), _correlation_table(suite)]
    return tables


def _by_kind(summary: Summary) -> dict[str, Summary]:
    """The cells of each kind of task, in the order of the run."""
    kinds = dict.fromkeys(cell["kind"] for cell in summary.cells)
    return {kind: Summary([c for c in summary.cells if c["kind"] == kind]) for kind in kinds}


def _gain_table(summary: Summary, schemes: Sequence[str], controls: Sequence[str]) -> Table:
    against = baseline([*schemes, *controls])
    sizes = sorted({cell["size"] for cell in summary.cells})
    kinds = _by_kind(summary)
    parts = [Summary([c for c in summary.cells if c["size"] == g]) for g in sizes] if len(sizes) > 1 else []
    parts += kinds.values()
    heads = [f"G = {g}" for g in sizes if len(sizes) > 1] + [_kind(kind) for kind in kinds]
    rows = [["method", "gain, KL 0.01 [95 % CI]", "gain, KL 0.001 [95 % CI]", f"minus {against}, KL 0.01", *heads]]
    schemes = ordered(schemes, lambda name: summary.gain(name).mean)
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        large, small = summary.gain(name), summary.gain(name, "gain_small")
        over = "–" if name == against else summary.gain(name, over=against).text(sign="+")
        means = [part.gain(name).short() for part in parts]
        rows.append([name, str(large), str(small), over, *means])
        bars.append(None if name.startswith("flipped(") else large)
    small_natural, natural = summary.over_cells("natural_gain_small"), summary.over_cells("natural_gain")
    of_parts = [f"{part.over_cells('natural_gain'):.2f}" for part in parts]
    rows.append(["natural gradient", f"{natural:.3f}", number_text(small_natural, 3), "", *of_parts])
    fitted = any("[fitted]" in name for name in schemes)
    return Table(
        "Improvement by one step (M2)",
        "Exact success rate gained by one step of a given KL divergence, relative to the gain of the exact gradient: 1 is as "
        "good as the exact gradient, 0 is no change, below 0 the policy gets worse. Intervals: 95 %, over tasks. The "
        "columns by group size (G) and kind of task are means at KL 0.01, ± half the interval. The natural gradient is computed, not sampled."
        + (
            f" X[fitted] has seen {HELD_OUT} additional groups for each measured one, the other methods have not."
            if fitted
            else ""
        ),
        rows,
        len(schemes),
        (*bars, None),
        "Which scheme improves the policy most in one step?",
        "gain of one step at KL 0.01, as a fraction of the exact gradient's",
    )


def _metric_table(summary: Summary, schemes: Sequence[str], controls: Sequence[str]) -> Table:
    rows = [
        ["method", "cosine, mean", "cosine, one group", "bias²", "variance", "concordance Q^π",
         "concordance Q*", "AUROC, failed (raw)",
         "AUROC, successful (raw)", "coverage", "dead groups"]
    ]  # fmt: skip
    schemes = ordered(schemes, lambda name: summary.mean(name, "cos_batch").mean)
    for name in (*schemes, *controls):

        def of(metric: str, name: str = name) -> str:
            if not all(metric in cell["offline"][name] for cell in summary.cells):
                return "–"
            return _short(summary.mean(name, metric))

        rows.append(
            [name, of("cos_mean"), of("cos_batch"), of("bias2"), of("variance"), of("concordance"),
             of("concordance_optimal"), f"{of('auroc_failed')} ({of('auroc_failed_raw')})",
             f"{of('auroc_succeeded')} ({of('auroc_succeeded_raw')})", of("coverage"), of("dead_groups")]
        )  # fmt: skip
    bases = [number_text(summary.over_cells(name)) for name in ("base_rate_failed", "base_rate_succeeded")]
    return Table(
        METRICS_TITLE,
        "Means over cells, ± half the 95 % interval over tasks, where the results have one value per task. The "
        "variance is a median over cells, without an interval. Concordance and AUROC of 0.5 are chance. The AUROC is that of credit centered "
        "within states, among the turns of failed or successful rollouts; in brackets that of the credit itself. Of the turns "
        f"that are clearly good or bad, {bases[0]} are good in failed rollouts and {bases[1]} in successful ones (base rates). "
        "Coverage and dead groups are fractions.",
        rows,
        len(schemes),
        question="Is the sampled gradient biased, or only noisy?",
    )


def _area_table(summary: Summary, schemes: Sequence[str], controls: Sequence[str], cost: Mapping[str, float]) -> Table:
    against = baseline([*schemes, *controls])
    parts = _by_kind(summary)
    rows = [
        ["method", f"mean success minus {against} [95 % CI]", "mean success [95 % CI]", "final success", *map(_kind, parts),
         "ms per 1000 turns"]
    ]  # fmt: skip
    schemes = ordered(schemes, lambda name: summary.area(name).mean)
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        lead = summary.area(name, over=against)
        means = ["–" if name == against else part.area(name, over=against).short(3, "+") for part in parts.values()]
        rows.append(
            [name, "–" if name == against else lead.text(sign="+"), str(summary.area(name)),
             _short(summary.final(name)), *means, f"{cost[name]:.1f}" if name in cost else "–"]
        )  # fmt: skip
        bars.append(None if name == against or name.startswith("flipped(") else lead)
    return Table(
        AREA_TITLE,
        "Mean exact success rate over a budget of environment turns, which groups without credit use up as well. Intervals: "
        f"95 %, over tasks. By kind of task: difference to {against}, ± half the interval, as for final success where the results hold the values of tasks. The metrics above are about a single step and "
        "cannot account for later ones: where they disagree with this table, trust this table. The last column is the time "
        "to assign credit.",
        rows,
        len(schemes),
        tuple(bars),
        "Which scheme learns fastest?",
        f"mean success during training, minus {against} (0.01 is one percentage point)",
    )


METRICS: Mapping[str, str] = {
    "gain_small": "gain, KL 0.001 (M2)",
    "gain": "gain, KL 0.01 (M2)",
    "cos_batch": "cosine, one group (M1)",
    "cos_mean": "cosine, mean (M1)",
    "concordance": "concordance with Q^π (M4)",
    "concordance_optimal": "concordance with Q* (M4)",
    "auroc_failed": "AUROC, failed (M5)",
    "auroc_succeeded": "AUROC, successful (M5)",
}


def _correlation_table(suite: Suite) -> Table:
    heads = {
        "plain": "all methods",
        "plain_schemes": "schemes only",
        "alias": "all methods, aliased",
        "alias_schemes": "schemes only, aliased",
    }
    sides = [s for s in heads if any(row[s] is not None for row in suite["correlations"].values())]
    rows = [["metric", *(heads[side] for side in sides)]]
    for metric, values in suite["correlations"].items():
        rows.append([METRICS[metric], *(number_text(values[side]) for side in sides)])
    return Table(
        "Which metric predicts learning",
        "Spearman's rank correlation, over methods, of each metric with mean success during training; mean over cells. "
        "Cells with aliased text keys are separate. Without intervals: cells are not a random sample.",
        rows,
        len(rows) - 1,
        question="Which metric predicts learning?",
    )


def _short(found: Estimate) -> str:
    """A mean with half the width of its interval, if it has one; "–" for nan."""
    return number_text(found.mean) if math.isnan(found.low) else found.short()


def _kind(name: str) -> str:
    """A kind as a header; those of Sokoban are named by their fraction of dead states."""
    return f"{name.removeprefix('sokoban-')} dead states" if name.startswith("sokoban-") else name
