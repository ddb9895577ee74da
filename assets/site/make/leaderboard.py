"""The leaderboard: every method of the stored results, in every regime, best first."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from creditflow.assets.site.make.submissions import section, submissions
from creditflow.assets.site.markdown import prose, table
from creditflow.assets.site.repository import ROOT, read
from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.methods import is_control
from creditflow.train.bench.report.chart import Interval, chart_of
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.results import read_results
from creditflow.train.cards.figures import REGIMES, Figures, collected
from creditflow.wrappers import credit

__all__ = ["pages", "stored_figures", "with_charts"]

CHART: Final = re.compile(r"<!-- chart: ([a-z ]+) -->")

# the stored results, in the order in which figures of the reference cards are made from them
FILES = (
    "tests/evidence/schemes/results.json.gz",
    "tests/evidence/language_models/lm.json.gz",
    "tests/evidence/language_models/second.json.gz",
)
COST = "tests/evidence/schemes/cost.json"
CONTROLS: Mapping[str, str] = {
    "oracle_adv": "exact advantage",
    "stateless": "discounted outcome, which ignores states (control)",
}


@cache
def stored_figures() -> Figures:
    """Figures made now from the stored result files.

    Raises:
        DataError: a file is damaged or of another version.
    """
    cost = read_json(ROOT / COST)
    if not isinstance(cost, Mapping):
        raise DataError(f"{COST}: expected an object")
    return collected({name: read_results(ROOT / name) for name in FILES}, cost)


def pages() -> dict[str, tuple[str, str]]:
    """One page with a table per regime."""
    figures = stored_figures()
    head = (
        "# Leaderboard\n\nThis page ranks every method of the stored results in each setting. It is made from the result files when the site is built, and no "
        "number is written by hand. **Learning** is the mean success during training compared with `grpo`, in percentage points. **M2** is the success gained "
        "by one step relative to the exact gradient's step. Shared policies take steps of equal KL divergence: [under Adam](/evidence/protocol.md) the order of `grouptd` and `graphgpo` is another one. [All intervals](/benchmark/protocol.md) are 95% confidence intervals. Do not rank "
        "two rows by this table if their intervals overlap. `creditflow bench --show FILE` prints paired differences.\n"
    )
    blocks = [head]
    for regime, meaning in REGIMES.items():
        blocks.append(
            f"## {regime.capitalize()}: {meaning}\n\n<!-- chart: {regime} -->\n\n{regime_table(figures, regime)}"
        )
    blocks.append(
        f"## Submitted\n\n{section(list(submissions()))}\n\n[Submit a result](/benchmark/submit.md) explains how to add your own row."
    )
    runs = "\n".join(
        f"- {s['regime']}: `{s['file'] or COST}`, `{s['command']}` at {s['commit']}" for s in figures.sources
    )
    settings = "\n".join(f"- `{method}`: {prose(text)}" for method, text in figures.settings.items())
    blocks.append(f"## Settings that differ from the papers'\n\n{settings}")
    blocks.append(f"## Commands behind these results\n\n{runs}\n")
    return {"benchmark/leaderboard": ("", "\n\n".join(blocks))}


def with_charts(text: str) -> str:
    """A page whose comments ``<!-- chart: REGIME -->`` are intervals on an axis: every method's learning, best first."""
    return CHART.sub(lambda match: _chart(match[1]), text)


def _chart(regime: str) -> str:
    rows = [
        Interval(
            CONTROLS.get(method, method).partition(",")[0],
            "",
            shown(learning),
            "control" if is_control(method) else "scheme",
            scaled(learning),
        )
        for learning, _, method in ranked_methods(stored_figures(), regime)
        if learning is not None and method != "grpo"
    ]
    template = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined).from_string(
        read("assets/site/chart.html")
    )
    return template.render(chart=chart_of(rows, "percentage points compared with grpo"))


def ranked_methods(figures: Figures, regime: Any) -> list[tuple[Estimate | None, Estimate | None, str]]:
    """Learning, M2 and name of a regime's methods, by learning, then by M2; where one was not measured, at the end."""
    ranked = []
    for method, measured in figures.measured.items():
        endpoints = measured.get(regime, {})
        learning, step = endpoints.get("learning"), endpoints.get("step")
        if method == "grpo" and learning is None and endpoints:
            learning = Estimate(0.0, float("nan"), float("nan"))
        if endpoints:
            ranked.append((learning, step, method))
    ranked.sort(key=lambda row: tuple(estimate.mean if estimate else -math.inf for estimate in row[:2]), reverse=True)
    return ranked


def regime_table(figures: Figures, regime: Any) -> str:
    """The table of a regime."""
    rows = [["method", "learning compared with grpo, points", "M2"]]
    for learning, step, method in ranked_methods(figures, regime):
        area = "–" if learning is None else shown(learning)
        rows.append([label(method), area if method != "grpo" else "0 (baseline)", step.text(2) if step else "–"])
    return table(rows)


def scaled(estimate: Estimate) -> Estimate:
    """An estimate in points."""
    return Estimate(100 * estimate.mean, 100 * estimate.low, 100 * estimate.high)


def shown(estimate: Estimate) -> str:
    """An estimate in points as text."""
    return scaled(estimate).text(1, "+").replace("-", "−")


def label(method: str) -> str:
    """A method with a link to its scheme."""
    if is_control(method):
        return f"*{CONTROLS.get(method, method)}*"
    scheme = next((name for name in sorted(credit.names(), key=len, reverse=True) if method.startswith(name)), "")
    return f"[`{method}`](/schemes/{scheme}.md)" if scheme else f"`{method}`"
