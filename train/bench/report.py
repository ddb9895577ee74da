"""``report.html``: the whole benchmark on one offline page; all text escaped, nothing loaded from outside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from creditflow.envs.atomic import atomic_writer
from creditflow.envs.errors import MissingExtraError
from creditflow.train.bench.run import SuiteResult
from creditflow.train.bench.tables import CAPTIONS, suite_table

__all__ = ["write_report"]


def write_report(
    results: Sequence[SuiteResult], plots: Mapping[str, Path], facts: Mapping[str, Any], path: Path
) -> None:
    """Render the page.

    Args:
        results: one per suite.
        plots: PNG file per suite name.
        facts: provenance to show.
        path: where to write.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("jinja2", "bench") from error
    template = (files("creditflow.assets") / "report" / "bench.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(template).render(
        suites=[
            {
                "name": result.name,
                "tasks": result.tasks,
                "log": result.log,
                "expert": result.expert_success,
                "table": suite_table(result),
                "plot": base64.b64encode(plots[result.name].read_bytes()).decode("ascii"),
            }
            for result in results
        ],
        captions=CAPTIONS,
        facts=facts,
    )
    with atomic_writer(path) as stream:
        stream.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))
