"""Find the files and folders named in arguments and settings, on their own or inside a longer text."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["paths_named"]

_SEPARATORS: Final = re.compile(r"[=:#@]")


def paths_named(values: Any, *, alone: bool = True) -> list[Path]:
    """Find every existing file and folder named in plain values.

    The part of a text after "=", ":", "#" or "@" is taken as a path (``hf:PATH``, ``levels=PATH``, ``sokoban@PATH``), and
    so are the texts of a JSON list or object after "=".

    Args:
        values: texts, nested in lists and mappings; anything else is ignored.
        alone: take the whole text as a path too, and its parts between commas.
    """
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [path for value in values for path in paths_named(value, alone=alone)]
    if not isinstance(values, str):
        return []
    candidates = [values[match.end() :] for match in _SEPARATORS.finditer(values)] + ([values] if alone else [])
    candidates += [candidate for listed in candidates if "," in listed for candidate in listed.split(",")]
    paths = [
        Path(candidate) for candidate in dict.fromkeys(candidates) if candidate not in ("", "-") and _exists(candidate)
    ]
    start = values.find("=") + 1
    if values[start : start + 1] in ("[", "{"):
        with contextlib.suppress(ValueError, RecursionError):
            paths += paths_named(json.loads(values[start:]))
    return paths


def _exists(text: str) -> bool:
    try:
        return os.path.exists(text)  # noqa: PTH110 - returns False for any text that cannot be a path
    except ValueError:
        return False
