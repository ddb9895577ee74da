"""The table of the page from the stored results.

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

__all__ = ["lead", "page_table"]

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
PAIRS: Final = (("grouptd", "graphgpo"), ("grouptd", "blend"), ("grouptd", "stateless"), ("graphgpo", "stateless"))


def lead(suite: Mapping[str, Any], method: str, other: str = "grpo") -> Estimate:
    """Mean success during training minus another method's, in points: the mean over tasks, each of which is the mean over its seeds."""
    by_task = [np.array(suite["rows"][name]["area_by_seed"]).mean(axis=0) for name in (method, other)]
    return Estimate.of(crossed_mean(100.0 * (by_task[0] - by_task[1])[:, None]))


def page_table(document: Mapping[str, Any]) -> str:
    """Every method minus ``grpo``, and some pairs, in each environment."""
    suites = {suite["name"]: suite for suite in document["suites"]}
    lines = [f"| minus | {' | '.join(suites)} |", f"|{' --- |' * (1 + len(suites))}"]
    base = [f"{100.0 * np.mean(suite['rows']['grpo']['area_by_seed']):.1f}" for suite in suites.values()]
    lines.append(f"| grpo itself, % | {' | '.join(base)} |")
    for method, other in (*((name, "grpo") for name in METHODS), *PAIRS):
        cells = [lead(suite, method, other).text(1, "+") for suite in suites.values()]
        lines.append(f"| {method} − {other} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page_table(read_results(Path(sys.argv[1]))), end="")
