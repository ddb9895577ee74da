"""``creditflow data import`` of another library's log: every command works on the result, and nothing is lost or half written."""

from __future__ import annotations

import json

import pytest
from helpers.foreign_logs import SAMPLES, sample

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups


@pytest.fixture(params=SAMPLES)
def imported(request, tmp_path, capsys):
    source, data = sample(request.param)
    (tmp_path / "theirs.jsonl").write_bytes(data)
    out = tmp_path / "log.jsonl.gz"
    assert main(["data", "import", source, str(tmp_path / "theirs.jsonl"), "--out", str(out)]) == 0
    capsys.readouterr()
    return out


def test_credit_audit_and_view_work_on_the_result(imported, tmp_path, capsys):
    assert len(read_groups(imported)) == 2
    for scheme in ("grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"):
        assert main(["credit", "--scheme", scheme, str(imported)]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(lines) == 4
        assert any(any(line["advantages"]) for line in lines)
    assert main(["audit", "--json", str(imported)]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["view", str(imported), "--out", str(tmp_path / "page.html")]) == 0
    assert "room A" in (tmp_path / "page.html").read_text()


def test_the_report_is_a_table_or_json(tmp_path, capsys):
    source, data = sample("openenv")
    (tmp_path / "theirs.jsonl").write_bytes(b"{}\n" + data)
    command = ["data", "import", source, str(tmp_path / "theirs.jsonl"), "--out", str(tmp_path / "log.jsonl")]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "left out  reason" in text
    assert main([*command, "--force", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], report["rollouts"], report["groups"], report["successes"]) == (5, 4, 2, 2)
    [left_out] = report["left_out"]
    assert left_out["count"] == 1
    assert "line 1" in left_out["first"]


def test_nothing_is_overwritten_and_a_failed_import_leaves_no_file(tmp_path, capsys):
    source, data = sample("openenv")
    theirs, out = tmp_path / "theirs.jsonl", tmp_path / "log.jsonl"
    theirs.write_bytes(b"{}\n" + data)
    command = ["data", "import", source, str(theirs)]
    assert main([*command, "--out", str(out), "--strict"]) == 3
    assert not out.exists()
    out.write_text("mine")
    assert main([*command, "--out", str(out)]) == 2
    assert out.read_text() == "mine"
    assert main([*command, "--out", str(theirs), "--force"]) == 2
    assert theirs.read_bytes() == b"{}\n" + data
    assert list(tmp_path.iterdir()) == [theirs, out] or set(tmp_path.iterdir()) == {theirs, out}
    capsys.readouterr()


def test_an_interrupt_leaves_no_half_file(tmp_path, monkeypatch, capsys):
    from creditflow.wrappers.records import jsonl

    source, data = sample("openenv")
    (tmp_path / "theirs.jsonl").write_bytes(data)
    written = []

    def interrupted(trajectory, task):
        written.append(trajectory)
        if len(written) == 3:
            raise KeyboardInterrupt
        return "{}"

    monkeypatch.setattr(jsonl, "encode_line", interrupted)
    command = ["data", "import", source, str(tmp_path / "theirs.jsonl"), "--out", str(tmp_path / "log.jsonl")]
    assert main(command) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.jsonl"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["openenv", "F", "--turns", "single"], "--turns has no effect on openenv"),
        (["openenv", "F", "--success-at", "nan"], "success_at must be a finite number"),
        (["openenv", "F", "--state-key", ""], "state_key is one of"),
    ],
)
def test_options_without_effect_and_wrong_values_are_errors(arguments, message, tmp_path, capsys):
    _, data = sample("openenv")
    (tmp_path / "F").write_bytes(data)
    words = [str(tmp_path / "F") if word == "F" else word for word in arguments]
    assert main(["data", "import", *words, "--out", str(tmp_path / "out.jsonl")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("word", "meant"), [("verlagent", "verl-agent"), ("openen", "openenv")])
def test_a_misspelled_source_is_told_the_right_one(word, meant, tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["data", "import", word, str(tmp_path / "F"), "--out", str(tmp_path / "out.jsonl")])
    assert refused.value.code == 2
    assert f"did you mean '{meant}'" in capsys.readouterr().err
