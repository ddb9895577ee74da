"""The tables of a suite of studies: one for every endpoint of every study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.contrasts import against, contrast_texts, study_measure
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.table import Table, ordered
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import ClusteredMean, probability_of_improvement

__all__ = ["study_tables"]


def study_tables(suite: Mapping[str, Any]) -> list[Table]:
    """A table for every endpoint of every study."""
    studies = [Study.from_json(row) for row in suite["studies"]]
    return [_table(suite, study, endpoint) for study in studies for endpoint in study.endpoints]


def _table(suite: Mapping[str, Any], study: Study, endpoint: str) -> Table:
    results, measure = study.results(endpoint), study_measure([study], endpoint)
    schemes, controls = ([name for name in suite[part] if name in results] for part in ("schemes", "controls"))
    base = baseline([*schemes, *controls])
    family = against(base, schemes, measure)
    rows = [
        [
            "method",
            f"{endpoint} [95 % CI]",
            f"minus {base} [95 % CI]",
            "p",
            "detectable",
            "probability of improvement [95 % CI]",
        ]
    ]
    bars: list[Estimate | None] = []
    schemes = ordered(schemes, lambda name: measure(name, "").mean)
    for name in (*schemes, *controls):
        lead = Estimate.of(measure(name, base)) if name != base else None
        if lead is None:
            texts = ["–"] * 4
        else:
            tested = contrast_texts(family[name]) if name in family else [lead.text(sign="+"), "–", "–"]
            texts = [*tested, _limited(probability_of_improvement(results[name], results[base])).text(2)]
        rows.append([name, str(Estimate.of(measure(name, ""))), *texts])
        bars.append(lead)
    seeds, tasks = next(iter(results.values())).shape
    return Table(
        f"{study.title}: {endpoint}",
        f"{seeds} seeds"
        + (f", the same {tasks} tasks under each" if tasks > 1 else ", each with tasks of its own")
        + f". Intervals: 95 %, over seeds and tasks. p is adjusted by Holm over {len(family)} schemes; detectable is the true "
        f"difference that such a test finds with probability .8. Probability of improvement: that a run beats one of {base} "
        "on the same task, ties counting half.",
        rows,
        len(schemes),
        tuple(bars),
        f"Which scheme is best: {study.title}, {endpoint}?",
        f"{endpoint}, minus {base}",
    )


def _limited(found: ClusteredMean) -> Estimate:
    """A probability, whose interval is cut at 0 and 1."""
    whole = Estimate.of(found)
    return Estimate(whole.mean, max(whole.low, 0.0), min(whole.high, 1.0)) if math.isfinite(whole.low) else whole
