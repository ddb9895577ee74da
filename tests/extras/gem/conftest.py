"""The GEM tier: without gem-llm every test is skipped with the reason; ``--require gem`` makes that a failure."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.sokoban_episodes import LEVELS


@pytest.fixture(autouse=True, scope="session")
def gem_is_there() -> None:
    pytest.importorskip("gem", reason="GEM is not installed: pip install -e '.[gem-llm]'")
    import_module("creditflow.train.adapters.gem.env")  # which registers the environments


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Sokoban on three levels of one or two moves."""
    levels = tmp_path / "levels.txt"
    levels.write_text("\n\n".join(LEVELS) + "\n", encoding="ascii")
    return {"levels": str(levels), "max_steps": 5}
