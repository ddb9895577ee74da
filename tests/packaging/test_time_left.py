"""``make test`` says how many tests are done and how long is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.shared_data import ROOT
from helpers.time_left import EVERY, TimeLeft

TESTS = "import pytest\n@pytest.mark.parametrize('i', range(6))\ndef test_it(i): assert i >= 0\n"


class Terminal:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, text: str) -> None:
        self.lines.append(text)


def test_a_line_comes_at_most_every_twenty_seconds_and_not_at_the_end(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    seconds = iter([i * EVERY * 0.6 for i in range(20)])
    monkeypatch.setattr("helpers.time_left.time.monotonic", lambda: next(seconds))
    terminal = Terminal()
    monkeypatch.setattr(request.config.pluginmanager, "get_plugin", lambda name: terminal)
    monkeypatch.setattr(request.session, "testscollected", 4)
    plugin = TimeLeft(request.config)
    plugin.pytest_sessionstart(request.session)
    for _ in range(4):
        plugin.pytest_runtest_logreport(
            pytest.TestReport("t", ("t", 0, "t"), {}, "passed", None, "teardown", duration=0.0)
        )
    assert terminal.lines == ["\n2 of 4 tests after 24 s, about 24 s left"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_option_works_with_and_without_workers(tmp_path: Path, workers: str) -> None:
    pytest.importorskip("xdist", reason="the 'dev' extra runs tests on workers")
    (tmp_path / "test_few.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(
        "import helpers.time_left\nhelpers.time_left.EVERY = -1.0\nfrom helpers.time_left import TimeLeft\n"
        "def pytest_configure(config):\n"
        "    if not hasattr(config, 'workerinput'): config.pluginmanager.register(TimeLeft(config))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", "/dev/null", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 6 tests after" in done.stdout
    assert "6 of 6 tests" not in done.stdout
