"""Tables fit a terminal, and lose no word for it; files and pipes get whole lines."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from helpers.shared_data import ROOT
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.text_table import text_table

PROGRAM = "import sys; from creditflow.train.cli import main; sys.exit(main(sys.argv[1:]))"
WORDS = st.lists(st.text("abc.-", min_size=1, max_size=12), min_size=1, max_size=20).map(" ".join)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(WORDS, min_size=n, max_size=n), min_size=1, max_size=5)))
def test_a_table_is_as_wide_as_it_may_be_and_keeps_every_word(rows: list[list[str]]) -> None:
    wide, narrow = text_table(rows), text_table(rows, width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert sorted(narrow.replace("-", "").split()) == sorted(wide.replace("-", "").split())
    if max(map(len, wide.splitlines())) <= 80:
        assert narrow == wide


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [["schemes"], ["schemes", "gigpo"], ["demo"]])
def test_tables_of_commands_fit_the_terminal(command: list[str], columns: int) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ):
        os.close(theirs)
        printed = b""
        while True:
            try:
                printed += os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    lines = printed.decode().splitlines()
    rules = [line for line in lines if set(line.strip()) == {"-", " "}]
    assert rules and all(len(line) <= columns for line in rules)
