"""Ctrl-C while the command still imports: exit code 130 and one line, as later; a program that imports the library gets the interrupt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

# the script that pip writes, after a finder that interrupts the process when a module is looked for
SCRIPT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from creditflow.train.cli import main
sys.exit(main())
"""
MODULES = ["numpy", "gymnasium", "creditflow.envs.registration", "creditflow.train.commands.schemes"]


def interrupted(folder: Path, name: str, module: str) -> subprocess.CompletedProcess[str]:
    script = folder / name
    script.write_text(SCRIPT.format(module=module), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, str(script), "schemes"],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_an_interrupted_start_leaves_a_line_and_no_traceback(module: str, tmp_path: Path) -> None:
    done = interrupted(tmp_path, "creditflow", module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


def test_a_program_that_imports_the_library_gets_the_interrupt(tmp_path: Path) -> None:
    done = interrupted(tmp_path, "program", "gymnasium")
    assert done.stderr.endswith("KeyboardInterrupt\n")
