"""The page "Other text games in fifty lines": its blocks run as they stand, and what the page says of states is so."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.text_games import code_lines, page_files, run_commands, run_python

from creditflow.wrappers.records.jsonl import read_groups

TIERS = [pytest.param("alfworld", marks=pytest.mark.alfworld), pytest.param("gem", marks=pytest.mark.gem)]
NEEDED = {"alfworld": "textworld", "gem": "gem"}


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the files of the tier's examples."""
    tier = request.getfixturevalue("tier")
    pytest.importorskip(NEEDED[tier], reason=f"{NEEDED[tier]} is not installed")
    files = page_files(tier, tmp_path)
    assert len(files) == 1
    assert code_lines(files[0]) <= 50
    return tmp_path


def load(path: Path) -> Any:
    """The environment of an example's file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, path.stem.capitalize())


@pytest.mark.parametrize("tier", TIERS)
def test_blocks_and_commands_run_as_they_stand(tier: str, folder: Path) -> None:
    shown = run_python(tier, folder)
    assert all("states" in one and "graphgpo" in one for one in shown)
    printed = dict(run_commands(tier, folder))
    groups = read_groups(folder / "log.jsonl")
    assert {one.success for group in groups for one in group.trajectories} == {True, False}
    assert len((folder / "credit.jsonl").read_text(encoding="utf-8").splitlines()) == sum(map(len, groups))
    assert (folder / "view.html").stat().st_size > 10_000
    report = next(text for line, text in printed.items() if " audit " in line)
    conflicts = re.search(r"turns in conflicted keys: (\d+)%", report)
    assert conflicts is not None
    if tier == "alfworld":
        assert int(conflicts[1]) == 0


@pytest.mark.parametrize("tier", TIERS)
def test_the_example_keeps_the_contract_and_a_seed_is_a_game(tier: str, folder: Path) -> None:
    kind = load(next(folder.glob("*.py")))
    one, other = kind(), kind()
    for seed in (0, 5):
        assert one.reset(seed=seed) == other.reset(seed=seed)
    assert one.reset(seed=0)[1]["task_id"] != one.reset(seed=5)[1]["task_id"]
    rng = np.random.default_rng(0)
    _, info = one.reset(seed=3)
    other.reset(seed=3)
    over = False
    while not over:
        action = str(rng.choice(info["admissible_actions"]))
        found = one.step(action)
        assert other.step(action) == found
        *_, terminated, truncated, info = found
        over = terminated or truncated


@pytest.mark.parametrize("tier", TIERS[:1])
@pytest.mark.parametrize(
    "text", ["", "xyzzy", "take", "look\nlook", "go\x00north", "look " * 20_000, "../../etc/passwd", "{}"]
)
def test_what_the_game_does_not_list_is_an_invalid_action_and_changes_nothing(
    tier: str, folder: Path, text: str
) -> None:
    env = load(next(folder.glob("*.py")))()
    _, before = env.reset(seed=2)
    *_, reward, terminated, truncated, info = env.step(text)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert not info["action_admissible"]
    assert info["invalid_reason"] == "the environment does not list this action"
    assert (info["state_key"], info["admissible_actions"]) == (before["state_key"], before["admissible_actions"])
