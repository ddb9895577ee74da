"""The results of a benchmark run as a document of plain JSON values: written, and read with checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json

__all__ = ["RESULTS_VERSION", "read_results", "write_results"]

RESULTS_VERSION = 4
DOCUMENT_KEYS = {"provenance", "amounts", "suites", "sanity"}
SUITE_KEYS = {
    *("name", "spec", "kinds", "why", "horizon", "oracle", "settings", "log", "expert", "cost"),
    *("schemes", "controls", "undefined"),
}
RESULT_KEYS = {"cells", "rows", "studies"}  # one of them: exact values, played through an environment, a shared policy


def write_results(document: Mapping[str, Any], path: Path) -> None:
    """Write the document as JSON."""
    with atomic_writer(path) as stream:
        json.dump(document, stream, separators=(",", ":"), allow_nan=False)


def read_results(path: Path) -> dict[str, Any]:
    """Read a document, compressed or not.

    Raises:
        DataError: the file does not hold benchmark results of this version.
    """
    try:
        document = read_json(path)
    except DataError as error:
        raise DataError(f"{error}; {path} does not contain the results of a benchmark") from error
    version = document.get("results_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != RESULTS_VERSION:
        raise DataError(
            f"{path}: expected benchmark results of version {RESULTS_VERSION}, got version {version!r}; run the benchmark "
            "again, or read the file with the release that wrote it"
        )
    missing, suites = DOCUMENT_KEYS - document.keys(), document.get("suites")
    for suite in suites if isinstance(suites, list) else [suites]:
        missing |= SUITE_KEYS - suite.keys() if isinstance(suite, dict) else SUITE_KEYS
        missing |= set() if isinstance(suite, dict) and RESULT_KEYS & suite.keys() else {"cells"}
    if missing:
        raise DataError(f"{path}: these benchmark results lack {', '.join(sorted(missing))}")
    return document
