"""The command of a benchmark at smoke size, for tests that need a run."""

from __future__ import annotations

from typing import Final

import pytest

from creditflow.train.cli import main

SMOKE: Final = ("bench", "--preset", "smoke", "--workers", "1")


def smoke_bench(schemes: str, *words: str, envs: str = "shared") -> int:
    """Run the benchmark with exact values; returns the exit status. Skips the test where the page cannot be made."""
    pytest.importorskip("jinja2", reason="the page needs the 'bench' extra")
    return main([*SMOKE, "--envs", envs, "--schemes", schemes, *words])
