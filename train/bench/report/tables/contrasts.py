"""The planned contrasts of a suite as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from creditflow.train.bench.report.contrasts import Measure, against, contrast_texts
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.table import Table, ordered

__all__ = ["contrast_table"]


def contrast_table(schemes: Sequence[str], endpoints: Mapping[str, Measure]) -> Table:
    """Every scheme against the baseline: first those that are certain in the last endpoint, then the others, the best first."""
    base = baseline(schemes)
    found = {name: against(base, schemes, measure) for name, measure in endpoints.items()}
    last = found[list(endpoints)[-1]]
    heads = [head for name in endpoints for head in (f"{name}, minus {base} [95 % CI]", "p", "detectable")]
    certain = [name for name in last if last[name].separates]
    order = [
        *ordered(certain, lambda name: last[name].difference.mean),
        *ordered([name for name in last if name not in certain], lambda name: last[name].difference.mean),
    ]
    rows = [["scheme", *heads]]
    for name in order:
        texts = [contrast_texts(family[name]) for family in found.values()]
        texts[-1][1] += " ✓" if name in certain else ""
        rows.append([name, *(text for of_endpoint in texts for text in of_endpoint)])
    return Table(
        f"Schemes against {base}",
        f"Paired differences with 95 % intervals; those that are certain after adjustment (✓, in the last endpoint) come first. p is adjusted by Holm over the {len(last)} schemes of an endpoint. Detectable is the true "
        "difference that such a test finds with probability .8: where p is .05 or more, the schemes may well differ by less.",
        rows,
        len(rows) - 1,
        question=f"Which differences from {base} are certain?",
    )
