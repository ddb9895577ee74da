"""Tables of some schemes against all other methods, study by study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from creditflow.train.bench.report.contrasts import Measure, against
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.contrasts import contrast_table
from creditflow.train.bench.report.tables.shared import methods_in, over_seeds, study_label
from creditflow.train.bench.report.tables.table import Table, ordered
from creditflow.train.bench.studies import Study

__all__ = ["rival_tables"]

ENDPOINTS: Final = {"area": "area", "final": "final success"}
ALL: Final = "mean of all studies"
AXIS: Final = "studies by kind of task and tasks × rollouts of an update"


def _ordered_by(measure: Measure, schemes: Sequence[str]) -> list[str]:
    return ordered(schemes, lambda name: measure(name, "").mean)


def rival_tables(suite: Mapping[str, Any], own: Sequence[str]) -> list[Table]:
    """All schemes against the baseline, pooled and by study; then each scheme of ``own`` against all other methods by study."""
    studies = [Study.from_json(row) for row in suite["studies"]]
    methods = methods_in(studies, "area")
    schemes = [name for name in suite["schemes"] if name in methods]
    controls = [name for name in suite["controls"] if name in methods and "(" not in name]
    pooled = contrast_table(schemes, {text: over_seeds(studies, name) for name, text in ENDPOINTS.items()})
    base = baseline(schemes)
    tables = [pooled]
    for endpoint, text in ENDPOINTS.items():
        order = _ordered_by(over_seeds(studies, endpoint), schemes)
        tables.append(_by_study(studies, endpoint, text, base, (*order, *controls), schemes))
    strongest = _ordered_by(over_seeds(studies, "area"), schemes)
    for name in (n for n in own if n in methods):
        others = [other for other in (*schemes, *controls) if other != name]
        if others:
            rival = next((other for other in strongest if other != name), others[0])
            tables.append(_lead_table(studies, name, others, rival))
    return tables


def _by_study(
    studies: Sequence[Study], endpoint: str, text: str, base: str, names: Sequence[str], schemes: Sequence[str]
) -> Table:
    names = [name for name in names if name != base]
    rows, bars, best = [["study", base, *names]], [], names[0] if names else base
    for study in studies:
        measure = over_seeds([study], endpoint)
        family = against(base, schemes, measure)
        cells = [
            _text(Estimate.of(measure(name, base)), mark=name in family and family[name].separates) for name in names
        ]
        rows.append([study_label(study), _base(measure, base), *cells])
        bars.append(Estimate.of(measure(best, base)).times(100))
    measure = over_seeds(studies, endpoint)
    bars.append(Estimate.of(measure(best, base)).times(100))
    rows.append([ALL, _base(measure, base), *(_text(Estimate.of(measure(name, base))) for name in names)])
    return Table(
        f"{text} over {base}, by study",
        f"Percentage points, paired by layout seed, with 95 % intervals; * for a scheme: p below .05 after Holm's adjustment over the "
        f"{len(schemes) - 1} schemes of the study.",
        rows,
        len(rows) - 2,
        tuple(bars),
        f"In which studies is {best} ahead of {base}, by {text}?",
        f"{text} of {best} minus that of {base}, in percentage points; {AXIS}",
    )


def _lead_table(studies: Sequence[Study], own: str, others: Sequence[str], rival: str) -> Table:
    """One scheme minus all others; the one minus ``rival``, the best of the others, is drawn."""
    rows = [["study", *others]]
    bars = []
    for label, chosen in [*((study_label(study), [study]) for study in studies), (ALL, studies)]:
        measure = over_seeds(chosen, "area")
        rows.append([label, *(_text(Estimate.of(measure(own, other))) for other in others)])
        bars.append(Estimate.of(measure(own, rival)).times(100))
    return Table(
        f"{own} minus other methods, area",
        "Percentage points, paired by layout seed, with 95 % intervals that are not adjusted for their number.",
        rows,
        len(rows) - 2,
        tuple(bars),
        f"Is {own} ahead of the other schemes in every study?",
        f"area of {own} minus that of {rival}, the best other scheme over all studies, in percentage points; {AXIS}",
    )


def _base(measure: Measure, base: str) -> str:
    return Estimate.of(measure(base, "")).times(100).short(1)


def _text(estimate: Estimate, *, mark: bool = False) -> str:
    return estimate.times(100).text(1, "+") + ("*" if mark else "")
