"""The recipes "add an environment" and "add a credit scheme" of CONTRIBUTING.md, followed in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = Path(__file__).parent / "recipes"
CLEAN = shutil.ignore_patterns("__pycache__", "evidence", "*.egg-info")


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the package and its tests, with the new environment and scheme where the recipes put them."""
    tree: Path = tmp_path_factory.mktemp("copy")
    for name in ("envs", "wrappers", "agents", "train", "assets", "src", "tests"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=CLEAN)
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "envs/corridor").mkdir()
    shutil.copy(RECIPES / "corridor.py", tree / "envs/corridor/env.py")
    (tree / "envs/corridor/__init__.py").write_text('"""Corridor."""\n')
    line = '    "corridor": Entry("creditflow/Corridor-v0", "creditflow.envs.corridor.env:CorridorEnv", ""),\n'
    insert(tree / "envs/registration.py", line, after="ENVIRONMENTS: dict[str, Entry] = {\n")
    shutil.copy(RECIPES / "centred.py", tree / "wrappers/credit/outcomes/centred.py")
    (tree / "tests/wrappers/credit/test_centred.py").write_text('"""The worked example of the scheme."""\n', "utf-8")
    return tree


def insert(path: Path, text: str, *, after: str) -> None:
    before, found, rest = path.read_text("utf-8").partition(after)
    assert found, f"{path.name} has no line {after!r}: has the recipe changed?"
    path.write_text(before + found + text + rest, "utf-8")


def run(copy: Path, *command: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=copy, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def test_a_new_environment_passes_the_contract_tests_and_is_played_by_name(copy):
    tests = (copy / "tests/envs/test_contract.py", copy / "tests/envs/test_tasks.py")
    assert " passed" in run(copy, "-m", "pytest", "-q", "-k", "corridor", *tests)
    command = ("-m", "creditflow.train")
    assert "creditflow/Corridor-v0" in run(copy, *command, "envs")
    log = copy / "log.jsonl"
    played = run(copy, *command, "rollout", "--env", "corridor", "--agent", "noisy:0.3", "--limit", 2, "--out", log)
    assert played.startswith("2 groups, 16 episodes")
    scored = run(copy, *command, "credit", "--scheme", "centred", log, "--out", copy / "credit.jsonl")
    assert scored.startswith("centred (paper): 2 groups, 16 trajectories")


def test_a_new_scheme_is_checked_by_the_tests_of_all_schemes(copy):
    names = ("test_registry", "test_check_credit", "test_repairs", "test_worked_examples", "test_stopping_bonus")
    tests = [copy / f"tests/wrappers/credit/{name}.py" for name in names]
    assert " passed" in run(copy, "-m", "pytest", "-q", "-k", "centred", *tests)
