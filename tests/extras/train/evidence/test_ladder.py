"""The ladder of sizes: an unfinished run goes on, and a stored row is measured again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evidence.ladder import run
from evidence.language_models.run import learn, warm_up

STUDY = Path(run.__file__).parent
ROWS = [json.loads(line) for line in (STUDY / "results.jsonl").read_text("utf-8").splitlines()]


def test_every_setting_is_another_one_with_the_same_tasks() -> None:
    works = {name: run.work_of("0.1", 400, setting=name) for name in run.SETTINGS}
    assert len({(work.form, work.learning) for work in works.values()}) == len(works)
    assert len({(work.task_seed, work.pool, work.size) for work in works.values()}) == 1


def test_an_unfinished_last_line_is_removed_and_its_job_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, whole = tmp_path / "results.jsonl", (STUDY / "results.jsonl").read_text("utf-8")
    file.write_text(whole + '{"job":["0.1","pi', encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["run.py", "--out", str(file), "--minutes", "0"])
    assert run.main() == run.UNFINISHED
    assert file.read_text("utf-8") == whole


@pytest.mark.parametrize(
    ("option", "known"), [("sizes", "0.1, 0.4"), ("settings", "standard, letters"), ("methods", "grpo, g")]
)
def test_a_name_that_does_not_exist_gets_the_list_of_those_that_do(
    option: str, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run.py", "--out", str(tmp_path / "results.jsonl"), f"--{option}", "nothing"])
    with pytest.raises(SystemExit):
        run.main()
    assert f"argument --{option}: expected names of {known}" in capsys.readouterr().err


def test_a_job_measured_again_equals_its_stored_row() -> None:
    """The start to four digits. Updates amplify the last bits, in which processors differ."""
    row = next(row for row in ROWS if row["job"] == ["0.1", "pits", 400, "stateless"])
    work = run.work_of("0.1", 400)
    curve = learn("pits", 400, "stateless", work, "cpu", warm_up("pits", 400, work, "cpu")["parameters"])
    for name in ("train", "held_out"):
        again = [float(np.mean(point[name]["sampled"])) for point in curve]
        assert again[0] == pytest.approx(row[name][0], abs=1e-4), name
        assert again == pytest.approx(row[name], abs=2e-3), name
