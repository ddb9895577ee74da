"""The results file of the GPU script: every piece is stored when it is done, and only what is missing is done again."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest
from gpu.pieces import OutOfTimeError, Piece, ResultsFile, figures
from helpers.shared_data import ROOT

from creditflow.envs.errors import DataError, MissingExtraError


def opened(path, seconds=60.0):
    data = json.loads(path.read_text(encoding="ascii")) if path.is_file() else {}
    return ResultsFile(path, time.monotonic() + seconds, data)


class Counted:
    """Pieces that count their runs; one may fail."""

    def __init__(self):
        self.runs: list[str] = []

    def pieces(self, failing=None, error=None):
        error = error or DataError("no")

        def work(name, _seconds):
            self.runs.append(name)
            if name == failing:
                raise error
            return {"value": len(name)}

        return [Piece(name, 10.0, partial(work, name)) for name in ("a/1", "a/2", "b/1")]


def test_a_failed_piece_is_a_result_and_is_tried_again(tmp_path):
    path, counted = tmp_path / "gpu.json", Counted()
    results = opened(path)
    for piece in counted.pieces(failing="a/2"):
        results.run(piece)
    assert results.failed == ["a/2"]
    assert "DataError: no" in results.data["checks"]["a/2"]["error"]
    again = opened(path)
    for piece in counted.pieces():
        again.run(piece)
    assert counted.runs == ["a/1", "a/2", "b/1", "a/2"]
    assert again.failed == []


@pytest.mark.parametrize("error", [TypeError("unexpected keyword"), ValueError("heads"), AttributeError("gone")])
def test_a_piece_that_fails_as_nobody_expected_leaves_the_others(tmp_path, capsys, error):
    """A release of torch with other arguments, on the machine that the script is for, must not cost its half hour."""
    path, counted = tmp_path / "gpu.json", Counted()
    results = opened(path)
    for piece in counted.pieces(failing="a/1", error=error):
        results.run(piece)
    assert counted.runs == ["a/1", "a/2", "b/1"]
    assert results.failed == ["a/1"]
    assert json.loads(path.read_text(encoding="ascii"))["checks"]["a/1"]["error"] == f"{type(error).__name__}: {error}"
    assert "in work" in capsys.readouterr().err  # where it was raised


def test_a_missing_extra_is_a_reason_and_no_failure(tmp_path):
    results = opened(tmp_path / "gpu.json")
    (piece, *_) = Counted().pieces(failing="a/1", error=MissingExtraError("peft", "lora"))
    results.run(piece)
    assert results.failed == []
    assert "peft" in results.data["checks"]["a/1"]["skipped"]
    assert results.done(piece)


def test_beyond_the_time_limit_nothing_starts_and_a_stopped_piece_can_be_continued(tmp_path):
    path, counted = tmp_path / "gpu.json", Counted()
    late = opened(path, seconds=-1.0)
    for piece in counted.pieces():
        late.run(piece)
    assert (counted.runs, late.not_reached) == ([], ["a/1", "a/2", "b/1"])
    results = opened(path)
    for piece in counted.pieces(failing="b/1", error=OutOfTimeError("time")):
        results.run(piece)
    assert results.not_reached == ["b/1"]
    assert results.failed == []
    assert not results.done(counted.pieces()[2])


def test_every_result_has_the_commit_of_its_code(tmp_path):
    results = opened(tmp_path / "gpu.json")
    for commit in ("one", "two"):  # a piece that failed is mended, and the run continued
        results.commit = commit
        results.run(Piece(f"of {commit}", 1.0, lambda _: {}))
    assert {name: one["commit"] for name, one in results.data["checks"].items()} == {"of one": "one", "of two": "two"}


def test_the_page_has_the_figures_of_the_stored_file() -> None:
    folder = ROOT / "tests" / "evidence" / "gpu"
    data = json.loads((folder / "h200.json").read_text(encoding="utf-8"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert figures(data["checks"]) in page
    assert not any("error" in found for found in data["checks"].values())
    assert sum(name.startswith("equality/") for name in data["checks"]) == 15
