"""Programs run in fresh interpreters, for what must not depend on the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable


def output_of(code: str, lines: Iterable[str]) -> str:
    """The output of a program that reads these lines; its argument is the folder of the tests."""
    done = subprocess.run(
        [sys.executable, "-c", code, "tests"], input="\n".join(lines), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


def outputs_of(code: str, arguments: Iterable[Iterable[str]]) -> set[str]:
    """The different outputs of a program, run once for each list of arguments, each time with another hash seed."""
    found = set()
    for seed, words in enumerate(arguments):
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, env=env, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2_000:]
        found.add(done.stdout)
    return found
