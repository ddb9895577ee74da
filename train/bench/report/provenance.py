"""Provenance of a run: command, commit, versions, machine; and a digest of the package's code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import creditflow

__all__ = ["code_digest", "commit", "provenance"]


def provenance(arguments: Sequence[str], seed: int) -> dict[str, Any]:
    """Command, commit, versions, kind of machine and seed."""
    return {
        "command": "creditflow " + " ".join(arguments),
        "commit": commit() or "unknown",  # a wheel has no repository
        "creditflow": creditflow.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "seed": seed,
    }


def commit() -> str:
    """The commit's first nine digits, with "-dirty" behind them if files were changed; "" without a repository."""
    return _git("describe", "--always", "--dirty", "--abbrev=9", "--exclude=*")  # never the name of a tag


def _git(*arguments: str) -> str:
    source = Path(__file__).resolve().parent
    try:
        return subprocess.run(  # noqa: S603 - a fixed command
            ["git", "-C", str(source), *arguments],  # noqa: S607 - git from the user's own path
            capture_output=True, text=True, check=True, timeout=10,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Hash of the package's source, sixteen hexadecimal digits: finished jobs are reused only by the same code."""
    digest = hashlib.blake2b(digest_size=8)
    root = Path(creditflow.__file__).parent
    for folder in ("envs", "wrappers", "agents", "train"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
