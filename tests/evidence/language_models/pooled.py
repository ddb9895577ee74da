"""Several runs of ``creditflow bench --preset lm`` pooled: ``python tests/evidence/language_models/pooled.py RESULTS…``.

Prints the table of ``tests/evidence/language_models/pooled.txt``: differences of held-out success in percentage points with 95 %
intervals. Families and runs are strata of equal weight; within each, seeds and tasks are crossed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from creditflow.train.bench.language_model.suite.summary import endpoint_values
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.results import read_results
from creditflow.train.statistics.clustered import ClusteredMean, crossed_mean, stratified_mean
from creditflow.train.text_table import text_table

BASELINES = {
    "held-out area": ("grpo", "stateless", "grouptd"),
    "held-out final": ("grpo", "best temperature", "more imitation", "grouptd"),
    "held-out greedy": ("best temperature", "more imitation"),
}
SHOWN = {
    "area − grpo": ("held-out area", "grpo"),
    "area − stateless": ("held-out area", "stateless"),
    "final − grpo": ("held-out final", "grpo"),
    "final − best temperature": ("held-out final", "best temperature"),
    "final − more imitation": ("held-out final", "more imitation"),
}


def pooled_difference(
    families: Sequence[Mapping[str, Any]], method: str, baseline: str, endpoint: str
) -> ClusteredMean:
    """A method minus another one: strata of equal weight, within which seeds and tasks are crossed."""
    return stratified_mean(
        [crossed_mean(endpoint_values(f, method, endpoint) - endpoint_values(f, baseline, endpoint)) for f in families]
    )


def page_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """The table of the page, as Markdown: the highest area first."""
    families = [family for run in runs for family in run["language_models"]["families"].values()]
    methods = [name for name in families[0]["runs"] if all(name in family["runs"] for family in families)]
    areas = {name: pooled_difference(families, name, "grpo", "held-out area").mean for name in methods}
    lines = [f"| method | {' | '.join(SHOWN)} |", f"|{' --- |' * (1 + len(SHOWN))}"]
    for name in sorted(methods, key=lambda name: -areas[name]):
        cells = [
            "–"
            if name == other
            else Estimate.of(pooled_difference(families, name, other, endpoint)).times(100).text(1, "+")
            for endpoint, other in SHOWN.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def difference(families: Sequence[Mapping[str, Any]], method: str, baseline: str, endpoint: str) -> str:
    """The pooled difference with its interval, and the mean of each stratum in brackets."""
    strata = [pooled_difference([family], method, baseline, endpoint) for family in families]
    pooled = stratified_mean(strata)
    low, high = pooled.interval
    parts = ", ".join(f"{100 * stratum.mean:+.1f}" for stratum in strata)
    return f"{100 * pooled.mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] ({parts})"


def pooled_tables(runs: Sequence[Mapping[str, Any]]) -> str:
    """One table per endpoint: methods in rows, baselines in columns."""
    named = [(name, family) for run in runs for name, family in run["language_models"]["families"].items()]
    families = [family for _, family in named]
    methods = [name for name in families[0]["runs"] if all(name in family["runs"] for family in families)]
    parts = [f"Differences in percentage points; in brackets the strata: {', '.join(name for name, _ in named)}."]
    for endpoint, baselines in BASELINES.items():
        rows = [
            [method, *(difference(families, method, b, endpoint) if method != b else "–" for b in baselines)]
            for method in methods
        ]
        parts.append(f"{endpoint}\n" + text_table([["method", *(f"minus {b}" for b in baselines)], *rows]))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, help="result files (.json or .json.gz)")
    runs = [read_results(path) for path in parser.parse_args().results]
    print(pooled_tables(runs))


if __name__ == "__main__":
    main()
