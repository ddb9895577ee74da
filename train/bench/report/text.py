"""The whole document as plain text: what ``creditflow bench`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.sanity import sanity_rules
from creditflow.train.bench.report.tables import suite_tables, text_table, undefined_table
from creditflow.train.bench.report.verdict import suite_facts, verdict

__all__ = ["document_text", "prediction_rows"]


def document_text(document: Mapping[str, Any]) -> str:
    """Tables of every suite, sanity rules, predictions, and the verdict, which ends up above the prompt."""
    parts = []
    for suite in document["suites"]:
        parts.append(f"=== {suite['name']}\n{suite_facts(suite)}")
        parts += [f"{t.title}\n{t.note}\n\n{text_table(t.rows, t.controls)}" for t in suite_tables(suite)]
        if suite["settings"]:
            told = "\n".join(f"  {name}: {text}" for name, text in suite["settings"].items())
            parts.append(f"Settings that differ from the paper's\n{told}")
        missing = undefined_table(suite)
        if missing:
            told = "\n".join(f"  {name}: {reason}" for name, reason in missing)
            parts.append(f"Not defined on {suite['name']}\n{told}")
    rules = [[r.suite, "holds" if r.holds else "BROKEN", r.rule, r.observed] for r in sanity_rules(document)]
    parts.append("=== Sanity rules\n" + text_table([["suite", "verdict", "rule", "observed"], *rules]))
    if document["predictions"]:
        parts.append(
            "=== Predictions\n" + text_table([["id", "verdict", "observed", "statement"], *prediction_rows(document)])
        )
    parts.append("=== Verdict\n" + "\n".join(f"- {sentence}" for sentence in verdict(document)))
    return "\n\n".join(parts)


def prediction_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """Id, verdict, observed figures and statement of every prediction."""
    words = {True: "hit", False: "MISS", None: "not run"}
    return [[p["id"], words[p["hit"]], p["observed"], p["statement"]] for p in document["predictions"]["judged"]]
