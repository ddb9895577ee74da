"""Kill or interrupt commands at many moments, and check what they leave."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.shared_data import ROOT


class Killer:
    """The process that all commands are forked from; it has imported everything once."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("killed_command.py")
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def kill(self, folder: Path, sent: int, moments: int, first: list[str], again: list[str]) -> tuple[Any, list[Any]]:
        """What an undisturbed run leaves, and what runs leave that get a signal at so many moments."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps([str(folder), sent, moments, first, [*first, *again]]), file=stdin, flush=True)
        assert select.select([stdout], [], [], 300.0)[0], "no answer within five minutes"
        whole, *rounds = json.loads(stdout.readline())
        assert whole["status"] == 0, whole["errors"]
        return whole, rounds


@contextmanager
def running_killer() -> Iterator[Killer]:
    """A process that commands are forked from; it ends with the context."""
    killer = Killer()
    try:
        yield killer
    finally:
        killer.process.kill()
        killer.process.communicate()


def require_killed(killer: Killer, folder: Path, first: list[str], again: list[str], *, at_once: bool) -> None:
    """Kill a command at six changes of its files and later moments: nothing torn is left, and it can be run again."""
    whole, rounds = killer.kill(folder, signal.SIGKILL, 6, first, again)
    assert whole["changes"] > 3
    assert sum(os.WIFSIGNALED(r["status"]) and os.WTERMSIG(r["status"]) == signal.SIGKILL for r in rounds) >= 3
    require_whole(whole, rounds, at_once=at_once)


def require_interrupted(killer: Killer, folder: Path, first: list[str], again: list[str], *, at_once: bool) -> None:
    """Interrupt a command in the same way: it also ends with exit code 130 and one word, and leaves no process."""
    whole, rounds = killer.kill(folder, signal.SIGINT, 4, first, again)
    assert [os.waitstatus_to_exitcode(one["status"]) for one in rounds].count(130) >= 3
    for one in rounds:
        where = f"interrupted at {one['at']} ({one['delay']:.3f} s): {one['errors']}"
        code = os.waitstatus_to_exitcode(one["status"])
        assert code == 130 or (code in (0, -signal.SIGINT) and one["delay"] >= 0.0), where  # before or after its work
        assert code != 130 or one["errors"].endswith("\ninterrupted\n"), where
        assert "Traceback" not in one["errors"], where
        assert one["alone"], f"{where}: a process is left"
    require_whole(whole, rounds, at_once=at_once)


def require_whole(whole: Any, rounds: list[Any], *, at_once: bool) -> None:
    """Check that what the rounds left is part of the whole, and what they left after the second run the whole.

    Args:
        whole: of an undisturbed run.
        rounds: of runs that were stopped.
        at_once: the output appears at once: all of it, or nothing.
    """
    for one in rounds:
        where = f"stopped at {one['at']} ({one['delay']:.3f} s)"
        shown = {path: digest for path, digest in one["left"].items() if path in whole["whole"]}
        assert shown.items() <= whole["whole"].items(), f"{where}: {sorted(shown)}"
        if at_once:
            assert shown in ({}, whole["whole"]), f"{where}: only {sorted(shown)}"
        assert one["again"] == 0, f"{where}: {one['left'].keys()}: {one['errors_again'][-2000:]}"
        assert one["after"] == whole["whole"], where
