"""Headless Chromium for tests that look at pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


def rendered_dom(page: Path, profile: Path, *, budget_ms: int = 5000) -> str:
    """The page's DOM after its scripts ran, as HTML text; skips the test when there is no Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium runs this test")
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--virtual-time-budget={budget_ms}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout
