"""The tables of a document, for the command line and the page."""

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.tables.design import design_tables
from creditflow.train.bench.report.tables.exact import exact_tables
from creditflow.train.bench.report.tables.played import played_tables
from creditflow.train.bench.report.tables.rivals import rival_tables
from creditflow.train.bench.report.tables.shared import shared_tables
from creditflow.train.bench.report.tables.studies import study_tables
from creditflow.train.bench.report.tables.sweeps import sweep_tables
from creditflow.train.bench.report.tables.table import Table

__all__ = ["Table", "suite_tables", "undefined_table"]


def suite_tables(suite: Mapping[str, Any]) -> list[Table]:
    """All tables of a suite, those of swept parameters last."""
    return [*_tables(suite), *sweep_tables(suite)]


def _tables(suite: Mapping[str, Any]) -> list[Table]:
    if "variations" in suite:
        return [
            *design_tables(suite),
            *shared_tables(suite),
            *(rival_tables(suite, suite["rivals"]) if suite.get("rivals") else ()),
        ]
    if "studies" in suite:
        return study_tables(suite)
    return exact_tables(suite) if "cells" in suite else played_tables(suite)


def undefined_table(suite: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names of the methods that are missing on the suite, and why."""
    return sorted(suite["undefined"].items(), key=lambda item: ("(" in item[0], item[0]))
