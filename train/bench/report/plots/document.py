"""All plots of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.plots.language_models import language_model_plots
from creditflow.train.bench.report.plots.plot import Plot
from creditflow.train.bench.report.plots.suites import suite_plots

__all__ = ["document_plots"]


def document_plots(document: Mapping[str, Any]) -> list[Plot]:
    """The plots of all suites, then those of language models."""
    part = document.get("language_models")
    return [*suite_plots(document), *(language_model_plots(part) if part else ())]
