"""Golden and real data that live beside the repository, in ``../shared``.

When that folder is there, everything a test asks of it must be there too; when it is not (a plain clone), the test is
skipped with the reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CREDITFLOW_SHARED", ROOT.parent / "shared"))


def shared_files(pattern: str) -> list[Path]:
    """All files under ``../shared`` that match a glob pattern, sorted.

    Skips the calling module when there is no ``../shared``; fails when there is, but nothing matches.
    """
    if not SHARED.is_dir():
        pytest.skip(f"no golden data: {SHARED} is not there", allow_module_level=True)
    found = sorted(SHARED.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{SHARED} is there but holds nothing that matches {pattern}")
    return found


def shared_file(path: str) -> Path:
    """One file or folder under ``../shared``; skips and fails as ``shared_files``."""
    return shared_files(path)[0]
