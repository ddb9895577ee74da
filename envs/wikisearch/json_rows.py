"""Rows of a file that somebody else wrote: JSON lines or a JSON list, gzip or not, of bounded size."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError

__all__ = ["json_rows"]

MAX_BYTES: Final = 2 * 2**30


def json_rows(path: Path, what: str) -> Iterable[Any]:
    """The rows of a file.

    Args:
        path: ends in ``.gz`` if packed.
        what: the file should be, for messages.

    Raises:
        DataError: the file is missing, too large or no JSON.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as a {what}: {error}") from error
    if len(text) > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES} characters")
    try:
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: neither JSON lines nor a JSON list: {error}") from error
