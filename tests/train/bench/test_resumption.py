"""Interrupted and killed runs of the benchmark: resumed where they stopped, with the same settings only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.shared_data import ROOT

from creditflow.train.bench.document import read_results
from creditflow.train.bench.shared.cells import run_unit
from creditflow.train.cli import main

SMOKE = ["bench", "--preset", "smoke", "--workers", "1", "--seed", "5"]


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_where_it_stopped(tmp_path, monkeypatch, capsys):
    command = [*SMOKE, "--envs", "shared", "--schemes", "grpo,grouptd", "--out", str(tmp_path)]
    done: list[tuple[str, int]] = []
    most = 3

    def stops(cell, work, methods, learned, seed, unit):
        if len(done) == most:
            raise KeyboardInterrupt
        done.append((cell.kind, unit))
        return run_unit(cell, work, methods, learned, seed, unit)

    monkeypatch.setattr("creditflow.train.bench.shared.run.run_unit", stops)
    assert main(command) == 130
    assert len(list((tmp_path / "unfinished").rglob("*.json"))) == 3
    most = 100
    assert main(command) == 2  # not silently begun anew
    assert "--resume to continue it" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    everything = [(kind, number) for kind in ("fresh", "pits") for number in (0, 1)]
    assert sorted(done) == everything
    results = (tmp_path / "results.json").read_bytes()
    assert main([*command, "--resume"]) == 0  # nothing is missing
    assert sorted(done) == everything
    assert (tmp_path / "results.json").read_bytes() == results
    (tmp_path / "notes.txt").write_text("mine")
    assert main([*command, "--force"]) == 2
    (tmp_path / "notes.txt").unlink()
    assert main([*command, "--force"]) == 0
    assert sorted(done) == sorted(2 * everything)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--seed", "6"], "seed: stored 5, requested 6"),
        (["--preset", "quick"], 'preset: stored "smoke", requested "quick"'),
        (["--schemes", "grpo"], "methods: stored"),
        (["--envs", "shared,sokoban"], "suites.sokoban: stored nothing"),
    ],
)
def test_an_interrupted_run_is_not_resumed_with_other_settings(changed, message, tmp_path, monkeypatch, capsys):
    command = [*SMOKE, "--envs", "shared", "--schemes", "grpo,grouptd", "--out", str(tmp_path)]

    def stops(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("creditflow.train.bench.shared.run.run_unit", stops)
    assert main(command) == 130
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert main([*command, *changed, "--resume"]) == 3
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == left


def test_an_interrupted_run_is_not_resumed_with_changed_levels(tmp_path, monkeypatch, capsys):
    levels = tmp_path / "own.xsb"
    levels.write_text("#######\n#@ $ .#\n#     #\n#######\n\n#######\n# @ $.#\n#     #\n#######\n")

    def stops(*_, **__):
        raise KeyboardInterrupt

    command = [*SMOKE, "--envs", f"sokoban@{levels}", "--schemes", "grpo", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("creditflow.train.bench.run.play_groups", stops)
    assert main(command) == 130
    levels.write_text("#######\n#@ $ .#\n#     #\n#######\n\n#######\n#@  $.#\n#     #\n#######\n")
    assert main([*command, "--resume"]) == 3
    assert f"suites.sokoban@{levels}: stored" in capsys.readouterr().err


def test_a_killed_run_leaves_no_worker_and_no_lock_and_is_resumed(tmp_path):
    out = tmp_path / "out"
    command = [
        *SMOKE[:3],
        "--workers",
        "2",
        "--seed",
        "5",
        "--envs",
        "shared",
        "--schemes",
        "grpo,grouptd",
        "--out",
        str(out),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "creditflow.train", *command], env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as killed:  # fmt: skip
        while killed.poll() is None and not list((out / "unfinished").rglob("*.json")):
            time.sleep(0.01)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):  # workers notice that their parent is gone
        for _ in range(500):
            os.killpg(killed.pid, 0)
            time.sleep(0.02)
    (out / "unfinished" / "mine.json.0123abcd.tmp").write_text("torn")
    kept = {path: path.stat().st_mtime_ns for path in (out / "unfinished").rglob("*.json")}
    assert kept
    assert main([*command, "--resume"]) == 0
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.rglob("*.lock"))
    whole = [*command[:-1], str(tmp_path / "whole")]
    assert main(whole) == 0
    one, other = (read_results(place / "results.json")["suites"] for place in (out, tmp_path / "whole"))
    assert one == other
    assert (out / "run.json").read_bytes() == (tmp_path / "whole" / "run.json").read_bytes()
