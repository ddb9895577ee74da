"""Every block of the site runs in the tier docs, or says below it which tier runs it, or why none does."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.page_blocks import run_page
from helpers.shared_data import ROOT

from builder.markdown import RUNNABLE, blocks_of
from builder.repository import RUN

pytestmark = pytest.mark.docs

PAGES = ROOT / "assets" / "site" / "pages"
WITH_BLOCKS = [
    path
    for path in (*sorted(PAGES.rglob("*.md")), *(ROOT / name for name in RUN))
    if any(language in RUNNABLE for language, _, _ in blocks_of(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    run_page(page.read_text(encoding="utf-8"), tmp_path)
