"""Tables of swept parameters, in the order of the grid: one per scheme, as in the papers' ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from creditflow.train.bench.report.contrasts import Measure, against, contrast_texts, played_measure, table_measure
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary
from creditflow.train.bench.report.tables.shared import methods_in, over_seeds, standard_studies
from creditflow.train.bench.report.tables.table import Table
from creditflow.train.bench.studies import Study
from creditflow.train.bench.variants.names import MethodName

__all__ = ["SweptScheme", "sweep_measures", "sweep_tables", "sweep_title", "swept_schemes"]


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
    found: dict[tuple[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = {}
    for name in names:
        variant = MethodName.parse(name)
        if variant.values:
            key = str(replace(variant, values={})), tuple(variant.values)
            found.setdefault(key, {})[name] = tuple(variant.values.values())
    return [SweptScheme(*key, values) for key, values in found.items() if len(values) > 1]


def sweep_measures(suite: Mapping[str, Any]) -> tuple[dict[str, Measure], list[str]]:
    """The endpoints by which a suite's values are compared, the final criterion first, and the schemes that have all of them."""
    if "cells" in suite:
        summary = Summary(suite["cells"])
        learned = {"area": table_measure(summary, "area")} if summary.learned else {}
        names = set(summary.methods) & set(summary.learned or summary.methods)
        measures = learned | {"gain, KL 0.01": table_measure(summary, "gain")}
    elif "variations" in suite:
        studies = standard_studies([Study.from_json(row) for row in suite["studies"]])
        ends = {"area": "area", "held-out area": "held_out_area", "gain, KL 0.01": "gain"}
        names = set.intersection(*(set(methods_in(studies, end)) for end in ends.values()))
        measures = {text: over_seeds(studies, end) for text, end in ends.items()}
    elif "rows" in suite:
        names, measures = set(suite["rows"]), {"area": played_measure(suite["rows"])}
    else:
        return {}, []
    return measures, [name for name in suite["schemes"] if name in names]


def sweep_tables(suite: Mapping[str, Any]) -> list[Table]:
    """One table per swept scheme; none without a sweep."""
    if not swept_schemes(suite["schemes"]):
        return []
    measures, names = sweep_measures(suite)
    return [_table(swept, measures) for swept in swept_schemes(names)] if measures else []


def sweep_title(swept: SweptScheme) -> str:
    """Title of a sweep's table."""
    return f"Sweep of {swept.name}: {', '.join(swept.parameters)}"


def _table(swept: SweptScheme, measures: Mapping[str, Measure]) -> Table:
    first, *others = swept.values
    end, primary = next(iter(measures.items()))
    family = against(first, list(swept.values), primary)
    heads = [f"{text} [95 % CI]" for text in measures]
    rows = [[*swept.parameters, *heads, f"{end}, minus the first row [95 % CI]", "p", "detectable"]]
    for name, values in swept.values.items():
        means = [Estimate.of(measure(name, "")) for measure in measures.values()]
        tested = contrast_texts(family[name]) if name in family else ["–"] * 3
        rows.append([*values, *map(str, means), *tested])
    return Table(
        sweep_title(swept),
        f"The variants in the order of the grid. Differences are paired, with 95 % intervals; p is adjusted by Holm over {len(others)} "
        "differences; detectable is the true difference that such a test finds with probability .8. The best row of many is too "
        "good by chance: choose a value here, and measure it with another --seed.",
        rows,
        len(rows) - 1,
        question=f"Which {' and '.join(swept.parameters)} suits {swept.name}?",
    )
