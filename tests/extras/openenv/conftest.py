"""The OpenEnv tier: without OpenEnv every test here is skipped with the reason; ``--require openenv`` makes that a failure.

Servers are real processes on loopback, clients are OpenEnv's own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.env_server import LEVELS, env_server

from creditflow.train.cli import main

Server = tuple[str, subprocess.Popen[bytes]]


@pytest.fixture(autouse=True, scope="session")
def openenv_is_there() -> None:
    pytest.importorskip("openenv.core.env_client", reason="OpenEnv is not installed: pip install -e '.[openenv]'")


@pytest.fixture(scope="session")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three small levels."""
    path = tmp_path_factory.mktemp("levels") / "levels.txt"
    path.write_text("\n\n".join(LEVELS) + "\n", encoding="ascii")
    return path


@pytest.fixture(scope="session")
def log(levels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded episodes on these levels, some of which succeed."""
    path = tmp_path_factory.mktemp("log") / "episodes.jsonl"
    options = ("--env-set", f"levels={levels}", "--env-set", "max_steps=8", "--agent", "noisy:0.4")
    assert main(["rollout", *options, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def sokoban(openenv_is_there: None) -> Iterator[Server]:
    """A server of Sokoban's published panel with four sessions."""
    with env_server("sokoban", "--panel", "standard-v1", "--limit", "sessions=4") as server:
        yield server


@pytest.fixture
def client(sokoban: Server) -> Iterator[Any]:
    """OpenEnv's untyped client, in its synchronous form."""
    from openenv.core import GenericEnvClient

    with GenericEnvClient(base_url=sokoban[0]).sync() as made:
        yield made
