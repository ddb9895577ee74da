"""One rule for all commands that write: an output is never an input, and existing data is replaced only with --force or --resume."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.command_parsers import PARSERS, main, outputs
from helpers.shared_data import ROOT

from creditflow.train import cli
from creditflow.train.commands import rollout
from creditflow.train.rollout.workers.pool import run_in_order

# options that take a text and name neither an input nor an output; those that hold a path inside are looked through
PLAIN = {
    "--agent", "--build", "--cache", "--device", "--done", "--engine", "--env", "--env-set", "--envs", "--group", "--id", "--invalid-actions",
    "--judge", "--limit", "--memory", "--messages", "--only", "--panel", "--reward", "--scheme", "--schemes",
    "--chat", "--dialect", "--dtype", "--prompt", "--semantics", "--sha256", "--set", "--state-key", "--success", "--task", "--why", "--with", "name",
}  # fmt: skip
# of a server that only reads, and of a check
READ = {("data check", "--against")}
# where `train` writes is a setting: it claims its folder itself (tests/extras/train/run/test_resume.py); `new` claims single files,
# which may stand among others (tests/train/commands/plugins/test_new.py)
ELSEWHERE = {("train", "--resume"), ("new", "--out")}

# for every output of every command, arguments that name the input IN as one
ARGUMENTS: dict[tuple[str, str], list[str]] = {
    ("annotate", "--out"): ["annotate", "--with", "oracle", "--env", "sokoban", "IN"],
    ("audit", "--out"): ["audit", "IN"],
    ("bench", "--out"): ["bench", "--show", "IN"],
    ("credit", "--out"): ["credit", "--scheme", "grpo", "IN"],
    ("data build wiki", "--out"): ["data", "build", "wiki", "--articles", "200"],
    ("data check", "--out"): ["data", "check", "alfworld", "IN"],
    ("data import", "--out"): ["data", "import", "messages", "IN"],
    ("data label", "--out"): ["data", "label", "IN", "--judge", "http://127.0.0.1:9#m"],
    ("data label", "--audit"): ["data", "label", "IN", "--judge", "http://127.0.0.1:9#m", "--out", "elsewhere.jsonl"],
    ("data label", "--cache"): ["data", "label", "IN", "--judge", "http://127.0.0.1:9#m", "--out", "elsewhere.jsonl"],
    ("demo", "--out"): ["demo"],
    ("eval", "--out"): ["eval", "--agent", "react:hf:IN", "--panel", "small-v1:valid"],
    ("model export", "--out"): ["model", "export", "IN"],
    ("model import", "--out"): ["model", "import", "IN"],
    ("rollout", "--out"): ["rollout", "--env-set", "levels=IN"],
    ("serve search", "--index"): ["serve", "search", "--corpus", "IN", "--build-only"],
    ("score", "--out"): ["score", "IN"],
    ("view", "--out"): ["view", "IN"],
    ("view", "--gif"): ["view", "IN"],
    ("view", "--png"): ["view", "IN"],
    ("data build verl", "--out"): ["data", "build", "verl", "--env", "sokoban", "--env-set", "levels=IN"],
    ("gpu.run", "--out"): ["gpu.run", "--dry-run", "--set", "env.options.levels=IN"],
}


def test_programs_outside_the_command_print_only() -> None:
    package = Path(cli.__file__).parent
    called = {
        ".".join(("creditflow.train", *path.relative_to(package).with_suffix("").parts)): path.read_text(
            encoding="utf-8"
        )
        for path in package.rglob("*.py")
        if path.stem not in ("__main__", "cli")
    }
    called = {name: text for name, text in called.items() if "__main__" in text}
    for name, text in called.items():
        assert not re.search(r"--out\b|atomic|\.write|\bopen\(|mkdir", text), f"{name}: it writes, so make it a command"


def test_every_option_that_takes_a_text_declares_whether_it_is_read_or_written() -> None:
    for name, parser in PARSERS.items():
        declared = {
            *(parser.get_default("input_names") or ()),
            *(d for d, _, _ in parser.get_default("output_names") or ()),
        }
        for action in parser._actions:
            flag = action.option_strings[-1] if action.option_strings else action.dest
            takes_text = action.nargs != 0 and action.type is None and not action.choices
            known = flag in PLAIN or (name, flag) in READ | ELSEWHERE
            assert not takes_text or action.dest in declared or known, (
                f"creditflow {name} {flag}: declare it with add_input or add_output, or list it here as no path"
            )


def test_every_output_is_tested_below_and_defines_force() -> None:
    found = {(name, flag) for name, parser in PARSERS.items() for flag in outputs(parser)}
    assert found == ARGUMENTS.keys()
    assert all("--force" in parser._option_string_actions for _, parser in PARSERS.items() if outputs(parser))


def aliases(path: Path) -> dict[str, str]:
    """Other names of a file."""
    link, hard, folder = path.with_name("link"), path.with_name("hard"), path.parent / "linked"
    link.symlink_to(path)
    os.link(path, hard)
    folder.symlink_to(path.parent)
    relative = os.path.relpath(path)
    return {
        "itself": str(path), "relative": f"./{relative}", "around": f"{path.parent}/../{path.parent.name}/{path.name}",
        "symbolic link": str(link), "hard link": str(hard), "linked folder": str(folder / path.name),
    }  # fmt: skip


@pytest.mark.parametrize(("command", "flag"), [key for key, arguments in ARGUMENTS.items() if "IN" in str(arguments)])
def test_no_command_writes_over_its_input(
    command: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "inputs" / "in.jsonl"
    source.parent.mkdir()
    source.write_text("the input\n")
    parser = PARSERS[command]
    folder = outputs(parser)[flag].kind == "folder"
    given = [argument.replace("IN", str(source)) for argument in ARGUMENTS[command, flag]]
    ways = [["--force"], []] + ([["--resume"]] if "--resume" in parser._option_string_actions else [])
    for alias, path in aliases(source).items():
        target = path.rpartition("/")[0] if folder else path
        if folder and "link" in alias and alias != "linked folder":
            continue  # the folder of the link is the folder of the input
        for more in ways:
            assert main([*given, flag, target, *more]) == 2, f"{alias}, {more}"
            message = capsys.readouterr().err
            assert str(source) in message, f"{alias}: {message}"
            assert str(Path(target)) in message, f"{alias}: {message}"
        assert source.read_text() == "the input\n", alias
    assert sorted(path.name for path in source.parent.iterdir()) == ["hard", "in.jsonl", "link", "linked"]


@pytest.mark.parametrize(("command", "flag"), list(ARGUMENTS))
def test_existing_outputs_are_replaced_only_with_force(
    command: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text("the input\n")
    output = outputs(PARSERS[command])[flag]
    if output.appended:
        return
    given = ARGUMENTS[command, flag]
    target = tmp_path / "there"
    held = target
    if output.kind == "folder":
        target.mkdir()
        held = target / "mine.txt"
    held.write_text("precious\n")
    arguments = [*(argument.replace("IN", "in.jsonl") for argument in given), flag, "there"]
    assert main(arguments) == 2
    assert "there already exists; use --force to replace it" in capsys.readouterr().err
    if output.owned and output.kind == "folder":  # a folder with other files is not emptied
        assert main([*arguments, "--force"]) == 2
        assert "'mine.txt', which this command did not write" in capsys.readouterr().err
    assert held.read_text() == "precious\n"
    assert not list(tmp_path.glob("*.lock"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    assert main(["rollout", "--panel", "small-v1:valid", "--limit", "2", "--group-size", "2", "--out", str(path)]) == 0
    return path


def test_force_replaces_the_output_and_gives_the_result_of_a_first_run(log: Path) -> None:
    out = log.with_name("credit.jsonl")
    command = ["credit", "--scheme", "grpo", str(log), "--out", str(out)]
    assert main(command) == 0
    first = out.read_bytes()
    out.write_text("something else")
    assert main(command) == 2
    assert main([*command, "--force"]) == 0
    assert out.read_bytes() == first


def test_two_outputs_are_two_files(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(log.with_name("x.jsonl"))
    assert main(["data", "label", str(log), "--judge", "http://127.0.0.1:9#m", "--cache", out, "--out", out]) == 2
    assert "are the same; choose two" in capsys.readouterr().err


def test_a_partial_log_does_not_overwrite_an_input(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = log.rename(log.with_name("x.jsonl.partial"))
    out = str(log.with_name("x.jsonl"))
    for way in ("--force", "--resume"):
        assert main(["annotate", "--with", "oracle", "--env", "sokoban", str(left), "--out", out, way]) == 2
        assert "x.jsonl.partial is the input" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/dev/null", "folder"])
def test_only_regular_files_are_replaced(name: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log.parent / "folder").mkdir()
    assert main(["audit", str(log), "--out", str(log.parent / name), "--force"]) == 2
    assert "expected a file" in capsys.readouterr().err


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process writes there."""
    code = (
        "import sys\nfrom creditflow.envs.files.atomic import locked\n"
        "with locked(sys.argv[1]):\n    print('ready', flush=True); sys.stdin.read()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            yield
        finally:
            other.kill()


@pytest.mark.parametrize(("command", "flag"), [key for key in ARGUMENTS if key != ("data label", "--cache")])
def test_the_second_of_two_commands_on_one_output_is_rejected(
    command: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text("the input\n")
    given = ARGUMENTS[command, flag]
    arguments = [argument.replace("IN", "in.jsonl") for argument in given]
    with held(tmp_path / "out"):
        assert main([*arguments, flag, "out"]) == 2
        assert "is writing there" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [".", "", "b" * 240 + ".jsonl", "é" * 120 + ".jsonl", "a/" + "b" * 221])
def test_a_name_that_no_output_can_have_is_rejected_before_anything_is_played(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    play = ["rollout", "--env", "sokoban", "--panel", "easy-v1:train", "--agent", "random", "--limit", "1"]
    try:
        assert main([*play, "--out", name]) == 2
    except SystemExit as error:  # of the parser
        assert error.code == 2
    assert "--out" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_log_written_through_a_link_goes_where_the_link_points_and_keeps_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path)
    out = Path("disk/log.jsonl")
    out.write_text("old\n")
    out.chmod(0o600)
    Path("link.jsonl").symlink_to(out)
    play = ["rollout", "--env", "sokoban", "--panel", "easy-v1:train", "--agent", "random", "--limit", "1"]
    assert main([*play, "--out", "link.jsonl", "--force"]) == 0
    assert Path("link.jsonl").is_symlink()
    assert out.read_text().startswith('{"format_version"')
    assert out.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in out.parent.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_character_that_the_terminal_lacks_is_shown_as_an_escape(encoding: str) -> None:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1", "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0",
    }  # fmt: skip
    shown = subprocess.run(
        [sys.executable, "-m", "creditflow.train", "schemes", "grouptd"],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"\\u" in shown.stdout


def test_no_more_processes_than_tasks_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def counted(play: Callable[[str], str], items: Sequence[str], workers: int) -> Generator[str, None, None]:
        started.append(workers)
        return run_in_order(play, items, workers)

    monkeypatch.setattr(rollout, "run_in_order", counted)
    play = ["rollout", "--env", "sokoban", "--panel", "easy-v1:train", "--agent", "random", "--limit", "1"]
    assert main([*play, "--workers", "8", "--out", str(tmp_path / "log.jsonl")]) == 0
    assert started == [1]


@pytest.mark.parametrize("command", ["rollout", "bench"])
def test_an_absurd_number_of_processes_is_rejected(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([command, "--workers", "99999", "--out", "x"])
    assert "from 1 to 256" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/", "loop.jsonl"])
def test_a_name_that_names_nothing_is_refused_before_anything_is_played(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop.jsonl").symlink_to("loop.jsonl")
    play = ["rollout", "--env", "sokoban", "--panel", "easy-v1:train", "--agent", "random", "--limit", "1"]
    assert main([*play, "--out", name, "--force"]) == 2
    assert "the name of a file or folder expected" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["loop.jsonl"]
