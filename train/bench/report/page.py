"""The report: tables and a headline as text, and as one offline page on which all text is escaped and nothing is loaded.

It begins with the headline: what the run shows, in a sentence that needs no other page.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from creditflow.envs.errors import require_modules
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.tables import Table, check_table, regime_table, suite_description, suite_tables
from creditflow.train.bench.report.terms import CONTROLS, TERMS, about_method
from creditflow.train.bench.report.verdicts import verdict_sentences, verdicts
from creditflow.train.text_table import terminal_width, text_table

__all__ = ["document_text", "headline", "require_report", "write_report"]

BREAKS = re.compile(r"(?<=[_={])(?=\w)")  # where a long name may go on in the next line


class Section(NamedTuple):
    """A suite on the page."""

    name: str
    description: str
    tables: list[Table]
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
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["breakable"] = lambda text: Markup("<wbr>").join(BREAKS.split(text))
    page = environment.from_string((folder / "bench.html").read_text(encoding="utf-8")).render(
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode("ascii")).digest()).decode("ascii"),
        headline=headline(document),
        when=regime_table(document),
        checks=check_table(document),
        suites=sections(document),
        terms={**TERMS, **CONTROLS},
        about=about_method,
        provenance=document["provenance"],
    )
    with atomic_writer(path) as stream:
        stream.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))


def sections(document: Mapping[str, Any]) -> list[Section]:
    """The parts of the report that are about one suite each."""
    return [
        Section(
            suite["name"],
            suite_description(suite),
            suite_tables(suite),
            suite["settings"],
            sorted(suite["undefined"].items(), key=lambda item: ("(" in item[0], item[0])),
        )
        for suite in document["suites"]
    ]


def document_text(document: Mapping[str, Any]) -> str:
    """The tables as plain text: what ``creditflow bench`` prints above the headline."""
    blocks, width = [], terminal_width()

    def block(table: Table, mark: str = "") -> str:
        return f"{mark}{table.title}\n{table.note}\n\n{text_table(table.rows, table.controls, width)}"

    for section in sections(document):
        blocks.append(f"=== {section.name}\n{section.description}")
        blocks += map(block, section.tables)
        for title, reasons in (
            ("Settings that differ from the paper's", list(section.settings.items())),
            (f"Not applicable to {section.name}", section.undefined),
        ):
            if reasons:
                blocks.append("\n".join([title, *(f"  {name}: {reason}" for name, reason in reasons)]))
    when = regime_table(document)
    blocks += [block(table, "=== ") for table in (when, check_table(document)) if table is not None]
    return "\n\n".join(blocks)


class Headline(NamedTuple):
    """The opening of the report.

    Attributes:
        sentence: the verdict.
        trust: whether the results can be used, and why.
        sound: whether every sanity check passed.
    """

    sentence: str
    trust: str
    sound: bool


def headline(document: Mapping[str, Any]) -> Headline:
    """The opening of the report on these results."""
    checks = sanity_checks(document)
    failed = sum(not check.passed for check in checks)
    if failed:
        return Headline(
            "Do not use these results.",
            f"{failed} of {len(checks)} sanity checks FAILED: something in the benchmark, or in a scheme, does not work.",
            False,
        )
    of_run = verdicts(document)
    trust = f"All {len(checks)} sanity checks passed." if checks else ""
    if of_run and of_run[0].family > 1:
        trust += (
            f" A lead counts as clear after Holm's adjustment for {of_run[0].family} comparisons with the baseline."
        )
    sentence = " ".join(verdict_sentences(document)) or "Nothing is compared."
    return Headline(sentence, trust.strip(), True)
