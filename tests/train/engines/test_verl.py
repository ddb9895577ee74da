"""How ``train --engine verl`` runs verl's programs, without verl: output, exit codes, reasons, and the end by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from creditflow.train.engines import verl as engine

OUTER = """
import os, sys
from pathlib import Path
from creditflow.train.engines.verl import _piped
_piped([sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"], dict(os.environ), Path(sys.argv[1]))
"""


def test_output_is_passed_on_and_logged_and_the_exit_code_is_the_programs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = engine._piped([sys.executable, "-c", "print('a'); raise SystemExit(3)"], dict(os.environ), tmp_path / "log")
    assert code == 3
    assert capfd.readouterr().out == "a\n"
    assert (tmp_path / "log").read_text(encoding="utf-8") == "a\n"


def test_what_a_run_started_ends_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OUTER, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        inner = int(run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=60) == 128 + signal.SIGTERM
    assert not alive(inner)


def alive(process: int) -> bool:
    """Whether a process exists, after a moment in which it may end."""
    for _ in range(50):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


def test_a_failure_is_the_first_failed_episodes_own_reason(tmp_path: Path) -> None:
    log, failures = tmp_path / "log-1.txt", tmp_path / "failures"
    log.write_text("RuntimeError: no materializable trajectories\n", encoding="utf-8")
    assert "RuntimeError: no materializable trajectories" in engine._reason(tmp_path, log, 1)
    failures.mkdir()
    for number, text in enumerate(("DataError: no task 7", "DataError: later")):
        report = failures / f"{9 - number}.txt"
        report.write_text(f"{text}\n\nTraceback …", encoding="utf-8")
        os.utime(report, ns=(number, number))
    assert "because an episode failed: DataError: no task 7\n" in engine._reason(tmp_path, log, 1)
