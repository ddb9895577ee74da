"""``creditflow bench --estimator``: a file's function is scored in both respects, and nothing is run that was not named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from creditflow.train.cli import main

SOURCE = """
import numpy as np

def rloo(rows):
    group = rows.group[rows.first]
    count, outcome = np.bincount(group)[group], rows.returns
    others = np.bincount(group, outcome)[group] - outcome
    return np.where(count > 1, outcome - others / np.maximum(count - 1, 1), 0.0)[rows.trajectory]

def scaled(factor):
    return lambda rows: float(factor) * rloo(rows)

def broken(rows):
    raise RuntimeError("no")

def scalar(rows):
    return float("nan")

def leaving(rows):
    raise SystemExit(0)

def of_groups(rows):  # refuses groups of one, as TRL does
    if (np.bincount(rows.group[rows.first]) < 2).any():
        raise ValueError("groups of one")
    return rloo(rows)

def of_few_groups(rows):  # scores some random batches, but none of those on which gradients are measured
    if rows.n_groups not in (2, 3):
        raise ValueError("not two or three groups")
    return rloo(rows)

number = 3
"""


@pytest.fixture
def file(tmp_path: Path, forgotten: None) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["bench", "--preset", "smoke", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_conformance_and_gradients_are_apart_and_stored_with_the_digest(file, tmp_path, capsys):
    out = tmp_path / "out"
    code, text, _ = run(
        capsys, "--estimator", f"{file}:rloo", "--estimator", f"{file}:broken", "--out", str(out), "--json"
    )
    assert code == 1, "one estimator has no result; the other's are there"
    document = json.loads(text)
    assert json.loads((out / "estimators.json").read_text()) == document
    good, bad = document["estimators"]
    assert (good["of"], good["conformance"]["identified"]) == ("rloo", ["rloo (paper)"])
    assert good["digest"].startswith("blake2b:")
    assert {row["with"] for row in good["conformance"]["compared"]} >= {"rloo (paper)", "rloo (release)"}
    assert bad["conformance"]["identified"] == []
    for regime in ("tables", "shared"):
        table = document["gradients"][regime]
        assert table["estimator_rloo"] == table["rloo"]  # the same numbers on the same rollouts
        assert {"grpo", "gigpo", "oracle_adv", "shuffled(oracle_adv)"} <= table.keys()
        assert "RuntimeError: no" in document["gradients"]["undefined"][regime]["estimator_broken"]
    code, text, _ = run(capsys, "--estimator", f"{file}:rloo")
    assert "computes rloo (paper)" in text
    assert "Gradients on tables" in text


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "broken",
            "estimator_broken scored no random batch: estimator_broken cannot score this batch: RuntimeError: no",
        ),
        ("scalar", "estimator_scalar scored no random batch: estimator_scalar must return"),
        ("leaving", "estimator_leaving scored no random batch: estimator_leaving cannot score this batch: SystemExit"),
        ("of_few_groups", "no gradient of estimator_of_few_groups could be measured: "),
    ],
)
def test_an_estimator_without_a_result_is_a_failure_that_says_why(function, message, file, capsys):
    code, text, error = run(capsys, "--estimator", f"{file}:{function}")
    assert code == 1
    assert message in error
    assert "Gradients on tables" in text, "what was measured is printed all the same"


def test_an_estimator_that_refuses_one_situation_is_scored_in_the_others(file, capsys):
    code, text, error = run(capsys, "--estimator", f"{file}:of_groups")
    assert (code, error) == (0, "")
    assert "not scored: " in text


def test_an_argument_behind_the_name_makes_the_estimator(file, capsys):
    code, text, _ = run(capsys, "--estimator", f"{file}:scaled:3", "--json")
    assert code == 0
    [row] = json.loads(text)["estimators"]
    verdicts = next(each for each in row["conformance"]["compared"])["verdicts"]
    assert verdicts["equal lengths"] in ("proportional", "equal")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--estimator", "FILE:nothing"], "unknown name in"), (["--estimator", "FILE:number"], "is not a function"),
        (["--estimator", "rloo"], "path/to/file.py:NAME"), (["--estimator", "FILE:rloo", "--envs", "grids"], "--envs has no effect"),
        (["--estimator", "FILE:rloo", "--preset", "full"], "has the presets smoke, quick"),
        (["--estimator", "FILE:broken:x"], "cannot be loaded"),
    ],
)  # fmt: skip
def test_wrong_names_and_options_without_effect_are_errors(arguments, message, file, capsys):
    words = [word.replace("FILE", str(file)) for word in arguments]
    code, _, error = run(capsys, *words)
    assert code == 2
    assert message in error
