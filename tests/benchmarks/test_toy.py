"""Every benchmark runs at toy size, started as ``make bench`` starts it, and says what it compares and what it leaves out."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from benchmarks.ratios import LEFT_OUT, RATIO, SPEED, fields_of
from benchmarks.run import SCRIPTS, TIERS, table


def cases() -> list[Any]:
    """The scripts; those of a tier with its own mark run in its environment, too."""
    marks = {name: [getattr(pytest.mark, tier)] for name, tier in TIERS.items() if tier != "train"}
    return [pytest.param(script, marks=marks.get(script.stem, ()), id=script.stem) for script in SCRIPTS]


@pytest.mark.parametrize("script", cases())
def test_a_benchmark_runs_in_this_environment(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--toy"], capture_output=True, text=True, cwd=tmp_path, timeout=1200, check=False
    )
    assert not done.returncode, done.stdout + done.stderr
    found = [fields for line in done.stdout.splitlines() if (fields := fields_of(line))]
    assert {fields[0] for fields in found} - {SPEED}, "no ratio, nothing left out"
    for kind, first, *others in found:
        assert len(others) == {RATIO: 2, SPEED: 1, LEFT_OUT: 1}[kind]
        assert kind == LEFT_OUT or float(first) > 0


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is here")
@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if TIERS.get(script.stem) == "train"], ids=lambda s: s.stem
)
def test_without_torch_one_line_says_what_is_left_out_and_what_installs_it(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(LEFT_OUT)
    assert ".ci/venv train" in line


def test_one_table_has_all_ratios_and_omissions() -> None:
    lines = [[RATIO, "2.5", "ours", "theirs"], [SPEED, "1.2e+03", "steps"], [LEFT_OUT, "a server", "none here"]]
    page = table({"bench_x": lines}, "Commit abc")
    assert "| bench_x | ours | theirs | 2.5 |" in page
    assert "| bench_x | steps | 1,200 |" in page
    assert "- bench_x: a server: none here" in page
