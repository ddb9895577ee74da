"""Exported logs, read by the libraries themselves, and back: the same log, whatever it holds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.adapters.export.parquet import EXACT, read_parquet, row_of, trajectory_of, write_parquet
from creditflow.train.cli import main
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log, read_groups, read_log, write_jsonl
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

pytestmark = pytest.mark.data


@pytest.fixture(autouse=True, scope="module")
def pyarrow_is_there() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install -e '.[export]'")


def groups_of(seed: int, count: int = 3) -> list[Group]:
    """Random groups with tokens, annotations, payloads, and ids of their own."""
    from dataclasses import replace

    made = []
    for number in range(count):
        group = random_group(
            np.random.default_rng([seed, number]), values=("value.critic",), token_values=("value.critic",)
        )
        members = [
            replace(m, group_id=f"g{number}", task_id=f"task{number}", provenance={"value.critic": "x"})
            for m in group.trajectories
        ]
        made.append(Group(tuple(members), group.task))
    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "log.jsonl", groups_of(3))
    return tmp_path / "log.jsonl"


texts = st.text(st.characters(codec=None), max_size=8)  # lone surrogates too
names = st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=2)
turns = st.builds(
    Turn, st.just("s"), texts, st.just("s"), reward=st.floats(-1e300, 1e300), parsed=st.booleans(), cost=st.floats(1e-9, 1e9),
    observation=texts, thought=texts, response=texts, entities=st.lists(texts, max_size=2).map(tuple), values=names,
)  # fmt: skip
trajectories = st.builds(
    Trajectory, texts, texts, texts, st.lists(turns, max_size=2).map(tuple), st.just(False), st.floats(0, 1), st.just("failed"), st.just("s"),
    policy=texts, seed=st.integers(-(2**63), 2**63 - 1), values=names, provenance=st.dictionaries(texts, texts, max_size=2),
)  # fmt: skip
payloads = st.one_of(
    st.none(),
    st.dictionaries(
        texts, st.one_of(texts, st.integers(), st.none(), st.lists(texts, max_size=2)), min_size=1, max_size=2
    ),
)


@given(trajectories, payloads)
def test_a_trajectory_is_the_same_after_a_row_and_a_file_of_columns(
    tmp_path_factory: pytest.TempPathFactory, trajectory: Trajectory, task: Any
) -> None:
    assert trajectory_of(row_of(trajectory, task)) == (trajectory, task)
    folder = tmp_path_factory.mktemp("one")
    group = Group((trajectory,), task or {})
    assert read_parquet(write_parquet(folder, Log.of([group]))) == Log.of([group])


def test_a_text_that_is_no_unicode_is_kept_exactly_beside_its_columns() -> None:
    trajectory = Trajectory("a", "g", "t", (Turn("s", "go \ud800", "s"),), False, 0.0, "failed", "s")
    row = row_of(trajectory, None)
    assert row["turns"][0]["action"] == "go ?"
    assert row[EXACT] is not None
    assert trajectory_of(row) == (trajectory, None)


def test_tokens_are_the_same_bit_by_bit(tmp_path: Path) -> None:
    tokens = Tokens(
        np.array([1, 2, 3], np.int32), np.array([False, True, True]), np.array([0.0, -0.1, -1e-30], np.float32),
        np.array([0, 3], np.int32), (np.array([5, 6], np.int32),), "7", {"value.critic": np.array([0.1, 0.2, 0.3, 0.4], np.float32)},
    )  # fmt: skip
    group = Group((Trajectory("a", "g", "t", (Turn("s", "a", "s"),), False, 0.0, "failed", "s", tokens=tokens),))
    assert read_parquet(write_parquet(tmp_path, Log.of([group]))) == Log.of([group])


@pytest.mark.parametrize("form", ["parquet", "hf", "minari"])
def test_export_and_import_give_the_same_log_byte_by_byte(form: str, log: Path, tmp_path: Path, capsys: Any) -> None:
    if form == "minari":
        pytest.importorskip("minari", reason="Minari is not installed: pip install -e '.[export]'")
    out, back = tmp_path / "out", tmp_path / "back.jsonl"
    assert main(["data", "export", str(log), "--format", form, "--out", str(out), "--license", "cc-by-4.0"]) == 0
    assert main(["data", "import", "minari" if form == "minari" else "parquet", str(out), "--out", str(back)]) == 0
    assert back.read_bytes() == log.read_bytes()
    card = (out / "README.md").read_text()
    assert "cc-by-4.0" in card
    assert "FILL IN" in card  # who made the log, and how
    assert (form == "minari") or "- `state_key`: keys of the state before and after the action" in card
    assert main(["data", "export", str(log), "--format", form, "--out", str(out)]) == 2  # never over what exists
    assert main(["data", "export", str(log), "--format", form, "--out", str(out), "--force", "--json"]) == 0
    capsys.readouterr()


def test_datasets_loads_the_folder_with_the_card_of_the_hub(log: Path, tmp_path: Path, capsys: Any) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install -e '.[export]'")
    assert main(["data", "export", str(log), "--format", "hf", "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    loaded = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    members = [member for group in read_groups(log) for member in group.trajectories]
    assert loaded["trajectory_id"] == [member.trajectory_id for member in members]
    assert [[turn["action"] for turn in row] for row in loaded["turns"]] == [
        [turn.action for turn in m.turns] for m in members
    ]
    # what datasets writes is read back as well: it may reorder nothing and add no column
    loaded.to_parquet(str(tmp_path / "theirs.parquet"))
    assert read_parquet(tmp_path / "theirs.parquet") == read_log(log)


def test_minari_loads_texts_rewards_and_ends(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    minari = pytest.importorskip("minari", reason="Minari is not installed: pip install -e '.[export]'")
    assert main(["data", "export", str(log), "--format", "minari", "--out", str(tmp_path / "out")]) == 0
    assert "MINARI_DATASETS_PATH" not in os.environ
    capsys.readouterr()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "out"))
    dataset = minari.load_dataset("creditflow/log-v0")
    members = [member for group in read_groups(log) for member in group.trajectories if member.turns]
    assert dataset.total_episodes == len(members)
    for episode, member in zip(dataset.iterate_episodes(), members, strict=True):
        assert list(episode.observations) == [*(turn.observation for turn in member.turns), ""]
        assert list(episode.actions) == [turn.action for turn in member.turns]
        assert episode.rewards.tolist() == [turn.reward for turn in member.turns]
        assert episode.terminations.tolist()[-1] != episode.truncations.tolist()[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turns": "no"}, "turns must be a list"), ({"success": 3}, "success must be"), ({"score": 2.0}, "score must lie"),
        ({"task": "{"}, "column task must be JSON"), ({"values": [{"name": 1}]}, "column values must have named values"),
        ({"values": [{"name": "a", "value": 1.0}] * 2}, "has a name twice"), ({"unknown": 1}, "unknown"), ({EXACT: "{"}, "not JSON"),
        ({"format_version": 9}, "format_version is 9"), ({"tokens": 3}, "tokens"),
    ],
)  # fmt: skip
def test_a_row_of_another_form_is_an_error(change: dict[str, Any], message: str) -> None:
    from creditflow.envs.errors import TrajectoryError

    row = row_of(groups_of(1)[0].trajectories[0], None)
    with pytest.raises(TrajectoryError, match=message):
        trajectory_of(json.loads(json.dumps(row)) | change)
