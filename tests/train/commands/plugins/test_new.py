"""``creditflow new``: what it writes passes its own tests as written, works in the commands, and overwrites nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.shared_data import ROOT
from helpers.smoke_bench import smoke_bench

from creditflow.train.cli import main

pytestmark = pytest.mark.usefixtures("forgotten")

GROUPS = {"scheme": "creditflow.schemes", "env": "creditflow.environments", "agent": "creditflow.agents"}


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", GROUPS)
def test_what_is_written_passes_its_own_tests(kind):
    """Also in a checkout, whose settings of pytest import no module from the folder of a test."""
    Path("pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')
    assert main(["new", kind, "my_first"]) == 0
    settings = ["my_first.yaml"] if kind == "env" else []  # that train it
    names = ["my_first.py", *settings, "pyproject.toml", "test_my_first.py"]
    assert sorted(path.name for path in Path("my_first").iterdir()) == names
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "my_first"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize("kind", GROUPS)
def test_what_is_written_passes_the_linter(kind):
    pytest.importorskip("ruff", reason="the linter is part of the 'dev' extra")
    assert main(["new", kind, "my_first"]) == 0
    settings = ["--isolated", "--line-length", "120"]
    for arguments in (["check", "--select", "E,F,UP,B,SIM", *settings], ["format", "--check", *settings]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "my_first"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("kind", "group"), GROUPS.items())
def test_the_project_names_the_entry_point(kind, group):
    assert main(["new", kind, "my_first", "--out", "there"]) == 0
    project = tomllib.loads(Path("there/pyproject.toml").read_text())
    assert project["project"]["entry-points"] == {group: {"my_first": "my_first:MyFirst"}}
    assert project["tool"]["setuptools"]["py-modules"] == ["my_first"]


def test_what_is_written_works_in_the_commands(capsys):
    pytest.importorskip("jinja2", reason="the page needs the 'bench' extra")
    for kind, name in (("scheme", "plain"), ("env", "hall"), ("agent", "curious")):
        assert main(["new", kind, name]) == 0
    printed = capsys.readouterr().out.split()
    assert printed == ["plain/plain.py:Plain", "hall/hall.py:Hall", "curious/curious.py:Curious"]
    scheme, env, agent = printed
    assert (
        main(
            ["rollout", "--env", env, "--agent", f"{agent}:0.2", "--group-size", "4", "--oracle", "--out", "log.jsonl"]
        )
        == 0
    )
    assert main(["credit", "--scheme", scheme, "log.jsonl", "--out", "credit.jsonl"]) == 0
    assert smoke_bench(f"grpo,{scheme}", "--out", "run") == 0


@pytest.mark.parametrize("kind", GROUPS)
def test_after_an_installation_the_name_is_enough(kind, capsys):
    pytest.importorskip("setuptools", minversion="77.0.3", reason="the build backend is part of the 'dev' extra")
    assert main(["new", kind, "my_first"]) == 0
    install = ["install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target", "site", "./my_first"]
    done = subprocess.run([sys.executable, "-m", "pip", *install], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{Path('site').resolve()}", "PYTHONSAFEPATH": "1"}
    uses = {
        "scheme": ["credit", "--scheme", "my_first", "--explain"],
        "env": ["rollout", "--env", "my_first", "--limit", "1", "--out", "-"],
        "agent": [
            "rollout",
            "--agent",
            "my_first:0.5",
            "--panel",
            "small-v1:valid",
            "--limit",
            "1",
            "--workers",
            "1",
            "--out",
            "-",
        ],
    }
    done = subprocess.run(
        [sys.executable, "-m", "creditflow.train", *uses[kind]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "my_first" in done.stdout


def test_existing_files_are_kept(capsys):
    assert main(["new", "scheme", "mine"]) == 0
    Path("mine/mine.py").write_text("my own")
    assert main(["new", "scheme", "mine"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert Path("mine/mine.py").read_text() == "my own"
    Path("mine/mine.py").unlink()
    assert main(["new", "scheme", "mine"]) == 2
    assert "test_mine.py already exists" in capsys.readouterr().err
    project = Path("there/pyproject.toml")
    project.parent.mkdir()
    project.write_text("[project]\n")
    assert main(["new", "agent", "mine", "--out", "there"]) == 0, "it may stand beside other files"
    assert project.read_text() == "[project]\n", "a project is not replaced"
    assert '[project.entry-points."creditflow.agents"]\nmine = "mine:Mine"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("scheme", "MyScheme", "did you mean 'my_scheme'?"), ("scheme", "my-scheme", "did you mean 'my_scheme'?"),
        ("scheme", "", "got ''"), ("scheme", "../x", "did you mean 'x'?"), ("scheme", "class", "got 'class'"),
        ("scheme", "a" * 41, "at most 40"), ("env", "é", "lower-case letters"), ("scheme", "1st", "begin with a lower-case letter"),
        ("scheme", "grpo", "already has the scheme 'grpo'"), ("scheme", "oracle_adv", "already has the scheme 'oracle_adv'"),
        ("env", "sokoban", "already has the environment 'sokoban'"), ("agent", "react", "already has the agent 'react'"),
        ("scheme", "json", "a module named 'json'"), ("agent", "numpy", "a module named 'numpy'"),
        ("scheme", "conftest", "pytest or setuptools"), ("env", "setup", "pytest or setuptools"), ("agent", "test_x", "pytest or setuptools"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_used_are_refused(kind, name, message, tmp_path, capsys):
    assert main(["new", kind, name]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
