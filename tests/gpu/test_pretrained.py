"""The part on a pretrained model runs the study's command, and continues it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gpu.pieces import OutOfTimeError
from gpu.pretrained import run_study
from helpers.models.pretrained import pretrained_folder


def test_the_study_runs_at_toy_size_and_its_results_are_kept(tmp_path: Path) -> None:
    model = str(pretrained_folder(tmp_path / "model", vocabulary=300))
    assert run_study(tmp_path, model, ["device=cpu"], True, 300.0) == {"runs": 2}
    rows = [json.loads(line) for line in (tmp_path / "pretrained.jsonl").read_text().splitlines()]
    assert [(row["scheme"], row["seed"]) for row in rows] == [("sft", 0), ("grpo", 0)]
    assert run_study(tmp_path, model, ["device=cpu"], True, 300.0) == {"runs": 2}


def test_a_study_that_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    with pytest.raises(OutOfTimeError):
        run_study(tmp_path, str(tmp_path / "none"), [], True, 0.01)
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, stdout=subprocess.PIPE).stdout
