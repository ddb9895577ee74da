"""A copy of Boxoban is compared with the listed ids; the manifest itself is pinned, and true to the visible files."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files

import pytest
from helpers.panels.manifests import list_levels, write_ids
from helpers.shared_data import SHARED

from creditflow.envs.sokoban import SokobanEnv, parse_levels
from creditflow.envs.sokoban.levels.boxoban import check_boxoban, load_ids
from creditflow.train.cli import main

SHA256 = "c33090bc4d84b74e275266a8547378f3be65a5a5956f914fe294ac1f2d52ce8a"
LEVELS = "; 0\n######\n#@ $.#\n######\n\n; 1\n######\n#.$ @#\n#    #\n######\n\n; 2\n#####\n#@$.#\n#####\n"


@pytest.fixture
def folder(tmp_path):
    for name in ("unfiltered/train/000", "unfiltered/valid/000", "medium/train/000", "hard/000"):
        path = tmp_path / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LEVELS, encoding="ascii")
    return tmp_path


def test_the_manifest_is_pinned_and_lists_no_level_twice():
    data = (files("creditflow.assets") / "manifests" / "sokoban" / "boxoban-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256
    ids = load_ids()
    assert {name: len(rows) for name, rows in ids.items()} == {
        "hard/000": 50, "medium/train/000": 200, "unfiltered/train/000": 1000, "unfiltered/valid/000": 200,
    }  # fmt: skip
    assert len({task_id for rows in ids.values() for task_id in rows}) == 1450


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"golden data is not here: {SHARED}")
def test_the_visible_files_are_as_listed():
    report = check_boxoban(SHARED / "data" / "boxoban", load_ids())
    assert report.complete
    assert not report.differences
    assert [part.counts["same"] for part in report.parts] == [1000, 200, 200, 50]


def test_a_copy_is_the_same_and_its_ids_are_those_of_the_environment(folder, tmp_path):
    ids = list_levels(folder)
    write_ids(tmp_path / "ids.json", ids)
    assert json.loads((tmp_path / "ids.json").read_text("ascii"))["files"] == ids
    assert check_boxoban(folder, ids).complete
    env = SokobanEnv(levels=str(folder))
    _, info = env.reset(options={"task_id": ids["hard/000"][1]})
    assert info["task_id"] == ids["hard/000"][1]


def test_every_difference_is_named(folder):
    ids = list_levels(folder)
    levels = [level.xsb for level in parse_levels(LEVELS, source="levels")]
    (folder / "hard" / "000.txt").write_text("\n\n".join([levels[1], levels[0]]), encoding="ascii")
    (folder / "medium" / "train" / "000.txt").unlink()
    (folder / "unfiltered" / "valid" / "000.txt").write_text("######\n#  $.#\n######", encoding="ascii")
    report = check_boxoban(folder, ids)
    counts = {part.part: {kind: n for kind, n in part.counts.items() if n} for part in report.parts}
    assert counts == {
        "unfiltered/train": {"same": 3}, "unfiltered/valid": {"unusable": 3}, "medium/train": {"missing": 3},
        "hard": {"changed": 2, "missing": 1},
    }  # fmt: skip
    details = {one.name: one.detail for one in report.differences}
    assert "exactly one player" in details["unfiltered/valid/000:1"]
    assert "get the files again" in report.to_text()


def test_the_command_prints_a_report_and_fails_for_a_wrong_folder(folder, capsys):
    assert main(["data", "check", "boxoban", str(folder), "--only", "hard", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [part["part"] for part in report["parts"]] == ["hard"]
    assert report["parts"][0]["listed"] == 50
    assert main(["data", "check", "boxoban", str(folder), "--only", "easy"]) == 2
