"""The command line: arguments, output, and the errors for wrong input."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from creditflow.train.cli import COMMANDS, main
from creditflow.wrappers.records.jsonl import read_groups

SMALL = ["--panel", "standard-v1:train", "--limit", "3", "--group-size", "4"]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    assert main(["rollout", "--agent", "noisy:0.4", *SMALL, "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert f"creditflow {name}" in capsys.readouterr().out


def test_rollout_writes_groups_of_the_requested_size(log):
    groups = read_groups(log)
    assert [len(group) for group in groups] == [4, 4, 4]


def test_rollout_resumes_an_interrupted_log_to_the_same_bytes(log, tmp_path):
    whole = log.read_bytes()
    log.unlink()
    partial = log.with_name(log.name + ".partial")
    partial.write_bytes(whole[: int(len(whole) * 0.6)])  # torn in the middle of a line
    command = ["rollout", "--agent", "noisy:0.4", *SMALL, "--out", str(log)]
    assert main(command) == 2  # not silently begun anew
    assert main([*command, "--resume"]) == 0
    assert log.read_bytes() == whole
    assert not partial.exists()


@pytest.mark.parametrize("scheme", ["grpo", "rloo", "gigpo", "graphgpo", "rewardflow"])
def test_credit_writes_one_line_per_trajectory_with_a_number_per_turn(scheme, log, tmp_path):
    out = tmp_path / "credit.jsonl"
    assert main(["credit", "--scheme", scheme, str(log), "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    trajectories = [t for group in read_groups(log) for t in group.trajectories]
    assert [line["trajectory_id"] for line in lines] == [t.trajectory_id for t in trajectories]
    for line, trajectory in zip(lines, trajectories, strict=True):
        assert len(line["advantages"]) == len(trajectory.turns)
        total = [line["outcome_advantage"] + step for step in line["step_advantages"]]
        assert line["advantages"] == pytest.approx(total)


def test_credit_reads_standard_input_and_writes_standard_output(log, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(log.read_text()))
    assert main(["credit", "--scheme", "gigpo", "-"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 12
    assert "12 trajectories" in shown.err


def test_credit_sets_parameters(log, tmp_path):
    out = tmp_path / "c.jsonl"
    command = ["credit", "--scheme", "gigpo", "--set", "step_weight=0", str(log), "--out", str(out)]
    assert main(command) == 0
    assert all(not any(json.loads(line)["step_advantages"]) for line in out.read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["crdit"], 2, "did you mean 'credit'"),
        (["credit", "--scheme", "graphgp0", "x"], 2, "did you mean 'graphgpo'"),
        (["credit", "--scheme", "gigpo", "--set", "discont=1", "x"], 2, "did you mean 'discount'"),
        (["credit", "--scheme", "gigpo", "--set", "discount", "x"], 2, "KEY=VALUE"),
        (["credit", "--scheme", "gigpo", "--set", "discount=high", "x"], 2, "finite number"),
        (["credit", "--scheme", "gigpo", "--semantics", "papr", "x"], 2, "did you mean 'paper'"),
        (["credit", "--scheme", "gigpo"], 2, "trajectory log"),
        (["credit", "--scheme", "gigpo", "no-such-file"], 3, "no such file"),
        (["rollout", "--env", "sokobn", "--out", "-"], 2, "did you mean 'sokoban'"),
        (["rollout", "--agent", "expret", "--out", "-"], 2, "did you mean 'expert'"),
        (["rollout", "--agent", "noisy:lots", "--out", "-"], 2, "takes a number"),
        (["rollout", "--panel", "standard-v2:train", "--out", "-"], 2, "did you mean 'standard-v1'"),
        (["rollout", "--panel", "standard-v1:tran", "--out", "-"], 2, "did you mean 'train'"),
        (["rollout", "--env-set", "colour=red", "--out", "-"], 2, "colour"),
        (["rollout", "--invalid-actions", "ignore", "--limit", "1", "--out", "-"], 2, "invalid-action policy"),
        (["play", "--task", "sokoban1:0"], 3, "sokoban1:0"),
        (["bench", "--schemes", "grp0", "--out", "x"], 2, "did you mean 'grpo'"),
        (["bench", "--envs", ",", "--out", "x"], 2, "at least one suite"),
        (["bench", "--envs", "share", "--out", "x"], 2, "did you mean 'shared'"),
        (["bench", "--envs", "sokoban,sokobn", "--out", "x"], 2, "did you mean 'sokoban'"),
        (["bench"], 2, "--out DIR"),
        (["bench", "--show", "no-such-file"], 3, "no-such-file"),
        (["bench", "--envs", "sokoban@nowhere", "--out", "x"], 3, "does not exist"),
    ],
)  # fmt: skip
def test_wrong_input_is_explained_without_a_traceback(arguments, code, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"state_key"', b'"stat_key"', 1),
        lambda data: b"\xff\xfe" + data,
        lambda data: b'{"hello": "world"}\n',
        lambda data: b"[" * 100_000 + b"\n",
        lambda data: data.replace(b'"format_version":1', b'"format_version":9', 1),
    ],
    ids=["cut", "field", "bytes", "foreign", "deep", "version"],
)
def test_a_damaged_log_is_rejected_with_its_line_and_nothing_is_written(damage, log, tmp_path, capsys):
    bad, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    bad.write_bytes(damage(log.read_bytes()))
    assert main(["credit", "--scheme", "grpo", str(bad), "--out", str(out)]) == 3
    shown = capsys.readouterr().err
    assert "line" in shown
    assert "bad.jsonl" in shown
    assert not out.exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_data_is_listed_imported_and_checked(tmp_path, capsys):
    assert main(["envs"]) == 0
    assert "data_path=PATH" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["data", "import", "verll", "x", "--out", str(tmp_path / "s")])
    assert "did you mean 'verl'" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
    assert main(["data", "check", "wikisearch-index", str(tmp_path)]) == 3
    assert main(["data", "check", "wikisearch-index", str(tmp_path), "--only", "products"]) == 2


def test_data_builds_an_encyclopedia(tmp_path, capsys):
    out = tmp_path / "wiki"
    assert main(["data", "build", "wiki", "--articles", "300", "--out", str(out)]) == 0
    assert len(gzip.decompress((out / "passages.jsonl.gz").read_bytes()).splitlines()) >= 300
    assert main(["data", "build", "wiki", "--articles", "300", "--out", str(out)]) == 2
    assert "already exists; use --force" in capsys.readouterr().err
    assert main(["data", "build", "wiki", "--articles", "300", "--out", str(out), "--force"]) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["data", "build", "wikis", "--articles", "300", "--out", str(tmp_path / "other")])
    assert "did you mean 'wiki'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["webshop", "creditflow/WebShop-v0"])
def test_play_shops_in_the_terminal_too(name, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("hint\nquit\n"))
    assert main(["play", name]) == 0
    assert "steps to go" in capsys.readouterr().out


@pytest.mark.parametrize("env", ["sokoban", "webshop"])
@pytest.mark.parametrize("line", ["", "  ", "\x1b[H", "\x1b", "\t", "\x7f"])
def test_a_line_that_is_no_action_costs_no_turn_of_play(line, env, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\nquit\n"))
    assert main(["play", env]) == 0
    shown = capsys.readouterr().out
    assert "that is no action" in shown
    assert "1/" not in shown.split("no action")[1]


def test_play_takes_actions_hints_and_undo_from_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("?\nhint\nup\nundo\nsideways\nquit\n"))
    assert main(["play", "sokoban", "--seed", "3"]) == 0
    shown = capsys.readouterr().out
    assert "steps to go" in shown
    assert "rejected: 'sideways'" in shown


def test_a_defect_is_reported_in_one_line_and_with_its_traceback_on_request(monkeypatch, capsys):
    import creditflow.train.commands.envs as command

    monkeypatch.setattr(command, "run", lambda args: 1 // 0)
    assert main(["envs"]) == 1
    shown = capsys.readouterr().err
    assert "ZeroDivisionError" in shown
    assert "Traceback" not in shown
    assert main(["--traceback", "envs"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--why", "a:0", "--out", "x.jsonl"], "--out has no effect on --why"), (["--why", "a:0", "--tokenizer", "t"], "--tokenizer has no effect on --why"),
        (["--explain", "--why", "a:0"], "--why has no effect on --explain"), (["--explain", "--set", "std_eps=1"], "--set has no effect on --explain"),
        (["--json"], "--json has no effect on lines"),
    ],
)  # fmt: skip
def test_an_option_that_the_others_leave_without_effect_is_refused(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["credit", "--scheme", "grpo", *options]) == 2
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
