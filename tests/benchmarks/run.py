"""Run every benchmark in a process of its own, and print one table of all ratios. ``make bench`` starts it.

    python tests/benchmarks/run.py [--toy] [--only bench_credit …] [--out runs/bench]

A script that needs torch, TextWorld's engine or Lucene runs in the environment of that tier if ``.ci/venv`` has made it,
otherwise here, where it says what it leaves out. ``ratios.md`` in the output folder has the table, and ``SCRIPT.log`` all that a
script printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import LEFT_OUT, RATIO, SPEED, fields_of, parser_of

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.document import provenance

ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPTS: Final = sorted(Path(__file__).parent.glob("bench_*.py"))
TIERS: Final = {  # what a script needs beside the extra dev
    "bench_alfworld": "alfworld",
    "bench_retrieval": "lucene",
    "bench_language_model": "train",
}


def interpreter(script: Path) -> str:
    """The interpreter of the tier that a script needs, or this one."""
    python = ROOT / f".venv-{TIERS.get(script.stem)}" / "bin" / "python"
    return str(python) if python.exists() else sys.executable


def run_script(script: Path, log: Path, *, toy: bool) -> tuple[int, list[list[str]]]:
    """Run a script, print and keep what it prints; returns its exit status and the fields of what it measured and left out."""
    command = [interpreter(script), str(script), *(["--toy"] if toy else [])]
    lines = []
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            kept.write(line)
            if fields := fields_of(line):
                lines.append(fields)
    return process.returncode, lines


def table(lines: dict[str, list[list[str]]], about: str) -> str:
    """The page of all ratios and speeds, and of what was left out."""
    rows = [(script, *fields) for script, found in lines.items() for fields in found]
    parts = [
        "# Speed\n",
        f"Written by `make bench` (`runs/bench/ratios.md`). {about}.\n",
        "| script | this package | compared with | times as fast |\n| --- | --- | --- | ---: |",
        *(f"| {script} | {rest[1]} | {rest[2]} | {rest[0]} |" for script, kind, *rest in rows if kind == RATIO),
        "\n| script | what | per second |\n| --- | --- | ---: |",
        *(f"| {script} | {rest[1]} | {float(rest[0]):,.0f} |" for script, kind, *rest in rows if kind == SPEED),
    ]
    missing = [f"- {script}: {rest[0]}: {rest[1]}" for script, kind, *rest in rows if kind == LEFT_OUT]
    return "\n".join([*parts, *(["\nLeft out:\n", *missing] if missing else []), ""])


def main() -> int:
    """Run the benchmarks; returns 1 if one failed."""
    parser = parser_of(__doc__)
    names = [script.stem for script in SCRIPTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="scripts to run (default all)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "bench", help="folder (default runs/bench)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    facts, load = provenance([], 0), os.getloadavg()[0]
    lines: dict[str, list[list[str]]] = {}
    failed = []
    for script in SCRIPTS:
        if script.stem not in args.only:
            continue
        print(f"== {script.relative_to(ROOT)}", flush=True)
        began = time.monotonic()
        status, lines[script.stem] = run_script(script, args.out / f"{script.stem}.log", toy=args.toy)
        print(f"   {time.monotonic() - began:.0f} s", flush=True)
        if status:
            failed.append(script.stem)
    about = (
        f"Commit {facts['commit']}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load average {load:.1f} at the start"
        + (", toy size: the numbers mean nothing" if args.toy else "")
    )
    page = table(lines, about)
    with atomic_writer(args.out / "ratios.md", encoding="utf-8") as out:
        out.write(page)
    print(f"\n{page}\n{args.out / 'ratios.md'} has this table.")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
