"""The tiers of ``.ci/run``: CONTRIBUTING.md lists them all, and the Pythons of its wheels are the ones that the package claims."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
TIERS = {
    name
    for names in re.findall(r"^(?:every|turns|named)=\((.*?)\)", RUN, re.M | re.S)
    for name in names.replace('"', " ").split()
}
PYTHONS = re.findall(r"\bpy3(\d+)\b", re.findall(r"^wheels=\((.*?)\)", RUN, re.M)[0])


def test_the_table_of_tiers_lists_every_tier_and_no_other() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("| tier |")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in row.split("|")[1].strip().split(", ")]
    by_make = {"gpu"}  # no tier of .ci/run
    assert sorted(listed) == sorted(TIERS | by_make)


def test_without_names_one_line_of_the_tiers_that_take_turns_runs() -> None:
    [lines] = re.findall(r"^turns=\((.*?)\)", RUN, re.M | re.S)
    turns = re.findall(r'"(.*?)"', lines)
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = subprocess.run(["bash", ".ci/run", "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert listed.stdout.rstrip().endswith(f"train {turns[int(count.stdout) % len(turns)]}")


def test_the_pythons_of_the_metadata_are_those_that_tiers_run() -> None:
    claimed = set(re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"])))
    lowest = PROJECT["requires-python"].removeprefix(">=")  # of every tier without a Python of its own
    assert claimed == {lowest} | {f"3.{minor}" for minor in PYTHONS}


@pytest.mark.parametrize("tier", [f"py3{minor}" for minor in PYTHONS])
def test_without_its_python_a_tier_is_skipped_and_says_what_to_set(tier: str, tmp_path: Path) -> None:
    """The command is there and fails to start, as a version manager's is for a Python that is not switched on."""
    shim = tmp_path / f"python3.{tier.removeprefix('py3')}"
    shim.write_text("#!/bin/sh\necho 'not switched on' >&2\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    variable = tier.upper().replace("PY", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if name != variable}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    command = ["bash", str(ROOT / ".ci" / "run"), tier]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    version = shim.name.removeprefix("python")
    assert re.search(rf"^{tier} .* skipped: no Python {version}: .*{variable}", done.stdout, re.M)
