"""``serve env FILE.py:NAME`` serves an environment of the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.servers.env_server import env_server
from helpers.servers.openenv_link import ask, connected, reset

from creditflow.train.cli import main

pytestmark = [pytest.mark.openenv, pytest.mark.usefixtures("forgotten")]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment that ``creditflow new`` writes."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "env", "hall"]) == 0
    return str(tmp_path / "hall" / "hall.py") + ":Hall"


def test_it_is_played_over_the_network(spec: str) -> None:
    with env_server(spec, "--env-set", "panel=lengths:test") as (url, _), connected(url) as link:
        first = ask(link, reset(seed=0))["data"]["observation"]
        assert first["text_key"] in ("P..", "P.....")
        then = ask(link, {"type": "step", "data": {"action": "right"}})["data"]["observation"]
        assert then["text_key"].startswith(".P")
