"""``report.html``: all results of the benchmark on one offline page; all text is escaped, nothing is loaded from elsewhere.

It opens with the verdict; then every suite answers its questions, each with one plot and the table behind it. Words are explained by
``popover`` elements, which need no script: on hover, and by click, touch or keyboard.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from creditflow.envs.errors import require_modules
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.language_model.suite.report import language_model_conclusions, language_model_tables
from creditflow.train.bench.methods import present_names
from creditflow.train.bench.report.chart import MARKS, Chart, DrawnPlot, Interval, chart_of, drawn_plot
from creditflow.train.bench.report.conclusions import prediction_conclusion, suite_conclusions, suite_description
from creditflow.train.bench.report.headline import headline
from creditflow.train.bench.report.plots import SECTION, Plot, document_plots
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.tables import Table, regime_table, suite_tables, undefined_table
from creditflow.train.bench.report.terms import DEFINITIONS, Words
from creditflow.train.bench.report.text import prediction_rows

__all__ = ["require_report", "write_report"]

BREAKS = re.compile(r"(?<=[_={])(?=\w)")  # where a long name may go on in the next line


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

    document = shown_document(document)
    folder = files("creditflow.assets") / "report"
    style = (folder / "bench.css").read_text(encoding="ascii")
    plots = document_plots(document)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["breakable"] = lambda text: Markup("<wbr>").join(BREAKS.split(text))
    page = environment.from_string((folder / "bench.html").read_text(encoding="utf-8")).render(
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode("ascii")).digest()).decode("ascii"),
        headline=headline(document),
        predicted=prediction_conclusion(document),
        w=Words(),
        marks=MARKS,
        when=regime_table(document),
        checks=sanity_checks(document),
        suites=[*(_section(suite, plots) for suite in document["suites"]), *_language_models(document, plots)],
        predictions=prediction_rows(document) if document["predictions"] else [],
        written=document["predictions"]["written"] if document["predictions"] else "",
        definitions=DEFINITIONS,
        provenance=document["provenance"],
    )
    with atomic_writer(path) as stream:
        stream.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))


def shown_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The results under the present names of their methods, which need not be those of the release that stored them."""
    renamed = {**document, "suites": [_renamed(suite, suite) for suite in document["suites"]]}
    if "language_models" in document:
        renamed["language_models"] = _renamed(document["language_models"], document["language_models"])
    return renamed


def _renamed(content: Any, part: Mapping[str, Any]) -> Any:
    settings = part.get("settings", {})
    used = {*settings, *part.get("schemes", ()), "grouptd_relative"}
    names = present_names(used, settings)
    if len(set(names.values())) < len(names):  # the variant and the default that it became took part under both names
        return content
    changed = {old: new for old, new in names.items() if old != new}
    name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, changed))})(?!\w)")
    return _with_names(content, lambda text: name.sub(lambda match: changed[match[0]], text))


def _with_names(content: Any, rename: Callable[[str], str]) -> Any:
    """The content with all its texts and keys renamed."""
    if isinstance(content, str):
        return rename(content)
    if isinstance(content, list):
        return [_with_names(element, rename) for element in content]
    if isinstance(content, dict):
        return {rename(key): _with_names(value, rename) for key, value in content.items()}
    return content


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


def _language_models(document: Mapping[str, Any], plots: Sequence[Plot]) -> list[Section]:
    models = document.get("language_models")
    if models is None:
        return []
    description = "Small language models learn each family of tasks from one warm-up per seed; success is exact."
    questions = _questions(language_model_tables(models), [plot for plot in plots if plot.suite == SECTION])
    findings = [_capital(sentence.removeprefix("Language models, ")) for sentence in language_model_conclusions(models)]
    return [Section(SECTION, description, findings, questions, models["settings"], [])]


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
        rows.append(Interval(name, "", bar.text(digits, "+" if "minus" in table.unit else ""), kind, bar))
    return chart_of(rows, table.unit or table.rows[0][1])
