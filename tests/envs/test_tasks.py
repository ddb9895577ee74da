"""Tasks, ids and panels."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.panels.writing import write_panel
from helpers.shared_data import ROOT

import creditflow
from creditflow.envs import ENVIRONMENTS, RowTasks, Task, content_id, load_panel, panel_names
from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError
from creditflow.envs.tasks import PanelRow, parse_panel, parse_panel_spec, sample_index

ROW = {"task_id": "demo1:a", "split": "train", "locator": {"x": 1}, "strata": {}}


def panel_text(**changes):
    return json.dumps({"format_version": 1, "rows": [ROW], **changes})


def build(content):
    return Task(content_id("demo1", content), content_id("demo1", content), content)


def rows(n):
    return [PanelRow(build({"i": i}).task_id, "train", {"i": i}, {}) for i in range(n)]


def test_a_panel_is_parsed_in_order():
    panel = parse_panel(panel_text(rows=[ROW, {**ROW, "task_id": "demo1:b", "split": "test"}]), "demo/p")
    assert [row.task_id for row in panel.rows] == ["demo1:a", "demo1:b"]
    assert [row.task_id for row in panel.split("test")] == ["demo1:b"]
    assert panel.split("all") == panel.rows


@pytest.mark.parametrize(("env", "name"), [(env, name) for env in ENVIRONMENTS for name in panel_names(env)])
def test_a_published_panel_round_trips_byte_for_byte(env, name, tmp_path):
    write_panel(tmp_path / "panel.json", load_panel(env, name).rows, spaces=env == "alfworld")
    published = ROOT / "assets" / "panels" / env / f"{name}.json"
    data = published.read_bytes() if published.is_file() else gzip.decompress(Path(f"{published}.gz").read_bytes())
    assert (tmp_path / "panel.json").read_bytes() == data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not in panel format"),
        ("[]", "not in panel format"),
        ("{}", "not in panel format"),
        (panel_text(format_version=2), "format_version 2, expected 1"),
        (panel_text(rows=3), "not in panel format"),
        (panel_text(rows=[{"task_id": "demo1:a"}]), "split"),
        (panel_text(rows=[ROW, ROW]), "occurs twice"),
    ],
)
def test_panel_format_errors_name_the_violation(text, message):
    with pytest.raises(DataError, match=message):
        parse_panel(text, "demo/p")


def test_unknown_panels_and_splits_suggest_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean 'standard-v1'"):
        load_panel("sokoban", "standard-v2")
    with pytest.raises(ConfigError, match="did you mean 'valid'"):
        parse_panel_spec("sokoban", "standard-v1:vaild")
    with pytest.raises(ConfigError, match="NAME:SPLIT"):
        parse_panel_spec("sokoban", ":train")
    assert panel_names("no-such-environment") == ()


def test_a_changed_row_is_an_error_when_it_is_used():
    source = RowTasks("demo", [PanelRow("demo1:0", "train", {"i": 0}, {})], build)
    with pytest.raises(DataError, match="row 0 is published as demo1:0"):
        source.get("demo1:0")


def test_a_source_of_many_tasks_keeps_a_limited_number_and_builds_the_others_again(monkeypatch):
    monkeypatch.setattr("creditflow.envs.tasks.BUILT", 2)
    source = RowTasks("demo", rows(5), build)
    ids = source.task_ids()
    assert [source.get(name).task_id for name in (*ids, *ids)] == [*ids, *ids]
    assert len(source._built) == 2


def test_unknown_ids_and_empty_sources_are_errors():
    with pytest.raises(UnknownTaskError, match="not among the 2 tasks"):
        RowTasks("demo", rows(2), build).get("demo1:zzz")
    with pytest.raises(ConfigError, match="empty"):
        RowTasks("demo", [], build)


def test_samples_cover_all_rows_and_depend_only_on_the_generator():
    source = RowTasks("demo", rows(5), build)
    drawn = [source.sample(np.random.default_rng(seed)).task_id for seed in range(60)]
    assert set(drawn) == set(source.task_ids())
    assert drawn == [source.sample(np.random.default_rng(seed)).task_id for seed in range(60)]


def test_sampled_indices_are_uniform_and_pinned():
    rng = np.random.Generator(np.random.PCG64(0))
    assert [sample_index(rng, 10) for _ in range(10)] == [6, 2, 0, 0, 8, 9, 6, 7, 5, 9]
    counts = np.bincount([sample_index(rng, 4) for _ in range(4000)], minlength=4)
    assert counts.min() > 900


def test_ids_do_not_depend_on_key_order():
    assert content_id("x1", {"a": 1, "b": "é"}) == content_id("x1", {"b": "é", "a": 1})
    assert content_id("x1", {"a": 1}) != content_id("x2", {"a": 1})


def test_content_that_is_not_json_has_no_id():
    with pytest.raises(ValueError, match="JSON"):
        content_id("x1", {"a": float("nan")})


PROBE = """
import sys, creditflow
env = creditflow.make(sys.argv[1])
for seed in range(8):
    _, info = env.reset(seed=seed)
    print(info["task_id"], env.unwrapped.task.canonical_id, info["state_key"])
"""


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_ids_are_equal_in_other_processes_under_other_hash_seeds(name):
    env = creditflow.make(name)
    here = ""
    for seed in range(8):
        _, info = env.reset(seed=seed)
        here += f"{info['task_id']} {env.unwrapped.task.canonical_id} {info['state_key']}\n"  # type: ignore[attr-defined]  # AgentEnv
    for hash_seed in ("1", "999"):
        variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(creditflow.__file__).parents[1])}
        command = [sys.executable, "-c", PROBE, name]
        assert subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout == here


def test_splits_joined_by_plus_are_the_rows_of_each_in_the_panels_order():
    both = parse_panel_spec("sokoban", "standard-v1:test+valid")
    rows = parse_panel_spec("sokoban", "standard-v1")
    assert both == tuple(row for row in rows if row.split in ("valid", "test"))
    assert parse_panel_spec("sokoban", "standard-v1:test+all") == rows
    with pytest.raises(ConfigError, match="did you mean 'valid'"):
        parse_panel_spec("sokoban", "standard-v1:test+vaild")
