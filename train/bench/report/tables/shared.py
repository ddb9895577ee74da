"""The tables of the suite ``shared``: learning and single steps over all task kinds, and with one property varied.

The samples are the layout seeds. All studies have the same layout seeds, so results are first averaged within each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from creditflow.train.bench.report.contrasts import Measure, against, contrast_texts
from creditflow.train.bench.report.correlations import correlation_estimate
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.table import Table, number_text, ordered
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import crossed_mean

__all__ = ["SHARED_TITLE", "methods_in", "over_seeds", "shared_tables", "standard_studies", "study_label"]

SHARED_TITLE: Final = "Learning with a shared policy"
PREDICTORS: Mapping[str, str] = {
    "gain_small": "gain, KL 0.001 (M2)",
    "gain": "gain, KL 0.01 (M2)",
    "held_out_gain": "gain on held-out tasks, KL 0.01 (M2)",
    "cos_batch": "cosine, one batch (M1)",
    "cos_mean": "cosine, mean (M1)",
}


def shared_tables(suite: Mapping[str, Any]) -> list[Table]:
    """All tables of the suite."""
    studies = [Study.from_json(row) for row in suite["studies"]]
    standard = standard_studies(studies)
    varied = [study for study in studies if study not in standard]
    base = next((study for study in standard if varied and study.kind == varied[0].kind), standard[0])
    single = [base, *varied, *(Study.from_json(row) for row in suite["variations"])]
    tables = [_learning_table(suite, standard), _step_table(suite, standard)]
    if varied:
        tables.append(_varied_table(suite, [base, *varied], "area", "Learning with one property varied"))
    if len(single) > 1:
        tables.append(_varied_table(suite, single, "gain", "Single steps with one property varied (M2)"))
    return [*tables, _correlation_table(suite)]


def standard_studies(studies: Sequence[Study]) -> list[Study]:
    """The studies with the setting of the first one, of all task kinds."""
    first = studies[0]
    setting = (first.batch, first.size, first.condition)
    return [study for study in studies if (study.batch, study.size, study.condition) == setting]


def methods_in(studies: Sequence[Study], endpoint: str) -> list[str]:
    """The methods that every study has, in the order of the first."""
    found = [study.results(endpoint) for study in studies]
    return [name for name in found[0] if all(name in results for results in found)]


def over_seeds(studies: Sequence[Study], endpoint: str) -> Measure:
    """Means of an endpoint over studies, with standard errors over the layout seeds, which all studies share."""
    means = {
        name: np.mean([study.results(endpoint)[name].mean(axis=1) for study in studies], axis=0)[:, None]
        for name in methods_in(studies, endpoint)
    }
    return lambda method, over: crossed_mean(means[method] - means[over] if over else means[method])


def _parts(suite: Mapping[str, Any], names: Sequence[str]) -> tuple[list[str], list[str]]:
    schemes, controls = ([name for name in suite[part] if name in names] for part in ("schemes", "controls"))
    return schemes, controls


def _short(studies: Sequence[Study], endpoint: str, name: str, digits: int = 2) -> str:
    """Mean over studies with half the width of its interval over the layout seeds."""
    values = np.concatenate([study.results(endpoint)[name].ravel() for study in studies])
    if not np.isfinite(values).all():
        return number_text(_mean(studies, endpoint, name), digits)
    return Estimate.of(over_seeds(studies, endpoint)(name, "")).short(digits)


def _mean(studies: Sequence[Study], endpoint: str, name: str) -> float:
    """Mean over studies and seeds (median for the variance) of the known values."""
    values = np.concatenate([study.results(endpoint)[name].ravel() for study in studies])
    known = values[np.isfinite(values)]
    return float(np.median(known) if endpoint == "variance" else known.mean()) if len(known) else float("nan")


def study_label(study: Study) -> str:
    """A study's tasks and setting in a few words, distinct within a suite."""
    setting = f"{study.batch} × {study.size}" + (f", {study.condition}" if study.condition else "")
    return f"{_label(study)}, {setting}"


def _label(study: Study) -> str:
    return f"{study.kind}, fresh keys" if study.keys == "fresh" else study.kind


def _learning_table(suite: Mapping[str, Any], studies: Sequence[Study]) -> Table:
    schemes, controls = _parts(suite, methods_in(studies, "area"))
    base, area, held_out = (
        baseline([*schemes, *controls]),
        *(over_seeds(studies, endpoint) for endpoint in ("area", "held_out_area")),
    )
    family = against(base, schemes, area)
    rows = [
        ["method", f"mean success minus {base} [95 % CI]", "p", "detectable", "mean success", "final success",
         f"held-out mean success minus {base} [95 % CI]", "held-out final", *map(_label, studies), "ms per 1000 turns"]
    ]  # fmt: skip
    bars: list[Estimate | None] = []
    schemes = ordered(schemes, lambda name: area(name, "").mean)
    for name in (*schemes, *controls):
        lead = Estimate.of(area(name, base)) if name != base else None
        tested = ["–"] * 3 if lead is None else [lead.text(sign="+"), "–", "–"]
        if name in family:
            tested = contrast_texts(family[name])
        other = "–" if name == base else Estimate.of(held_out(name, base)).text(sign="+")
        kinds = [_short([study], "area", name, 3) for study in studies]
        cost = suite["cost"].get(name)
        rows.append(
            [name, *tested, _short(studies, "area", name, 3), _short(studies, "final", name, 3), other,
             _short(studies, "held_out_final", name, 3), *kinds, "–" if cost is None else f"{cost:.1f}"]
        )  # fmt: skip
        bars.append(None if name.startswith("flipped(") else lead)
    updates, tasks, first = suite["updates"], suite["tasks"], studies[0]
    return Table(
        SHARED_TITLE,
        f"Mean success during training: exact, on the {tasks['train']} training tasks, measured every {updates['every']} of {updates['count']} "
        f"updates; held-out: on {tasks['held_out']} other tasks of the kind. An update has {first.batch} tasks × {first.size} rollouts, "
        f"{_average(updates)}, and a KL divergence of {updates['kl']:g} nats per turn. Means over the kinds of "
        f"task; mean success by kind on the right. Intervals, and ± half of them: 95 %, over {tasks['seeds']} layout seeds, each with tasks of its own. p is "
        f"adjusted by Holm over {len(family)} schemes; detectable is the true difference that such a test finds with probability "
        ".8. The last column is the time to assign credit.",
        rows,
        len(schemes),
        tuple(bars),
        "Which scheme learns fastest when many tasks share one policy?",
        f"mean success during training, minus {base} (0.01 is one percentage point)",
    )


def _average(updates: Mapping[str, Any]) -> str:
    """The loss average; in results of version 0.2.0 every scheme had its own."""
    same = updates.get("aggregation")
    return f"the {same.replace('_', ' ')} of the loss for all methods" if same else "the loss aggregation of the scheme"


def _step_table(suite: Mapping[str, Any], studies: Sequence[Study]) -> Table:
    schemes, controls = _parts(suite, methods_in(studies, "gain"))
    base, gain = baseline([*schemes, *controls]), over_seeds(studies, "gain")
    rows = [
        ["method", "gain, KL 0.01 [95 % CI]", f"minus {base}", "gain, KL 0.001", "held-out gain, KL 0.01", "cosine, mean",
         "cosine, one batch", "bias²", "variance", "coverage", "dead groups", *map(_label, studies)]
    ]  # fmt: skip
    bars: list[Estimate | None] = []
    schemes = ordered(schemes, lambda name: gain(name, "").mean)
    for name in (*schemes, *controls):
        own = Estimate.of(gain(name, ""))
        metrics = [_short(studies, metric, name) for metric in ("cos_mean", "cos_batch", "bias2")]
        metrics.append(number_text(_mean(studies, "variance", name)))
        metrics += [_short(studies, metric, name) for metric in ("coverage", "dead_groups")]
        rows.append(
            [name, str(own), "–" if name == base else Estimate.of(gain(name, base)).text(sign="+"),
             _short(studies, "gain_small", name), _short(studies, "held_out_gain", name), *metrics,
             *(_short([study], "gain", name) for study in studies)]
        )  # fmt: skip
        bars.append(None if name.startswith("flipped(") else own)
    return Table(
        "Single steps (M1, M2, M3), in the policy's own parameters",
        "Gain: mean exact success on all training tasks (held-out: on the held-out tasks) gained by one step of a given KL "
        "divergence along the gradient of one batch, relative to what the exact gradient gains on the training tasks. Cosine, "
        "squared bias and variance: of that gradient against the exact one; the variance is a median, without an interval. Coverage and dead "
        "groups are fractions. By kind of task: gain at KL 0.01. ± is half the 95 % interval over layout seeds.",
        rows,
        len(schemes),
        tuple(bars),
        "Which scheme improves the policy most in one step?",
        "gain of one step at KL 0.01, as a fraction of the exact gradient's",
    )


def _varied_table(suite: Mapping[str, Any], studies: Sequence[Study], endpoint: str, title: str) -> Table:
    schemes, controls = _parts(suite, methods_in(studies, endpoint))
    schemes = ordered(schemes, lambda name: _mean(studies[:1], endpoint, name))
    first = f"{_label(studies[0])}, "
    heads = [study_label(study).removeprefix(first) for study in studies]
    rows = [["method", *heads]]
    rows += [
        [name, *(_short([study], endpoint, name, 3 if endpoint == "area" else 2) for study in studies)]
        for name in (*schemes, *controls)
    ]
    return Table(
        title,
        f"Kind of task: {_label(studies[0])}. The first column is the standard setting, tasks × rollouts of an update; the heading of every "
        "other column says how it differs. "
        + ("Mean success during training." if endpoint == "area" else "Gain of one step at KL 0.01.")
        + " Columns differ in tasks or amount of data, so compare methods within a column. ± is half the 95 % interval over layout seeds.",
        rows,
        len(schemes),
        question="Does it hold in other settings?"
        if endpoint == "area"
        else "Does the best step stay the best in other settings?",
    )


def _correlation_table(suite: Mapping[str, Any]) -> Table:
    studies = [Study.from_json(row) for row in suite["studies"]]
    found = {metric: correlation_estimate(studies, metric, value) for metric, value in suite["correlations"].items()}
    rows = [["metric", "rank correlation with mean success [95 % CI]"]]
    rows += [[PREDICTORS[name], "–" if one is None else one.text(2)] for name, one in found.items()]
    return Table(
        "Which metric predicts learning",
        "Spearman's rank correlation, over methods, of each metric with mean success during training; mean over studies. Intervals: "
        "95 %, over layout seeds, by the jackknife (each seed left out in turn), cut at 1.",
        rows,
        len(rows) - 1,
        tuple(found.values()),
        "Which metric predicts learning?",
        "rank correlation over methods",
    )
