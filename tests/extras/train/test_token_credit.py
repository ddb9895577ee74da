"""``creditflow credit --tokenizer``: an advantage for every token of every response, under the ids and in the order of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.foreign_logs import sample
from helpers.models.tiny_tokenizer import byte_tokenizer

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_jsonl


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An imported log, and the folder of a tokenizer."""
    monkeypatch.chdir(tmp_path)
    source, data = sample("messages")
    Path("mine.jsonl").write_bytes(data)
    assert main(["data", "import", source, "mine.jsonl", "--out", "log.jsonl"]) == 0
    byte_tokenizer().save_pretrained("tokenizer")
    return tmp_path / "log.jsonl"


@pytest.mark.parametrize("scheme", ["grpo", "gigpo"])
def test_the_tokens_of_a_turn_have_its_advantage(scheme: str, log: Path) -> None:
    assert main(["credit", "--scheme", scheme, str(log), "--tokenizer", "tokenizer", "--out", "c.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("c.jsonl").read_text().splitlines()]
    tokenizer = byte_tokenizer()
    for line, trajectory in zip(lines, read_jsonl(log), strict=True):
        assert line["trajectory_id"] == trajectory.trajectory_id
        texts = [tokenizer.decode(ids) for ids in line["token_ids"]]
        assert texts == [turn.response for turn in trajectory.turns]
        expected = [[a] * len(ids) for a, ids in zip(line["advantages"], line["token_ids"], strict=True)]
        assert line["token_advantages"] == expected
    assert any(any(line["advantages"]) for line in lines)


def test_a_log_without_responses_is_an_error(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollout", "--panel", "small-v1:valid", "--limit", "1", "--group-size", "2", "--out", "r.jsonl"]) == 0
    assert main(["credit", "--scheme", "grpo", "r.jsonl", "--tokenizer", "tokenizer"]) == 3
    assert "the log has no responses" in capsys.readouterr().err
