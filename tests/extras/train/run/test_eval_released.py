"""``creditflow eval`` on panels of released data, with a random model: files, ids and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.models.pretrained import pretrained_folder
from helpers.shared_data import shared_file

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups

DATA = shared_file("data/search").parent


@pytest.mark.parametrize(
    ("env", "panel", "files", "rows"),
    [
        ("webshop", "small-human-v1:test", {"data": DATA / "webshop"}, ["All"]),
        (
            "wikisearch", "slices-v1:bamboogle-test+hotpotqa-train",
            {"questions": DATA / "search", "corpus": DATA / "search" / "passages.jsonl.gz"}, ["bamboogle", "hotpotqa", "Mean of sets", "All"],
        ),
    ],
)  # fmt: skip
def test_a_panel_of_released_data_is_played_with_its_files(
    env: str, panel: str, files: dict[str, Path], rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from creditflow.train.rollout.tasks import panel_tasks
    from creditflow.train.settings.schema import EnvConfig

    model, log = f"react:hf:{pretrained_folder(tmp_path / 'model')}", tmp_path / "log.jsonl"
    options = [f"--env-set={name}={path}" for name, path in files.items()]
    command = [
        "eval",
        "--agent",
        model,
        "--env",
        env,
        "--panel",
        panel,
        "--samples",
        "0",
        "--max-new-tokens",
        "4",
        "--device",
        "cpu",
    ]
    limit = "10" if env == "webshop" else "90"
    assert main([*command, *options, "--env-set=max_steps=1", "--limit", limit, "--json", "--out", str(log)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in summary["table"]] == rows
    config = EnvConfig(name=env, options={name: str(path) for name, path in files.items()})
    listed = [task.task_id for task in panel_tasks(config, panel, int(limit))]
    assert [group.task_id for group in read_groups(log)] == listed
