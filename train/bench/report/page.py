"""``report.html``: all results of the benchmark on one offline page; all text is escaped, nothing is loaded from elsewhere.

It opens with the verdict; then every suite answers its questions, each with one plot and the table behind it. Words are explained by
``popover`` elements, which need no script: on hover, and by click, touch or keyboard.

The page begins with the headline: what the run shows, in a sentence that needs no other page, and the chart behind it.
``standing`` decides how certain a lead is, from the interval that the chart draws: the sentence counts standings, and every
row of the chart states its own, so that they cannot contradict each other.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import require_modules
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.report.chart import MARKS, Chart, DrawnPlot, Interval, chart_of, drawn_plot
from creditflow.train.bench.report.conclusions import suite_conclusions, suite_description
from creditflow.train.bench.report.plots import Plot, document_plots
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import Table, regime_table, suite_tables, undefined_table
from creditflow.train.bench.report.terms import DEFINITIONS, Words
from creditflow.train.bench.report.verdicts import Verdict, names_text, standing, verdict_sentences, verdicts
from creditflow.train.statistics import Contrast

__all__ = ["headline", "require_report", "write_report"]

BREAKS = re.compile(r"(?<=[_={])(?=\w)")  # where a long name may go on in the next line
TITLES: Final[Mapping[str, str]] = {
    "table per task": "One table per task",
    "shared policy": "One policy for many tasks",
}


class Question(NamedTuple):
    """A question of a suite: its plots, and the table behind them.

    Attributes:
        table: the table; its question is the heading.
        chart: intervals of the schemes; None for none.
        plots: lines on panels.
    """

    table: Table
    chart: Chart | None
    plots: list[DrawnPlot]


class Section(NamedTuple):
    """A suite on the page."""

    name: str
    description: str
    findings: list[str]
    questions: list[Question]
    settings: Mapping[str, str]
    undefined: list[tuple[str, str]]


def require_report() -> None:
    """Check that the page can be made, before any work is done.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    require_modules("jinja2", "bench", "jinja2")


def write_report(document: Mapping[str, Any], path: Path) -> None:
    """Render the page.

    The content security policy allows nothing but this style sheet, by its hash.

    Args:
        document: results of a run.
        path: file to write.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    require_report()
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("creditflow.assets") / "report"
    style = (folder / "bench.css").read_text(encoding="ascii")
    plots = document_plots(document)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["breakable"] = lambda text: Markup("<wbr>").join(BREAKS.split(text))
    page = environment.from_string((folder / "bench.html").read_text(encoding="utf-8")).render(
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode("ascii")).digest()).decode("ascii"),
        headline=headline(document),
        w=Words(),
        marks=MARKS,
        when=regime_table(document),
        checks=sanity_checks(document),
        suites=[_section(suite, plots) for suite in document["suites"]],
        definitions=DEFINITIONS,
        provenance=document["provenance"],
    )
    with atomic_writer(path) as stream:
        stream.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))


def _section(suite: Mapping[str, Any], plots: Sequence[Plot]) -> Section:
    of_suite = [plot for plot in plots if plot.suite == suite["name"]]
    return Section(
        suite["name"],
        suite_description(suite),
        [_capital(sentence.removeprefix(f"{suite['name']}: ")) for sentence in suite_conclusions(suite)],
        _questions(suite_tables(suite), of_suite),
        suite["settings"],
        undefined_table(suite),
    )


def _questions(tables: Sequence[Table], plots: Sequence[Plot]) -> list[Question]:
    questions = []
    for table in tables:
        drawn = [drawn_plot(plot) for plot in plots if plot.about == table.title]
        questions.append(Question(replace(table, bars=()), _chart(table), drawn))
    return questions


def _capital(sentence: str) -> str:
    """A sentence that begins with a word of ours begins with a capital; the name of a scheme stays as it is."""
    return (
        sentence[:1].upper() + sentence[1:] if sentence.startswith(("the ", "with ", "no ", "held-out ")) else sentence
    )


def _chart(table: Table) -> Chart | None:
    """The drawn estimates of the schemes and of the main controls."""
    drawn = [(row[0], bar) for row, bar in zip(table.rows[1:], table.bars, strict=False) if bar is not None]
    names = {row[0] for row in table.rows[1 : table.controls + 1]}
    compared = table.rows[0][0] != "study"  # no study is the best
    best = max((bar.mean for name, bar in drawn if name in names and compared), default=math.nan)
    rows, digits = [], 1 if "in percentage points" in table.unit else 3
    for name, bar in drawn:
        control = name not in names
        if control and ("(" in name or "[" in name):  # corrupted controls, and exact annotations
            continue
        kind = "best" if bar.mean == best else "scheme"
        if control:
            kind = "control"
        text = bar.text(digits, "+" if "minus" in table.unit else "").replace("-", "−")
        rows.append(Interval(name, "", text, kind, bar))
    return chart_of(rows, table.unit or table.rows[0][1])


class Headline(NamedTuple):
    """The opening of the report.

    Attributes:
        sentence: the verdict.
        trust: whether the results can be used, and why.
        sound: whether every sanity check passed.
        chart: the lead of the best scheme in every setting.
    """

    sentence: str
    trust: str
    sound: bool
    chart: Chart | None


def headline(document: Mapping[str, Any]) -> Headline:
    """The opening of the report on these results."""
    checks = sanity_checks(document)
    failed = sum(not check.passed for check in checks)
    if failed:
        return Headline(
            "Do not use these results.",
            f"{failed} of {len(checks)} sanity checks FAILED: something in the benchmark, or in a scheme, does not work.",
            False,
            None,
        )
    of_run = verdicts(document)
    trust = f"The benchmark works as it should: all {len(checks)} sanity checks passed." if checks else ""
    if of_run:
        number = of_run[0].family
        trust += f" Leads are adjusted (Holm) for all {number} comparisons of schemes with their baseline."
    rows = [row for verdict in of_run for row in _rows(verdict)]
    unit = (
        "mean success during training compared with the baseline, in percentage points. The best scheme was selected on these same "
        "results, so its lead is probably an overestimate. The intervals account for the number of schemes and settings compared"
    )
    sentence = " ".join(verdict_sentences(document)) or "Nothing is compared."
    return Headline(sentence, trust.strip(), True, chart_of(rows, unit))


def _rows(verdict: Verdict) -> Iterator[Interval]:
    """The lead of the best scheme with its adjusted interval; below it, if that is unclear, the best clear one."""
    if verdict.lead is None:
        return
    kind, tied = standing(verdict), verdict.leader.tied
    title = f"{TITLES.get(verdict.regime, verdict.regime)}: {verdict.tasks}, {verdict.keys} state keys"
    notes = [f"{verdict.batch}, {verdict.samples}".capitalize()]
    if kind == "few":
        notes.append(f"{verdict.number} tasks are too few for a verdict")
    if kind == "unclear":
        notes.append("The lead may be chance")
    if tied:
        notes.append(f"{verdict.leader.name} is not distinguishable from {names_text(tied)}")
    mark = None
    if verdict.headroom is not None:
        relative = verdict.headroom.times(100).text(1, "+").replace("-", "−")
        notes.append(f"The exact advantage is at {relative} relative to it")
        mark = 100 * (verdict.lead.difference.mean + verdict.headroom.mean)
    yield _interval(
        verdict.leader.name, verdict.lead, "best" if kind == "clear" else "scheme", title, ". ".join(notes) + ".", mark
    )
    if kind == "unclear":
        for name, contrast in list(verdict.faster.items())[:1]:
            yield _interval(
                name, contrast, "scheme", "", "This is the largest lead that is clear in this setting.", None
            )


def _interval(name: str, lead: Contrast, kind: str, title: str, note: str, mark: float | None) -> Interval:
    points = Estimate(lead.difference.mean, *lead.interval).times(100)
    return Interval(name, note, points.text(1, "+").replace("-", "−"), kind, points, title, mark)
