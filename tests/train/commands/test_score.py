"""``creditflow score``: a log of messages, or one of ours, becomes credit with the scheme that suits it, and a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.train.cli import main
from creditflow.train.commands.demo import example_group
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log that the page on own logs writes."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "assets/site/pages/start/own_log.md").read_text(encoding="utf-8")
    script = page.split("```python file=write_messages.py\n")[1].split("```")[0]
    exec(compile(script, "own_log.md", "exec"), {})  # noqa: S102 - a page of the repository
    return tmp_path / "mine.jsonl"


def test_a_log_of_messages_gets_credit_that_is_not_zero_in_its_order_and_a_page(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", "mine.jsonl"]) == 0
    rows = lines_of(mine.parent / "mine-scored" / "credit.jsonl")
    assert [row["trajectory_id"] for row in rows] == ["run-3", "run-1", "run-2"]
    [group] = read_groups(mine.parent / "mine-scored" / "log.jsonl")
    expected = credit.make("grouptd").assign(group).advantages
    assert all(np.array_equal(row["advantages"], values) for row, values in zip(rows, expected, strict=True))
    assert any(value != 0.0 for row in rows for value in row["advantages"])
    assert "run-3" in (mine.parent / "mine-scored" / "page.html").read_text(encoding="ascii")
    out = capsys.readouterr().out
    assert "scheme: grouptd" in out and "1 of 1 group" not in out
    assert main(["score", "mine.jsonl"]) == 2  # nothing is overwritten
    assert main(["score", "mine.jsonl", "--force"]) == 0


def test_our_own_log_is_read_as_it_is_and_a_scheme_may_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "log.jsonl.gz", [example_group()])
    assert main(["score", str(tmp_path / "log.jsonl.gz"), "--scheme", "gigpo"]) == 0
    rows = lines_of(tmp_path / "log-scored" / "credit.jsonl")
    assert {row["scheme"] for row in rows} == {"gigpo"}
    assert max(map(len, capsys.readouterr().out.splitlines())) < 160


def test_groups_of_one_are_refused_with_the_way_out(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = lines_of(mine)
    mine.write_text("".join(json.dumps({**row, "task_id": row["id"]}) + "\n" for row in rows), encoding="ascii")
    assert main(["score", "mine.jsonl"]) == 3
    assert "one rollout" in capsys.readouterr().err
    assert not (mine.parent / "mine-scored").exists()
