"""The keys of ``creditflow play``: arrows move, and what is no action costs no turn."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time

import pytest

from creditflow.train.cli import main

LEVEL = "levels=levels.txt"
CORRIDOR = "#######\n#@  $.#\n#######\n"  # solved by three moves to the right


@pytest.fixture(autouse=True)
def level(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "levels.txt").write_text(CORRIDOR)


@pytest.mark.parametrize("right", ["right", "\x1b[C", "\x1bOC"])
def test_arrows_are_moves(right, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{right}\n" * 3))
    assert main(["play", "sokoban", "--env-set", LEVEL]) == 0
    assert "ended after 3 steps: success" in capsys.readouterr().out


@pytest.mark.parametrize("env", ["sokoban", "webshop"])
@pytest.mark.parametrize("key", ["", "  ", "\x1b[H", "\x1b[3~", "\x1b", "\t", "\x7f"])
def test_a_key_that_is_no_action_costs_no_turn(key, env, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{key}\nquit\n"))
    assert main(["play", env]) == 0
    shown = capsys.readouterr().out
    assert "that is no action" in shown
    assert "1/" not in shown.split("no action")[1]


def test_arrows_without_such_moves_cost_no_turn(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("\x1b[A\nquit\n"))
    assert main(["play", "webshop"]) == 0
    assert "that is no action" in capsys.readouterr().out


def test_in_a_terminal_an_arrow_moves_at_once_and_words_can_be_typed():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "import sys; from creditflow.train.cli import main; sys.exit(main(sys.argv[1:]))"]
    process = subprocess.Popen(
        [*command, "play", "sokoban", "--env-set", LEVEL], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        shown = until(ours, "0/")
        for keys, answer in (
            (b"\x1b[C", "1/"), (b"\x1b[H", "no action"), (b"right\n", "2/"), (b"\x1b[C", "ended after 3 steps: success"),
        ):  # fmt: skip
            os.write(ours, keys)
            shown += until(ours, answer)
        assert process.wait(60) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(terminal: int, text: str) -> str:
    """What a terminal shows until it shows this text."""
    shown, end = "", time.monotonic() + 60
    while text not in shown:
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return shown
