"""The SkyRL tier: without SkyRL-gym every test is skipped with the reason; ``--require skyrl`` makes that a failure.

SkyRL itself is installed without its dependencies: its generator runs, its trainer needs vLLM and GPUs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.worlds.sokoban_episodes import sokoban_config

from creditflow.train.adapters.text_episode import EpisodeConfig


@pytest.fixture(autouse=True, scope="session")
def skyrl_is_there() -> None:
    pytest.importorskip("skyrl_gym", reason="SkyRL-gym is not installed: pip install -e '.[skyrl-gym]'")


@pytest.fixture
def config(tmp_path: Path) -> EpisodeConfig:
    """Sokoban on three levels of one or two moves."""
    return sokoban_config(tmp_path)
