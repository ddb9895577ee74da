"""Progress is a bar on a terminal and lines elsewhere; a note is printed above the bar."""

from __future__ import annotations

import io

import pytest

from creditflow.train.progress import duration_text, note, progress
from creditflow.train.text_table import text_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_note_stands_on_a_line_of_its_own_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    for item in progress(range(3), "rollout", 3):
        if item == 1:
            note("a worker was lost")
    lines = [line.rpartition("\r")[2] for line in screen.getvalue().split("\n")]
    assert "a worker was lost" in lines
    assert "rollout" in screen.getvalue()


def test_without_a_terminal_a_note_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress("abc", "rollout", 3)) == ["a", "b", "c"]
    note("a worker was lost")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "a worker was lost\n")


def test_without_a_terminal_a_line_comes_at_most_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter(range(0, 600, 4))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    list(progress(range(6), "merge", 6))
    assert capsys.readouterr().err.splitlines() == ["merge: 3/6 after 12 s, about 12 s left"]


def test_stored_results_that_come_at_once_do_not_shorten_the_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 0.001, 0.002, 0.003, 12.0, 24.0])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    list(progress(range(5), "exact", 5))
    assert capsys.readouterr().err.splitlines() == ["exact: 4/5 after 12 s, about 12 s left"]


def test_results_that_come_in_batches_count_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 10.0, 10.001, 10.002, 20.0, 20.001, 20.002, 20.003])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    list(progress(range(7), "turns", 7))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["turns: 1/7 after 10 s, about 60 s left", "turns: 4/7 after 20 s, about 15 s left"]


def test_durations_are_no_finer_than_an_estimate() -> None:
    shown = [duration_text(x) for x in (0, 119.4, 120, 7199, 7200, 35_990, 36_000)]
    assert shown == ["0 s", "119 s", "2 min", "2 h 0 min", "2 h 0 min", "10 h", "10 h"]


def test_columns_are_as_wide_as_their_widest_cell_and_a_rule_may_stand_between_rows() -> None:
    assert text_table([["name", "n"], ["a", "10"], ["bcdef", "2"]], 1).splitlines() == [
        "name   n", "-----  --", "a      10", "-----  --", "bcdef  2",
    ]  # fmt: skip
