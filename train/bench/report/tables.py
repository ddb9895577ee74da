"""The tables of a document, for the command line and the page; each is a query of the tidy table of results.

Most tables have a row per method, the best scheme first and controls below, and a column per query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import HELD_OUT
from creditflow.train.bench.observations import Observations
from creditflow.train.bench.report.design import ENDPOINT, Pair, design_of, over_seeds, pairs_of
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tidy import Measure, Results, Setting, baseline, correlation_estimate, results_of
from creditflow.train.bench.report.verdicts import Verdict, against, contrast_texts, p_text, verdicts
from creditflow.train.bench.variants.names import MethodName
from creditflow.train.rollout.score_table import latex_cells
from creditflow.train.statistics import Contrast

__all__ = [
    "AREA_TITLE",
    "METRICS_TITLE",
    "SHARED_TITLE",
    "SweptScheme",
    "Table",
    "by_type_cells",
    "design_tables",
    "latex_tables",
    "number_text",
    "ordered",
    "points",
    "regime_table",
    "standard_settings",
    "suite_tables",
    "sweep_endpoints",
    "sweep_title",
    "swept_schemes",
    "undefined_table",
]

Suite = Mapping[str, Any]
Column = tuple[str, Callable[[str], str]]  # heading, and the cell of a method

AREA_TITLE: Final = "Mean success during training"
METRICS_TITLE: Final = "Direction, bias and variance, concordance, AUROC (M1, M3, M4, M5)"
SHARED_TITLE: Final = "Learning with a shared policy"
GAIN_UNIT: Final = "gain of one step at KL 0.01, as a fraction of the exact gradient's"
PREDICTORS: Final[Mapping[str, str]] = {
    "gain_small": "gain, KL 0.001 (M2)",
    "gain": "gain, KL 0.01 (M2)",
    "held_out_gain": "gain on held-out tasks, KL 0.01 (M2)",
    "cos_batch": "cosine, one batch (M1)",
    "cos_mean": "cosine, mean (M1)",
}
METRICS: Final[Mapping[str, str]] = {
    "gain_small": "gain, KL 0.001 (M2)",
    "gain": "gain, KL 0.01 (M2)",
    "cos_batch": "cosine, one group (M1)",
    "cos_mean": "cosine, mean (M1)",
    "concordance": "concordance with Q^π (M4)",
    "concordance_optimal": "concordance with Q* (M4)",
    "auroc_failed": "AUROC, failed (M5)",
    "auroc_succeeded": "AUROC, successful (M5)",
}


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: heading.
        note: how to read the table.
        rows: header, then the rows.
        controls: index of the first row that is a control, not counting the header.
        bars: for each row the estimate that the page draws; None for none.
        question: what the table and its plot answer, in plain words.
        unit: of the estimates drawn.
    """

    title: str
    note: str
    rows: list[list[str]]
    controls: int
    bars: tuple[Estimate | None, ...] = ()
    question: str = ""
    unit: str = ""


def suite_tables(suite: Suite) -> list[Table]:
    """All tables of a suite, those of swept parameters last."""
    if "variations" in suite:
        tables = [*design_tables(suite), *_shared_tables(suite)]
    elif "studies" in suite:
        tables = _study_tables(suite)
    else:
        tables = _exact_tables(suite) if "cells" in suite else _played_tables(suite)
    return [*tables, *_sweep_tables(suite)]


def undefined_table(suite: Suite) -> list[tuple[str, str]]:
    """Names of the methods that are missing on the suite, and why."""
    return sorted(suite["undefined"].items(), key=lambda item: ("(" in item[0], item[0]))


def ordered(names: Sequence[str], score: Callable[[str], float]) -> list[str]:
    """Sort names by decreasing score, and by name where scores are equal."""
    return sorted(names, key=lambda name: (-score(name), name))


def number_text(x: float | None, digits: int = 2) -> str:
    """A number with ``digits`` decimal places; a dash if it is unknown."""
    return "–" if x is None or not math.isfinite(x) else f"{x:.{digits}f}"


def _short(estimate: Estimate, digits: int = 2) -> str:
    """A mean with half the width of its interval, if it has one; a dash if it is unknown."""
    return number_text(estimate.mean, digits) if math.isnan(estimate.low) else estimate.short(digits)


def _method_rows(names: Iterable[str], columns: Sequence[Column]) -> list[list[str]]:
    """The header and a row per method."""
    heads, cells = zip(*columns, strict=True)
    return [["method", *heads], *([name, *(cell(name) for cell in cells)] for name in names)]


def _among(suite: Suite, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The schemes and the controls of a suite that are among these methods."""
    return [n for n in suite["schemes"] if n in names], [n for n in suite["controls"] if n in names]


def _best_first(results: Results, endpoint: str, schemes: Sequence[str]) -> list[str]:
    return ordered(schemes, lambda name: results.mean(endpoint, name).mean)


def _lead_column(head: str, results: Results, endpoint: str, base: str) -> Column:
    """Differences from the baseline, with intervals."""
    return head, lambda name: "–" if name == base else results.estimate(endpoint, name, base).text(sign="+")


def _contrast_columns(
    head: str, results: Results, endpoint: str, base: str, family: Mapping[str, Contrast]
) -> list[Column]:
    """Differences from the baseline, and the test of those that belong to the family of contrasts."""

    def tested(name: str) -> list[str]:
        return contrast_texts(family[name]) if name in family else ["–"] * 3

    _, lead = _lead_column(head, results, endpoint, base)
    return [(head, lead), ("p", lambda name: tested(name)[1]), ("detectable", lambda name: tested(name)[2])]


def _cost_column(suite: Suite) -> Column:
    return "ms per 1000 turns", lambda name: f"{suite['cost'][name]:.1f}" if name in suite.get("cost", {}) else "–"


def _contrast_table(schemes: Sequence[str], endpoints: Mapping[str, Measure]) -> Table:
    """Every scheme against the baseline: first those that are certain in the last endpoint, then the others, the best first."""
    base = baseline(schemes)
    families = {name: against(base, schemes, measure) for name, measure in endpoints.items()}
    last = families[list(endpoints)[-1]]
    certain = {name for name in last if last[name].separates}
    order = sorted(last, key=lambda name: (name not in certain, -last[name].difference.mean, name))
    heads = ["scheme"]
    for name in endpoints:
        heads += [f"{name}, minus {base} [95 % CI]", "p", "detectable"]
    rows = [heads]
    for name in order:
        cells = [name]
        for family in families.values():
            cells += contrast_texts(family[name])
        if name in certain:
            cells[-2] += " ✓"
        rows.append(cells)
    return Table(
        f"Schemes against {base}",
        "Paired differences with 95 % intervals; those that are certain after adjustment (✓, in the last endpoint) come first. "
        f"p is adjusted by Holm over the {len(last)} schemes of an endpoint. Detectable is the true difference that such a test "
        "finds with probability .8: where p is .05 or more, the schemes may well differ by less.",
        rows,
        len(rows) - 1,
        question=f"Which differences from {base} are certain?",
    )


# -- a table per task, with exact values --------------------------------------------------------------------------------
def _exact_tables(suite: Suite) -> list[Table]:
    """The improvement by one step, the other metrics, the contrasts, and learning where policies were trained."""
    results = results_of(suite)
    learned = results.where(lambda setting: "area" in setting.values)
    schemes, controls = _among(suite, results.methods("gain"))
    tables = [_gain_table(results, schemes, controls), _metric_table(results, schemes, controls)]
    endpoints = {"gain, KL 0.01": results.measure("gain")}
    if len(learned):
        endpoints["mean success"] = learned.measure("area")
    compared = [name for name in schemes if not len(learned) or name in learned.methods("area")]
    if len(compared) > 1:
        tables.append(_contrast_table(compared, endpoints))
    if len(learned):
        tables += [_area_table(suite, learned), _cell_correlation_table(suite)]
    return tables


def _gain_table(results: Results, schemes: Sequence[str], controls: Sequence[str]) -> Table:
    base = baseline([*schemes, *controls])
    by_size = {f"G = {size}": of_size for size, of_size in sorted(results.by("size").items())}
    columns = by_size if len(by_size) > 1 else {}
    columns |= {_kind(kind): of_kind for kind, of_kind in results.by("kind").items()}
    schemes = _best_first(results, "gain", schemes)
    rows = _method_rows(
        (*schemes, *controls),
        [
            ("gain, KL 0.01 [95 % CI]", lambda name: results.estimate("gain", name).text()),
            ("gain, KL 0.001 [95 % CI]", lambda name: results.estimate("gain_small", name).text()),
            _lead_column(f"minus {base}, KL 0.01", results, "gain", base),
            *((head, _short_cell(of_column, "gain")) for head, of_column in columns.items()),
        ],
    )
    natural = [f"{of_column.fact('natural_gain'):.2f}" for of_column in columns.values()]
    small = number_text(results.fact("natural_gain_small"), 3)
    rows.append(["natural gradient", f"{results.fact('natural_gain'):.3f}", small, "", *natural])
    note = (
        "Exact success rate gained by one step of a given KL divergence, relative to the gain of the exact gradient: 1 is as "
        "good as the exact gradient, 0 is no change, below 0 the policy gets worse. Intervals: 95 %, over tasks. The columns by "
        "group size (G) and kind of task are means at KL 0.01, ± half the interval. The natural gradient is computed, not sampled."
    )
    if any("[fitted]" in name for name in schemes):
        note += f" X[fitted] has seen {HELD_OUT} additional groups for each measured one, the other methods have not."
    question = "Which scheme improves the policy most in one step?"
    bars = (*_drawn_gains(results, (*schemes, *controls)), None)
    return Table("Improvement by one step (M2)", note, rows, len(schemes), bars, question, GAIN_UNIT)


def _drawn_gains(results: Results, names: Iterable[str]) -> list[Estimate | None]:
    return [None if name.startswith("flipped(") else results.estimate("gain", name) for name in names]


def _drawn_leads(results: Results, endpoint: str, names: Iterable[str], base: str) -> tuple[Estimate | None, ...]:
    bars = list[Estimate | None]()
    for name in names:
        drawn = name != base and not name.startswith("flipped(")
        bars.append(results.estimate(endpoint, name, base) if drawn else None)
    return tuple(bars)


def _short_cell(results: Results, endpoint: str, digits: int = 2) -> Callable[[str], str]:
    return lambda name: _short(results.estimate(endpoint, name), digits)


def _metric_table(results: Results, schemes: Sequence[str], controls: Sequence[str]) -> Table:
    schemes = ordered(schemes, lambda name: results.estimate("cos_batch", name).mean)

    def cell(endpoint: str) -> Callable[[str], str]:
        return _short_cell(results, endpoint) if results.has(endpoint) else lambda _: "–"

    def auroc(side: str) -> Callable[[str], str]:
        return lambda name: f"{cell(f'auroc_{side}')(name)} ({cell(f'auroc_{side}_raw')(name)})"

    rows = _method_rows(
        (*schemes, *controls),
        [
            ("cosine, mean", cell("cos_mean")),
            ("cosine, one group", cell("cos_batch")),
            ("bias²", cell("bias2")),
            ("variance", cell("variance")),
            ("concordance Q^π", cell("concordance")),
            ("concordance Q*", cell("concordance_optimal")),
            ("AUROC, failed (raw)", auroc("failed")),
            ("AUROC, successful (raw)", auroc("succeeded")),
            ("coverage", cell("coverage")),
            ("dead groups", cell("dead_groups")),
        ],
    )
    failed, succeeded = (number_text(results.fact(f"base_rate_{side}")) for side in ("failed", "succeeded"))
    return Table(
        METRICS_TITLE,
        "Means over cells, ± half the 95 % interval over tasks, where the results have one value per task. The "
        "variance is a median over cells, without an interval. Concordance and AUROC of 0.5 are chance. The AUROC is that of credit centered "
        "within states, among the turns of failed or successful rollouts; in brackets that of the credit itself. Of the turns "
        f"that are clearly good or bad, {failed} are good in failed rollouts and {succeeded} in successful ones (base rates). "
        "Coverage and dead groups are fractions.",
        rows,
        len(schemes),
        question="Is the sampled gradient biased, or only noisy?",
    )


def _area_table(suite: Suite, results: Results) -> Table:
    schemes, controls = _among(suite, [n for n in results.methods("area") if n in results.methods("gain")])
    base = baseline([*schemes, *controls])
    schemes = _best_first(results, "area", schemes)

    def difference(of_kind: Results) -> Callable[[str], str]:
        return lambda name: "–" if name == base else of_kind.estimate("area", name, base).short(3, "+")

    rows = _method_rows(
        (*schemes, *controls),
        [
            _lead_column(f"mean success minus {base} [95 % CI]", results, "area", base),
            ("mean success [95 % CI]", lambda name: results.estimate("area", name).text()),
            ("final success", _short_cell(results, "final")),
            *((_kind(kind), difference(of_kind)) for kind, of_kind in results.by("kind").items()),
            _cost_column(suite),
        ],
    )
    return Table(
        AREA_TITLE,
        "Mean exact success rate over a budget of environment turns, which groups without credit use up as well. Intervals: "
        f"95 %, over tasks. By kind of task: difference to {base}, ± half the interval, as for final success if the results contain the values of tasks. The metrics above are about a single step and "
        "cannot account for later ones: where they disagree with this table, trust this table. The last column is the time "
        "to assign credit.",
        rows,
        len(schemes),
        _drawn_leads(results, "area", (*schemes, *controls), base),
        "Which scheme learns fastest?",
        f"mean success during training, minus {base} (0.01 is one percentage point)",
    )


def _cell_correlation_table(suite: Suite) -> Table:
    heads = {
        "plain": "all methods",
        "plain_schemes": "schemes only",
        "alias": "all methods, aliased",
        "alias_schemes": "schemes only, aliased",
    }
    sides = [side for side in heads if any(row[side] is not None for row in suite["correlations"].values())]
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


def _kind(name: str) -> str:
    """A kind as a header; those of Sokoban are named by their fraction of dead states."""
    return f"{name.removeprefix('sokoban-')} dead states" if name.startswith("sokoban-") else name


# -- a policy that many tasks share -------------------------------------------------------------------------------------
def _is_standard(results: Results) -> Callable[[Setting], bool]:
    """Whether a setting differs from the first one in the kind of task alone."""
    first = results.settings[0].update
    return lambda setting: setting.update == first


def standard_settings(results: Results) -> Results:
    """The settings that differ from the first one in the kind of task alone."""
    return results.where(_is_standard(results))


def _shared_tables(suite: Suite) -> list[Table]:
    results, all_results = results_of(suite), results_of(suite, single_steps=True)
    standard = standard_settings(results)
    tables = [_learning_table(suite, standard), _step_table(suite, standard)]
    varied = [setting for setting in results.settings if not _is_standard(results)(setting)]
    of_kind = [setting for setting in standard.settings if varied and setting.kind == varied[0].kind]
    first = of_kind[0] if of_kind else standard.settings[0]
    if varied:
        learned = Results([first, *varied], "seeds")
        tables.append(_varied_table(suite, learned, "area", "Learning with one property varied"))
    single = Results([first, *varied, *all_results.settings[len(results) :]], "seeds")
    if len(single) > 1:
        tables.append(_varied_table(suite, single, "gain", "Single steps with one property varied (M2)"))
    return [*tables, _correlation_table(suite, results)]


def _learning_table(suite: Suite, results: Results) -> Table:
    schemes, controls = _among(suite, results.methods("area"))
    base = baseline([*schemes, *controls])
    family = against(base, schemes, results.measure("area"))
    schemes = _best_first(results, "area", schemes)
    rows = _method_rows(
        (*schemes, *controls),
        [
            *_contrast_columns(f"mean success minus {base} [95 % CI]", results, "area", base, family),
            ("mean success", _short_cell(results, "area", 3)),
            ("final success", _short_cell(results, "final", 3)),
            _lead_column(f"held-out mean success minus {base} [95 % CI]", results, "held_out_area", base),
            ("held-out final", _short_cell(results, "held_out_final", 3)),
            *((setting.label, _short_cell(Results([setting], "seeds"), "area", 3)) for setting in results.settings),
            _cost_column(suite),
        ],
    )
    updates, tasks, first = suite["updates"], suite["tasks"], results.settings[0]
    return Table(
        SHARED_TITLE,
        f"Mean success during training: exact, on the {tasks['train']} training tasks, measured every {updates['every']} of {updates['count']} "
        f"updates; held-out: on {tasks['held_out']} other tasks of the kind. An update has {first.batch} tasks × {first.size} rollouts, "
        f"{_loss_average(updates)}, and a KL divergence of {updates['kl']:g} nats per turn. Means over the kinds of "
        f"task; mean success by kind on the right. Intervals, and ± half of them: 95 %, over {tasks['seeds']} layout seeds, each with its own tasks. p is "
        f"adjusted by Holm over {len(family)} schemes; detectable is the true difference that such a test finds with probability "
        ".8. The last column is the time to assign credit.",
        rows,
        len(schemes),
        _drawn_leads(results, "area", (*schemes, *controls), base),
        "Which scheme learns fastest when many tasks share one policy?",
        f"mean success during training, minus {base} (0.01 is one percentage point)",
    )


def _loss_average(updates: Mapping[str, Any]) -> str:
    """The loss average; in results of version 0.2.0 every scheme had its own."""
    same = updates.get("aggregation")
    return f"the {same.replace('_', ' ')} of the loss for all methods" if same else "the loss aggregation of the scheme"


def _step_table(suite: Suite, results: Results) -> Table:
    schemes, controls = _among(suite, results.methods("gain"))
    base = baseline([*schemes, *controls])
    schemes = _best_first(results, "gain", schemes)
    rows = _method_rows(
        (*schemes, *controls),
        [
            ("gain, KL 0.01 [95 % CI]", lambda name: results.estimate("gain", name).text()),
            _lead_column(f"minus {base}", results, "gain", base),
            ("gain, KL 0.001", _short_cell(results, "gain_small")),
            ("held-out gain, KL 0.01", _short_cell(results, "held_out_gain")),
            ("cosine, mean", _short_cell(results, "cos_mean")),
            ("cosine, one batch", _short_cell(results, "cos_batch")),
            ("bias²", _short_cell(results, "bias2")),
            ("variance", _short_cell(results, "variance")),
            ("coverage", _short_cell(results, "coverage")),
            ("dead groups", _short_cell(results, "dead_groups")),
            *((setting.label, _short_cell(Results([setting], "seeds"), "gain")) for setting in results.settings),
        ],
    )
    return Table(
        "Single steps (M1, M2, M3), in the policy's own parameters",
        "Gain: mean exact success on all training tasks (held-out: on the held-out tasks) gained by one step of a given KL "
        "divergence along the gradient of one batch, relative to what the exact gradient gains on the training tasks. Cosine, "
        "squared bias and variance: of that gradient against the exact one; the variance is a median, without an interval. Coverage and dead "
        "groups are fractions. By kind of task: gain at KL 0.01. ± is half the 95 % interval over layout seeds.",
        rows,
        len(schemes),
        tuple(_drawn_gains(results, (*schemes, *controls))),
        "Which scheme improves the policy most in one step?",
        GAIN_UNIT,
    )


def _varied_table(suite: Suite, results: Results, endpoint: str, title: str) -> Table:
    schemes, controls = _among(suite, results.methods(endpoint))
    first = results.settings[0]
    schemes = ordered(schemes, lambda name: first.mean(endpoint, name))
    digits = 3 if endpoint == "area" else 2
    columns = []
    for setting in results.settings:
        head = setting.title.removeprefix(f"{first.label}, ")
        columns.append((head, _short_cell(Results([setting], "seeds"), endpoint, digits)))
    learning = endpoint == "area"
    return Table(
        title,
        f"Kind of task: {first.label}. The first column is the standard setting, tasks × rollouts of an update; the heading of every "
        f"other column says how it differs. {'Mean success during training' if learning else 'Gain of one step at KL 0.01'}. "
        "Columns differ in tasks or amount of data, so compare methods within a column. ± is half the 95 % interval over layout seeds.",
        _method_rows((*schemes, *controls), columns),
        len(schemes),
        question=f"Does {'it hold' if learning else 'the best step stay the best'} in other settings?",
    )


def _correlation_table(suite: Suite, results: Results) -> Table:
    estimates = {name: correlation_estimate(results, name, value) for name, value in suite["correlations"].items()}
    rows = [["metric", "rank correlation with mean success [95 % CI]"]]
    for name, estimate in estimates.items():
        rows.append([PREDICTORS[name], "–" if estimate is None else estimate.text(2)])
    return Table(
        "Which metric predicts learning",
        "Spearman's rank correlation, over methods, of each metric with mean success during training; mean over studies. Intervals: "
        "95 %, over layout seeds, by the jackknife (each seed left out in turn), cut at 1.",
        rows,
        len(rows) - 1,
        tuple(estimates.values()),
        "Which metric predicts learning?",
        "rank correlation over methods",
    )


def _points_text(estimate: Estimate) -> str:
    return estimate.times(100).text(1, "+")


# -- a crossed design: does the order of two methods hold, and on which factor does it depend? --------------------------
OPTIMISER: Final = "optimiser"
ADAM: Final = "Adam"


def design_tables(suite: Suite) -> list[Table]:
    """The tables of a suite's crossed design; none if it has none."""
    design = design_of(suite)
    if design is None:
        return []
    pairs = pairs_of(design, [name for name in design.methods if "oracle" not in name])
    return [_order_table(design, pairs), _level_table(design, pairs), _rate_table(design, design.methods)]


def _order_table(design: Observations, pairs: Sequence[Pair]) -> Table:
    rows = [["pair", "difference [95 % CI]", "holds in", "turns in", "the sign depends on"]]
    for pair in pairs:
        factors = []
        for name in pair.factors:
            levels = [f"{level} {points(value)}" for level, value in pair.levels[name].items()]
            factors.append(f"{name} ({', '.join(levels)})")
        rows.append(
            [f"{pair.better} − {pair.worse}", _points_text(pair.difference), f"{pair.holds} of {pair.settings}",
             f"{pair.turns} of {pair.settings}", "; ".join(factors) or "no factor"]
        )  # fmt: skip
    factors = [f"{name}: {', '.join(levels)}" for name, levels in design.factors.items()]
    return Table(
        "Does the order hold?",
        f"Mean exact success during training, in percentage points, in {len(design.settings)} settings: {'; '.join(factors)}. In each, all methods "
        f"have the same level of every factor. Means over settings; intervals: 95 %, over {len(design.seeds)} layout seeds. An order "
        "holds (turns) in a setting if its interval lies above (below) 0. A sign is +, − or level (the interval contains 0); it depends "
        "on a factor if two of its levels have different signs and two of them differ by more than chance.",
        rows,
        len(rows) - 1,
        tuple(pair.difference.times(100) for pair in pairs),
        "Does the order of two methods depend on choices that should not matter?",
        "difference in mean success during training, in percentage points, mean over all settings",
    )


def _level_table(design: Observations, pairs: Sequence[Pair]) -> Table:
    rows = [["pair", *(f"{name}: {level}" for name, levels in design.factors.items() for level in levels)]]
    for pair in pairs:
        cells = [points(value) for by_level in pair.levels.values() for value in by_level.values()]
        rows.append([f"{pair.better} − {pair.worse}", *cells])
    return Table(
        "Differences by factor",
        "As above, over the settings with one level; ± is half the 95 % interval over layout seeds.",
        rows,
        len(rows) - 1,
        question="By which factor does the order turn?",
    )


def points(estimate: Estimate) -> str:
    """An estimate of a success rate in percentage points."""
    return estimate.times(100).short(1, "+")


def _rate_table(design: Observations, methods: Sequence[str]) -> Table:
    rates = [level for level in design.factors.get(OPTIMISER, ()) if level.startswith(ADAM)]
    base = baseline(list(methods))
    chosen_rates = {name: _chosen_rate(design, name, rates) for name in methods} if rates else {}
    rows = [["method", f"minus {base} [95 % CI]", "mean success", *rates]]
    for name, (values, chosen) in sorted(chosen_rates.items(), key=lambda item: -float(item[1][0].mean())):
        lead = "–" if name == base else _points_text(over_seeds(values - chosen_rates[base][0]))
        rows.append([name, lead, over_seeds(values).times(100).short(1), *(str(chosen.count(rate)) for rate in rates)])
    return Table(
        "Every method at its own rate of Adam",
        "The rate with the largest mean success during training over the other layout seeds, whose tasks are different ones; on the right, how often each was "
        "chosen. Mean over the levels of all other factors, percentage points.",
        rows,
        len(rows) - 1,
        question="Does the order hold where every method has the rate that suits it?",
    )


def _chosen_rate(design: Observations, method: str, rates: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """float64 (1, seeds): the area at the rate that is best over all other seeds; and the rate chosen for each seed."""
    means = np.stack([design.values(ENDPOINT, method, optimiser=rate).mean(axis=0) for rate in rates])  # (rates, seeds)
    without = (means.sum(axis=1, keepdims=True) - means) / max(means.shape[1] - 1, 1)
    best = without.argmax(axis=0)
    return means[best, np.arange(means.shape[1])][None], [rates[i] for i in best.tolist()]


# -- studies whose tasks and seeds are crossed --------------------------------------------------------------------------
def _study_tables(suite: Suite) -> list[Table]:
    """A table for every endpoint of every study."""
    settings = results_of(suite).settings
    return [_study_table(suite, setting, endpoint) for setting in settings for endpoint in setting.values]


def _study_table(suite: Suite, setting: Setting, endpoint: str) -> Table:
    results, values = Results([setting], "both"), setting.values[endpoint]
    schemes, controls = _among(suite, list(values))
    base, shown = baseline([*schemes, *controls]), endpoint.replace("area", "mean success")
    family = against(base, schemes, results.measure(endpoint))
    schemes = _best_first(results, endpoint, schemes)

    rows = _method_rows(
        (*schemes, *controls),
        [
            (f"{shown} [95 % CI]", lambda name: results.estimate(endpoint, name).text()),
            *_contrast_columns(f"minus {base} [95 % CI]", results, endpoint, base, family),
        ],
    )
    seeds, tasks = next(iter(values.values())).shape
    return Table(
        f"{setting.long_title}: {shown}",
        f"{seeds} seeds, {f'the same {tasks} tasks under each' if tasks > 1 else 'each with its own tasks'}. "
        f"Intervals: 95 %, over seeds and tasks. p is adjusted by Holm over {len(family)} schemes; detectable is the true "
        f"difference that such a test finds with probability .8.",
        rows,
        len(schemes),
        tuple(None if name == base else results.estimate(endpoint, name, base) for name in (*schemes, *controls)),
        f"Which scheme is best: {setting.long_title}, {shown}?",
        f"{shown}, minus {base}",
    )


# -- training through an environment ------------------------------------------------------------------------------------
def _played_tables(suite: Suite) -> list[Table]:
    """Learning of every method, and the contrasts of the schemes."""
    results = results_of(suite)
    schemes, _ = _among(suite, results.methods("area"))
    contrasts = [_contrast_table(schemes, {"mean success": results.measure("area")})] if len(schemes) > 1 else []
    return [_played_table(suite), *contrasts, *_by_type_tables(suite)]


def _played_table(suite: Suite) -> Table:
    by_method, coverage = suite["rows"], suite["coverage"]
    schemes, controls = _among(suite, by_method)
    schemes = ordered(schemes, lambda name: by_method[name]["area"][0])
    base = baseline([*schemes, *controls])

    def stored(name: str, endpoint: str) -> Estimate:
        return Estimate(*by_method[name][endpoint])

    def fraction(part: str) -> Callable[[str], str]:
        return lambda name: f"{coverage[name][part]:.0%}"

    rows = _method_rows(
        (*schemes, *controls),
        [
            (
                f"mean success minus {base} [95 % CI]",
                lambda name: "–" if name == base else stored(name, "gain").text(sign="+"),
            ),
            ("mean success [95 % CI]", lambda name: stored(name, "area").text()),
            ("success, first → last", lambda name: f"{by_method[name]['first']:.2f} → {stored(name, 'last').short()}"),
            ("coverage", fraction("coverage")),
            ("turn-level", fraction("turn_level")),
            ("dead groups", fraction("dead_groups")),
            _cost_column(suite),
        ],
    )
    note = (
        "Mean success rate of the sampled rollouts over all updates, on the training tasks (a table cannot generalise, so "
        "nothing is held out). Intervals, and ± half of them: 95 %, over tasks and seeds; the success rate before the first update has the "
        "same rollouts for all methods, and is without an interval. Coverage, turn-level and dead groups: fractions of the recorded log. Turn-level: turns whose credit differs from the "
        f"mean of their rollout. M1 to M5 are not defined here: {suite['why']}."
    )
    if not suite["oracle"] and "oracle_progress" in by_method:
        note += " oracle_progress uses a proxy, as the distances of this environment are not exact."
    return Table(
        AREA_TITLE,
        note,
        rows,
        len(schemes),
        tuple(None if name == base else stored(name, "gain") for name in (*schemes, *controls)),
        "Which scheme learns fastest?",
        f"mean success during training, minus {base} (0.01 is one percentage point)",
    )


def by_type_cells(suite: Suite, measure: str) -> list[list[str]]:
    """Return the table of one measure: a row for every method in the order of the other tables, a column for every task type.

    Args:
        suite: results of a played suite.
        measure: "Success", "Score", "EM" or "F1".
    """
    by_method = suite["by_type"]
    schemes, controls = _among(suite, by_method)
    methods = [*ordered(schemes, lambda name: suite["rows"][name]["area"][0]), *controls]
    heads = [f"{row['name']} ({row['tasks']})" for row in by_method[methods[0]]]
    rows = [["method", *heads]]
    for name in methods:
        estimates = [row["estimates"][measure] for row in by_method[name]]
        rows.append([name, *map(_percent, estimates)])
    return rows


def latex_tables(suite: Suite) -> str:
    """Return the tables of scores by task type as ``tabular`` of the package booktabs, one for each measure; "" if there are none."""
    note = r"percent after training, with 95 % intervals over tasks and seeds; needs \usepackage{booktabs}"
    return "\n\n".join(
        latex_cells(by_type_cells(suite, measure), [f"{suite['name']}, {measure}", note])
        for measure in _type_measures(suite)
    )


def _type_measures(suite: Suite) -> list[str]:
    """The measures that differ: not success next to an equal exact match, nor the score next to an equal one."""
    estimates = [row["estimates"] for rows in suite.get("by_type", {}).values() for row in rows]
    names = list(estimates[0]) if estimates else []
    equal = {name for name in names if all(of_row[name] == of_row["Success"] for of_row in estimates)}
    title = "EM" if "EM" in equal else "Success"
    return [name for name in names if name not in equal or name == title]


def _by_type_tables(suite: Suite) -> list[Table]:
    schemes, _ = _among(suite, suite.get("by_type", {}))
    return [
        Table(
            f"{measure} after training, by task type",
            "Per cent, of the rollouts after the last update, on the training tasks; in brackets 95 % intervals over tasks and seeds, in the "
            "head numbers of tasks.",
            by_type_cells(suite, measure),
            len(schemes),
            question=f"What do the policies reach by task type ({measure})?",
        )
        for measure in _type_measures(suite)
    ]


def _percent(estimate: Mapping[str, float | None]) -> str:
    mean, low, high = estimate["mean"] or 0.0, estimate["low"], estimate["high"]
    return f"{100 * mean:.1f}" + ("" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]")


# -- swept parameters, in the order of the grid, as in the papers' ablations --------------------------------------------
SWEEP_ENDPOINTS: Final = {"mean success": "area", "held-out mean success": "held_out_area", "gain, KL 0.01": "gain"}


@dataclass(frozen=True, slots=True)
class SweptScheme:
    """A scheme and its variants in the order of the grid.

    Attributes:
        name: name of the scheme, with its annotation source.
        parameters: names of the varied parameters.
        values: by method its values, one per parameter.
    """

    name: str
    parameters: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]


def swept_schemes(names: Sequence[str]) -> list[SweptScheme]:
    """The schemes that occur with several values of the same parameters."""
    grids: dict[tuple[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = {}
    for name in names:
        variant = MethodName.parse(name)
        if variant.values:
            key = str(replace(variant, values={})), tuple(variant.values)
            grids.setdefault(key, {})[name] = tuple(variant.values.values())
    return [SweptScheme(*key, values) for key, values in grids.items() if len(values) > 1]


def sweep_endpoints(suite: Suite) -> tuple[list[SweptScheme], dict[str, Measure]]:
    """The swept schemes of a suite that have all endpoints, and the endpoints, the final criterion first; none without a sweep."""
    if not swept_schemes(suite["schemes"]) or ("studies" in suite and "variations" not in suite):
        return [], {}
    results = results_of(suite)
    standard = standard_settings(results) if results.samples == "seeds" else results
    endpoints = {text: name for text, name in SWEEP_ENDPOINTS.items() if standard.measured(name)}
    names = list(suite["schemes"])
    for endpoint in endpoints.values():
        measured = standard.methods(endpoint)
        names = [name for name in names if name in measured]
    return swept_schemes(names), {text: standard.measure(name) for text, name in endpoints.items()}


def sweep_title(swept: SweptScheme) -> str:
    """Title of a sweep's table."""
    return f"Sweep of {swept.name}: {', '.join(swept.parameters)}"


def _sweep_tables(suite: Suite) -> list[Table]:
    """One table per swept scheme; none without a sweep."""
    swept, measures = sweep_endpoints(suite)
    return [_sweep_table(scheme, measures) for scheme in swept]


def _sweep_table(swept: SweptScheme, measures: Mapping[str, Measure]) -> Table:
    first = next(iter(swept.values))
    endpoint, primary = next(iter(measures.items()))
    family = against(first, list(swept.values), primary)
    heads = [f"{text} [95 % CI]" for text in measures]
    rows = [[*swept.parameters, *heads, f"{endpoint}, minus the first row [95 % CI]", "p", "detectable"]]
    for name, values in swept.values.items():
        means = [Estimate.of(measure(name, "")).text() for measure in measures.values()]
        tested = contrast_texts(family[name]) if name in family else ["–"] * 3
        rows.append([*values, *means, *tested])
    return Table(
        sweep_title(swept),
        f"The variants in the order of the grid. Differences are paired, with 95 % intervals; p is adjusted by Holm over {len(family)} "
        "differences; detectable is the true difference that such a test finds with probability .8. The best row of many is too "
        "good by chance: choose a value here, and measure it with another --seed.",
        rows,
        len(rows) - 1,
        question=f"Which {' and '.join(swept.parameters)} suits {swept.name}?",
    )


# -- which scheme when --------------------------------------------------------------------------------------------------
def regime_table(*documents: Mapping[str, Any]) -> Table | None:
    """The verdicts on these runs as a table; None if no setting was run with at least two schemes."""
    all_verdicts = [verdict for document in documents for verdict in verdicts(document)]
    if not all_verdicts:
        return None
    rows = [
        ["regime", "tasks", "keys", "batch", "samples", "best scheme", "lead over the baseline [95 % CI]", "p",
         "not separated from the best", "exact advantage minus best"]
    ]  # fmt: skip
    for verdict in all_verdicts:
        lead, p = "–", "–"
        if verdict.lead is not None:
            adjusted = Estimate(verdict.lead.difference.mean, *verdict.lead.interval)
            lead, p = _points_text(adjusted), _lead_text(verdict.lead)
        rows.append(
            [verdict.regime, verdict.tasks, verdict.keys, verdict.batch, verdict.samples, verdict.leader.name, lead, p,
             _tied_text(verdict), "–" if verdict.headroom is None else _points_text(verdict.headroom)]
        )  # fmt: skip
    return Table(
        "Which scheme when",
        "Leads are differences in mean success during training (in studies: in their first endpoint), in percentage points. The baseline is "
        "grpo. With a table per task, variants of schemes are left out. p and the intervals of leads are adjusted by Holm over the schemes. A scheme is not separated from "
        "the best if p, adjusted over all pairs, is at least .05. A true difference of the detectable size is found with probability .8.",
        rows,
        len(rows) - 1,
    )


def _lead_text(lead: Contrast) -> str:
    p = p_text(lead.p_adjusted)
    return p if lead.separates or math.isnan(lead.detectable) else f"{p} (detectable: {100 * lead.detectable:.1f})"


def _tied_text(verdict: Verdict) -> str:
    leader = verdict.leader
    detectable = "" if math.isnan(leader.detectable) else f" (detectable: {100 * leader.detectable:.1f})"
    unstable = "; ".join(f"{name}: the sign depends on {' and '.join(of)}" for name, of in verdict.unstable.items())
    text = ", ".join(leader.tied) + detectable if leader.tied else "–"
    return f"{text}; {unstable}" if unstable else text
