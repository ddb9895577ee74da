"""The dataset folder has every turn of the credit set, rollouts with the right values, a complete card and true digests."""

from __future__ import annotations

import gzip
import hashlib
import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.train.cli import main
from creditflow.train.credit_set import dataset
from creditflow.train.credit_set.build import exact_values
from creditflow.train.credit_set.continuation import LazyStateGraph, unlimited_env
from creditflow.train.credit_set.dataset import ANNOTATIONS, FEATURES, MANIFEST, SPLITS, verify_dataset
from creditflow.train.credit_set.reading import SAMPLE
from creditflow.train.credit_set.settings import EXACT_ENV, PANEL, SETTINGS, BuildSettings
from creditflow.wrappers.records.jsonl import read_groups

ROWS = ["--groups", "6", "--group-size", "2"]


@pytest.fixture(scope="module")
def sample():
    with as_file(files("creditflow.assets") / "credit_set" / SAMPLE) as path:
        yield path


@pytest.fixture(scope="module")
def folder(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "turns"
    assert main(["data", "build", "dataset", "--credit-set", str(sample), *ROWS, "--out", str(out)]) == 0
    return out


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def of_config(folder: Path, config: str) -> dict[str, list[dict[str, Any]]]:
    return {path.name.partition(".")[0]: rows(path) for path in sorted((folder / config).iterdir())}


def test_every_turn_of_the_set_is_in_its_split_unchanged(folder, sample):
    read = of_config(folder, "credit_set")
    wanted = rows(sample)[1:]
    for split, name in SPLITS.items():
        assert read[name] == [record for record in wanted if record["split"] == split]
    assert sum(map(len, read.values())) == len(wanted)


def test_no_task_is_in_two_splits(folder):
    splits: dict[str, set[str]] = {}
    for config in FEATURES:
        for split, read in of_config(folder, config).items():
            for row in read:
                splits.setdefault(row["task_id"], set()).add(split)
    assert all(len(names) == 1 for names in splits.values())


def names_of(features: list[dict[str, Any]]) -> list[str]:
    return [feature["name"] for feature in features]


def test_every_row_has_the_fields_that_the_card_gives_types_for(folder):
    for read in of_config(folder, "credit_set").values():
        for row in read:
            assert set(row) == set(names_of(FEATURES["credit_set"]))
            [alternatives] = [f["list"] for f in FEATURES["credit_set"] if f["name"] == "alternatives"]
            assert all(set(other) == set(names_of(alternatives)) for other in row["alternatives"])
    [turn_features] = [f["list"] for f in FEATURES["rollouts"] if f["name"] == "turns"]
    for read in of_config(folder, "rollouts").values():
        for row in read:
            assert {*row, "task"} == set(names_of(FEATURES["rollouts"]))
            assert all(set(turn) == set(names_of(turn_features)) for turn in row["turns"])
            assert all(tuple(turn["values"]) == ANNOTATIONS for turn in row["turns"])


def groups_of(folder: Path):
    return [group for path in sorted((folder / "rollouts").iterdir()) for group in read_groups(path)]


def test_values_of_rollouts_are_those_of_the_credit_set_in_states_of_the_environment(folder):
    """The values are looked up by states that the environment reached again, not by the keys in the file."""
    of_env, rng = SETTINGS[EXACT_ENV], np.random.default_rng(0)
    env = unlimited_env(EXACT_ENV, PANEL)
    tasks = env.tasks
    for group in groups_of(folder)[:3]:
        task = tasks.get(group.task_id)
        values = exact_values(EXACT_ENV, task, of_env.max_steps, of_env.noise)
        assert values is not None
        graph = LazyStateGraph(env, task)
        for member in group.trajectories:
            state = graph.start
            for index, turn in enumerate(member.turns):
                left = of_env.max_steps - index
                v, q = values.state(state, left, rng).mean, values.action(state, turn.action, left, rng).mean
                state = graph.step(state, turn.action)
                after = values.state(state, left - 1, rng).mean
                assert [turn.values[name] for name in ANNOTATIONS] == pytest.approx([v, after, q, q - v], abs=2e-9)


def test_the_advantages_of_a_rollout_add_up_to_its_outcome_minus_its_first_value(folder):
    members = [member for group in groups_of(folder) for member in group.trajectories]
    assert len(members) == 12
    for member in members:
        total = sum(turn.values["advantage.exact"] for turn in member.turns)
        assert total + member.turns[0].values["value.exact"] == pytest.approx(float(member.success), abs=1e-7)


def test_the_same_command_writes_the_same_bytes(folder, sample, tmp_path):
    out = tmp_path / "turns"
    assert main(["data", "build", "dataset", "--credit-set", str(sample), *ROWS, "--out", str(out)]) == 0
    made = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert made == {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_manifest_has_the_sha256_of_every_file(folder, capsys):
    entries = json.loads((folder / MANIFEST).read_text())["files"]
    present = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert set(entries) == present - {MANIFEST}
    for name, entry in entries.items():
        data = (folder / name).read_bytes()
        assert (entry["sha256"], entry["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert main(["data", "verify", "dataset", str(folder)]) == 0
    assert f"{len(entries)} files" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["changed", "missing", "outside", "no manifest"])
def test_a_folder_with_other_files_than_its_manifest_is_refused(damage, tmp_path):
    (tmp_path / "folder").mkdir()
    file, outside = tmp_path / "folder" / "a.txt", tmp_path / "outside.txt"
    file.write_text("a")
    outside.write_text("a")
    digest = hashlib.sha256(b"a").hexdigest()
    name = "../outside.txt" if damage == "outside" else "a.txt"
    manifest = {"format": "creditflow-dataset", "version": 1, "files": {name: {"sha256": digest}}}
    if damage == "no manifest":
        manifest["format"] = "other"
    (file.parent / MANIFEST).write_text(json.dumps(manifest))
    if damage == "changed":
        file.write_text("b")
    if damage == "missing":
        file.unlink()
    with pytest.raises(DataError, match=r"SHA-256|missing|not the manifest"):
        verify_dataset(file.parent)


def test_the_card_describes_every_field_and_names_licence_command_and_limits(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    header, _, text = card.removeprefix("---\n").partition("\n---\n")
    assert "license: apache-2.0" in header
    described = text.partition("## Fields")[2].partition("## Limits")[0]
    for features in FEATURES.values():
        for feature in features:
            assert f"`{feature['name']}`" in described, feature
    assert all(f"`{name}`" in described for name in ANNOTATIONS)
    assert f"creditflow data build dataset --credit-set {SAMPLE} --groups 6 --group-size 2 --seed 0 --out turns" in text
    assert "$" not in card
    assert "Apache License, Version 2.0" in (folder / "LICENSE").read_text()


def test_an_existing_folder_is_left_alone(folder, sample, capsys):
    before = (folder / MANIFEST).read_bytes()
    assert main(["data", "build", "dataset", "--credit-set", str(sample), "--out", str(folder)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (folder / MANIFEST).read_bytes() == before


def test_an_interrupted_command_leaves_nothing(sample, tmp_path, monkeypatch):
    def interrupt(*_arguments: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(dataset, "_card", interrupt)
    main(["data", "build", "dataset", "--credit-set", str(sample), *ROWS, "--out", str(tmp_path / "out")])
    assert list(tmp_path.iterdir()) == []


def test_a_set_whose_records_have_other_fields_is_refused(sample, tmp_path, capsys):
    lines = gzip.decompress(sample.read_bytes()).decode().splitlines()
    record = json.loads(lines[1])
    (tmp_path / "set.jsonl").write_text("\n".join([lines[0], json.dumps(record | {"note": 1})]) + "\n")
    command = ["data", "build", "dataset", "--credit-set", str(tmp_path / "set.jsonl"), "--out", str(tmp_path / "out")]
    assert main(command) != 0
    assert "note" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_a_set_the_command_builds_one(tmp_path, monkeypatch):
    small = BuildSettings(turns=16, forks=2, envs=("sokoban",))
    monkeypatch.setattr("creditflow.train.commands.credit_set.BuildSettings", lambda **_settings: small)
    out = tmp_path / "out"
    one = ["--groups", "1", "--group-size", "1", "--workers", "1"]
    assert main(["data", "build", "dataset", *one, "--out", str(out)]) == 0
    assert sum(map(len, of_config(out, "credit_set").values())) == 16
    assert {path.name for path in out.iterdir()} == {"README.md", "LICENSE", MANIFEST, "credit_set", "rollouts"}
