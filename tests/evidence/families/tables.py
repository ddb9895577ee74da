"""The tables of the page from the stored results.

python tests/evidence/families/tables.py tests/evidence/families/results.json.gz
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.results import read_results
from creditflow.train.statistics import crossed_mean

__all__ = ["ENVIRONMENTS", "OPTIMISERS", "lead", "page_table", "suites_of"]

ENVIRONMENTS: Final = ("alfworld", "webshop", "wikisearch")
OPTIMISERS: Final = ("", ", Adam 0.1", ", Adam 0.4")  # the first has steps of equal KL divergence
METHODS: Final = (
    "stateless",
    "milegpo",
    "hgpo",
    "gigpo",
    "g2po",
    "rewardflow",
    "graphgpo",
    "blend",
    "grouptd",
    "oracle_progress",
)
PAIRS: Final = (
    *(("grouptd", other) for other in ("graphgpo", "blend", "stateless", "shuffled(grouptd)")),
    *(("graphgpo", other) for other in ("stateless", "shuffled(graphgpo)")),
)


def lead(suite: Mapping[str, Any], method: str, other: str = "grpo") -> Estimate:
    """Mean success during training minus another method's, in points, with a 95 % interval over seeds and tasks."""
    first, second = (np.array(suite["rows"][name]["area_by_seed"]) for name in (method, other))
    return Estimate.of(crossed_mean(100.0 * (first - second)))


def suites_of(document: Mapping[str, Any], optimiser: str) -> list[Mapping[str, Any]]:
    """The three environments under one of ``OPTIMISERS``."""
    by_name = {suite["name"]: suite for suite in document["suites"]}
    return [by_name[name + optimiser] for name in ENVIRONMENTS]


def page_table(document: Mapping[str, Any], optimiser: str) -> str:
    """Every method minus ``grpo``, and some pairs, in each environment."""
    suites = suites_of(document, optimiser)
    lines = [f"| minus | {' | '.join(ENVIRONMENTS)} |", f"|{' --- |' * (1 + len(suites))}"]
    base = [f"{100.0 * np.mean(suite['rows']['grpo']['area_by_seed']):.1f}" for suite in suites]
    lines.append(f"| grpo itself, % | {' | '.join(base)} |")
    for method, other in (*((name, "grpo") for name in METHODS), *PAIRS):
        cells = [lead(suite, method, other).text(1, "+") for suite in suites]
        lines.append(f"| {method} − {other} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    results = read_results(Path(sys.argv[1]))
    print("\n".join(page_table(results, optimiser) for optimiser in OPTIMISERS), end="")
