"""The report as plain text: what ``creditflow bench`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.conclusions import conclusions, suite_description
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.tables import regime_table, suite_tables, undefined_table
from creditflow.train.text_table import terminal_width, text_table

__all__ = ["document_text"]


def document_text(document: Mapping[str, Any]) -> str:
    """Tables of every suite, sanity checks, and last, just above the shell prompt, the conclusions."""
    blocks, width = [], terminal_width()
    for suite in document["suites"]:
        blocks.append(f"=== {suite['name']}\n{suite_description(suite)}")
        blocks += [f"{t.title}\n{t.note}\n\n{text_table(t.rows, t.controls, width)}" for t in suite_tables(suite)]
        if suite["settings"]:
            settings = "\n".join(f"  {name}: {text}" for name, text in suite["settings"].items())
            blocks.append(f"Settings that differ from the paper's\n{settings}")
        undefined = undefined_table(suite)
        if undefined:
            reasons = "\n".join(f"  {name}: {reason}" for name, reason in undefined)
            blocks.append(f"Not applicable to {suite['name']}\n{reasons}")
    when = regime_table(document)
    if when and document["suites"]:
        blocks.append(f"=== {when.title}\n{when.note}\n\n{text_table(when.rows, when.controls, width)}")
    checks = [[c.suite, "passed" if c.passed else "FAILED", c.check, c.observed] for c in sanity_checks(document)]
    blocks.append("=== Sanity checks\n" + text_table([["suite", "result", "check", "observed"], *checks], width=width))
    blocks.append("=== Conclusions\n" + "\n".join(f"- {sentence}" for sentence in conclusions(document)))
    return "\n\n".join(blocks)
