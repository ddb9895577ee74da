"""``report.html``: the whole benchmark on one offline page; all text escaped, nothing loaded from outside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.report.plots import Plot
from creditflow.train.bench.report.sanity import sanity_rules
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import Table, suite_tables, undefined_table
from creditflow.train.bench.report.text import prediction_rows
from creditflow.train.bench.report.verdict import suite_facts, verdict

__all__ = ["require_report", "write_report"]

DEFINITIONS = {
    "credit": "one number for each turn of a recorded rollout: what multiplies the turn in the policy gradient",
    "M1": "direction: cosine between the gradient that the credit gives and the exact gradient of success; of the mean "
    "over many groups, and of a single group",
    "M2": "improvement, the main metric: exact success gained by one step of a given KL divergence, divided by what the "
    "exact gradient gains",
    "M3": "squared bias and variance of the direction, after the best scaling, relative to the exact gradient's length",
    "M4": "order: of two turns in one state, how often the better action has more credit (weighted by how much better "
    "it is); once by the policy's own values Q^π, once by shortest paths Q*",
    "M5": "hidden value: chance that a good turn has more credit than a bad one, among the turns of failed rollouts and "
    "of successful ones; centred within states (raw credit in brackets)",
    "coverage": "share of turns with credit; dead groups have none at all",
    "area": "mean success while a table policy learns, over a budget of environment turns; the final word",
    "J0, G": "success of the first policy; rollouts in a group",
    "oracle_adv": "control: the exact advantage A^π, the right answer",
    "oracle_progress": "control: how much nearer the turn brought the goal; efficiency, which is not advantage",
    "shuffled(X)": "control: X's credit dealt out at random among the turns of each rollout",
    "flipped(X)": "control: the negative of X",
    "X[fitted]": "X reads numbers that are means over earlier rollouts: what a critic, a success model or a judge could have "
    "learned by then",
    "X[exact]": "control: X reads the exact values instead, which no method has",
    "natural gradient": "the best direction there is at equal KL: the ceiling of M2",
}
WIDTH, PAD = 180.0, 6.0  # of the drawn intervals, in px


class Bar(NamedTuple):
    """A drawn interval; positions in px."""

    mean: float
    low: float
    high: float
    zero: float


class Section(NamedTuple):
    """A suite on the page."""

    name: str
    facts: str
    tables: list[tuple[Table, list[Bar | None]]]
    plots: list[tuple[str, str]]
    settings: Mapping[str, str]
    undefined: list[tuple[str, str]]


def require_report() -> None:
    """Check that the page can be made, before work is done.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingExtraError("jinja2", "bench") from error


def write_report(document: Mapping[str, Any], plots: Sequence[Plot], path: Path) -> None:
    """Render the page.

    The content security policy allows nothing but embedded pictures and this very style, by its hash.

    Args:
        document: of a run.
        plots: of its suites.
        path: where to write.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    require_report()
    from jinja2 import Environment, StrictUndefined

    folder = files("creditflow.assets") / "report"
    style = (folder / "bench.css").read_text(encoding="ascii")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string((folder / "bench.html").read_text(encoding="utf-8")).render(
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode("ascii")).digest()).decode("ascii"),
        verdict=verdict(document),
        rules=sanity_rules(document),
        suites=[_section(suite, plots) for suite in document["suites"]],
        predictions=prediction_rows(document) if document["predictions"] else [],
        written=document["predictions"]["written"] if document["predictions"] else "",
        definitions=DEFINITIONS,
        facts=document["provenance"],
        width=WIDTH,
    )
    with atomic_writer(path) as stream:
        stream.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))


def _section(suite: Mapping[str, Any], plots: Sequence[Plot]) -> Section:
    tables = suite_tables(suite)
    return Section(
        suite["name"],
        suite_facts(suite),
        [(replace(table, bars=()), _drawn(table)) for table in tables],
        [
            (base64.b64encode(plot.path.read_bytes()).decode("ascii"), plot.caption)
            for plot in plots
            if plot.suite == suite["name"]
        ],
        suite["settings"],
        undefined_table(suite),
    )


def _drawn(table: Table) -> list[Bar | None]:
    """Intervals as positions on one axis for all rows."""
    known = [bar for bar in table.bars if bar is not None]
    if not known:
        return []
    lowest = min(0.0, *(_ends(bar)[0] for bar in known))
    highest = max(0.0, *(_ends(bar)[1] for bar in known))
    scale = (WIDTH - 2 * PAD) / max(highest - lowest, 1e-9)

    def at(x: float) -> float:
        return round(PAD + (x - lowest) * scale, 1)

    return [None if b is None else Bar(at(b.mean), at(_ends(b)[0]), at(_ends(b)[1]), at(0.0)) for b in table.bars]


def _ends(bar: Estimate) -> tuple[float, float]:
    """The interval, or the mean twice where there is none."""
    return (bar.low, bar.high) if bar.low == bar.low else (bar.mean, bar.mean)
