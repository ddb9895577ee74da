"""Run the blocks of a page of the site as a reader would: in order, in one empty folder."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from builder.markdown import blocks_of

__all__ = ["console_steps", "run_page"]

LIMIT = 300  # seconds for a block
PROMPT = "$ "


def console_steps(code: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a block that shows a terminal.

    Raises:
        AssertionError: the block begins with output.
    """
    steps: list[tuple[str, str]] = []
    for line in code.splitlines(keepends=True):
        if line.startswith(PROMPT):
            steps.append((line.removeprefix(PROMPT).rstrip("\n"), ""))
        else:
            assert steps, f"a console block begins with a command behind {PROMPT!r}: {code}"
            steps[-1] = steps[-1][0], steps[-1][1] + line
    return steps


def run_page(text: str, folder: Path, tier: str = "") -> int:
    """Run the blocks of a page that belong to a tier, and return their number.

    A block with ``file=NAME`` is written to that file. ``sh`` must succeed, ``console`` must print what it shows (… stands for
    anything), ``python`` runs as a script, and ``pycon`` is one session from block to block.

    Args:
        text: the page.
        folder: working folder of all blocks.
        tier: run the blocks marked ``run=TIER``; "" runs those without such a mark.

    Raises:
        AssertionError: a block fails, or prints something else.
    """
    count, session = 0, doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    names: dict[str, object] = {}
    for language, mark, code in blocks_of(text):
        name, block_tier = marked(mark, "file"), marked(mark, "run")
        runs = language in ("sh", "console", "python", "pycon") and not mark.startswith("not-run")
        if block_tier != tier or not (runs or name):
            continue
        count += 1
        if name:
            (folder / name).write_text(code, encoding="utf-8")
        elif language == "sh":
            run(["bash", "-euo", "pipefail", "-c", code], folder)
        elif language == "console":
            for command, wanted in console_steps(code):
                same(run(["bash", "-euo", "pipefail", "-c", f"{command} 2>&1"], folder), wanted, command)
        elif language == "python":
            (folder / "block.py").write_text(code, encoding="utf-8")
            run([sys.executable, "block.py"], folder)
        else:
            test = doctest.DocTestParser().get_doctest(code, names, "page", None, 0)
            found: list[str] = []
            before = Path.cwd()
            os.chdir(folder)
            try:
                failed = session.run(test, out=found.append, clear_globs=False).failed
            finally:
                os.chdir(before)
            names = test.globs
            assert failed == 0, "".join(found)
    return count


def marked(mark: str, key: str) -> str:
    """The value of ``key=value`` in the first line of a block, "" if there is none."""
    match = re.search(rf"\b{key}=(\S+)", mark)
    return match[1] if match else ""


def run(command: Iterable[str], folder: Path) -> str:
    """What a command prints; it must succeed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        list(command), cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False,
        env={**os.environ, "PATH": path, "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout


def same(printed: str, wanted: str, command: str) -> None:
    """Compare what was printed with what a page shows."""
    pattern = ".*?".join(re.escape(part) for part in wanted.strip().split("…"))
    assert re.fullmatch(pattern, printed.strip(), re.S), f"{command} printed\n{printed}\nthe page shows\n{wanted}"
