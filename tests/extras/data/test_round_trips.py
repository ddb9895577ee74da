"""A log is the same after any two formats, whatever it holds; an export is whole or not there."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.random_logs import random_log, write_log
from helpers.foreign_logs import SAMPLES, sample

from creditflow.train.cli import main
from creditflow.wrappers.records.picture_folder import PictureFolder, pictures_beside

pytestmark = pytest.mark.data
FORMATS = ("parquet", "hf", "minari")
IMPORTERS = {"parquet": "parquet", "hf": "parquet", "minari": "minari"}


@pytest.fixture(autouse=True, scope="module")
def libraries_are_there() -> None:
    for name in ("pyarrow", "minari"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[export]'")


def through(form: str, log: Path, folder: Path) -> Path:
    """The log that comes back from a format."""
    out, back = folder / form, folder / f"{form}.jsonl"
    assert main(["data", "export", str(log), "--format", form, "--out", str(out)]) == 0
    assert main(["data", "import", IMPORTERS[form], str(out), "--out", str(back)]) == 0
    return back


def stored_pictures(log: Path) -> dict[str, Any]:
    folder = PictureFolder(pictures_beside(log))
    return {name: folder.read(name).pixels.tolist() for name in folder.names()}


@pytest.mark.parametrize(("first", "second"), list(itertools.product(FORMATS, FORMATS)))
@pytest.mark.parametrize("seed", range(3))
def test_a_log_of_many_groups_trials_models_and_pictures_of_a_task_is_the_same_after_two_formats(
    first: str, second: str, seed: int, tmp_path: Path
) -> None:
    groups, pictures = random_log(seed)
    log = write_log(tmp_path / "log.jsonl", groups, pictures)
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    once = through(first, log, tmp_path / "first")
    twice = through(second, once, tmp_path / "second")
    assert once.read_bytes() == twice.read_bytes() == log.read_bytes()
    named = {name for group in groups for turn in group.turns for name in turn.images}
    expected = {name: pixels for name, pixels in stored_pictures(log).items() if name in named}
    assert stored_pictures(once) == stored_pictures(twice) == expected


def search_r1_rows() -> bytes:
    """Two models on one question, which retrieve different passages."""
    shown = "<information>Doc 1(Title: {0}) {0} is a city.</information>"
    rows = [
        {
            "id": f"{model}_q{q}", "model": model, "question": f"Which city is {q}?", "answers": ["Oslo"], "metric": {"em": em},
            "response": f"<think>a</think><search>it</search>{shown.format(city)}<think>b</think><answer>{city}</answer>",
        }
        for q in range(2)
        for model, city, em in (("one", "Oslo", 1), ("one", "Rome", 0), ("two", "Paris", 0))
    ]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("source", ["searchr1", *SAMPLES])
def test_an_imported_log_of_another_library_is_the_same_after_every_format(
    source: str, form: str, tmp_path: Path
) -> None:
    name, data = ("searchr1", search_r1_rows()) if source == "searchr1" else sample(source)
    (tmp_path / "theirs.jsonl").write_bytes(data)
    log = tmp_path / "log.jsonl"
    assert main(["data", "import", name, str(tmp_path / "theirs.jsonl"), "--out", str(log)]) == 0
    assert through(form, log, tmp_path).read_bytes() == log.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_paths_may_be_relative_and_logs_compressed(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = write_log(Path("log.jsonl.gz"), *random_log(1))
    back = through(form, log, Path())
    assert back.read_bytes() == gzip.decompress(log.read_bytes())


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_that_fails_leaves_nothing_and_can_be_repeated(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "log.jsonl", *random_log(1))
    command = ["data", "export", str(log), "--format", form, "--out", str(tmp_path / "out")]

    def full(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("creditflow.train.adapters.export.card.data_card", full)  # the last that is written
        assert main(command) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"log.jsonl", "log.pictures"}
    assert main(command) == 0


def test_an_export_that_fails_with_force_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "log.jsonl", *random_log(1))
    command = ["data", "export", str(log), "--format", "parquet", "--out", str(tmp_path / "out"), "--force"]
    assert main(command) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}
    assert before
    with monkeypatch.context() as patch:
        patch.setattr("creditflow.train.adapters.export.card.data_card", lambda *_, **__: 1 / 0)
        assert main(command) == 1
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")} == before


@pytest.mark.parametrize("form", FORMATS)
def test_pictures_without_a_file_are_counted(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups, pictures = random_log(2)
    log = write_log(tmp_path / "log.jsonl", groups, [])
    named = {name for group in groups for turn in group.turns for name in turn.images}
    assert named <= {picture.name for picture in pictures}
    assert main(["data", "export", str(log), "--format", form, "--out", str(tmp_path / "out"), "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["pictures"], counts["pictures_missing"]) == (0, len(named))
    assert main(["data", "export", str(log), "--format", form, "--out", str(tmp_path / "out"), "--force"]) == 0
    assert f"({len(named)} pictures are named but have no file)" in capsys.readouterr().out


def test_a_damaged_picture_stops_an_export_before_anything_is_there(tmp_path: Path) -> None:
    groups, pictures = random_log(2)
    log = write_log(tmp_path / "log.jsonl", groups, pictures)
    for file in pictures_beside(log).iterdir():
        file.write_bytes(np.random.default_rng(0).bytes(100))
    assert main(["data", "export", str(log), "--format", "parquet", "--out", str(tmp_path / "out")]) == 3
    assert not (tmp_path / "out").exists()
