"""Our trainer beside TRL's: the same start, alternately, each run in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.peer.clock import GENERATION, REST, UPDATE
from benchmarks.peer.work import WARM_UP, WORKS, Work

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.statistics import t_quantile
from creditflow.train.text_table import text_table

__all__ = ["compare", "run_part", "table"]

SIDES: Final = ("creditflow", "trl")
PARTS: Final = (GENERATION, REST, UPDATE)


def run_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """One part in this process: the start, or one run of a side."""
    work, start = Work(**part["work"]), Path(part["start"])
    if part["side"] == "start":
        from benchmarks.peer.start import make_start

        return make_start(work, start)
    from benchmarks.peer.limit import matrix_limit

    with tempfile.TemporaryDirectory(prefix="peer.") as scratch:
        if part["side"] == "creditflow":
            from benchmarks.peer.ours import run_ours

            clock, counts = run_ours(work, start, Path(scratch))
        else:
            from benchmarks.peer.with_trl import run_trl

            clock, counts = run_trl(work, start, Path(scratch))
    return {
        "cpu": clock.cpu[WARM_UP:], "wall": clock.wall[WARM_UP:], "counts": counts[WARM_UP:],
        "parts": {name: seconds[WARM_UP:] for name, seconds in clock.parts.items()}, "limit": matrix_limit(work),
    }  # fmt: skip


def _in_process(side: str, work: Work, start: Path) -> dict[str, Any]:
    """A part in a process of its own, on one thread."""
    part = json.dumps({"side": side, "work": work.to_json(), "start": str(start)})
    script = Path(__file__).resolve().parent.parent / "bench_trainer.py"
    done = subprocess.run(
        [sys.executable, str(script), "--part", part],
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{side} failed:\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(names: Sequence[str], repeats: int, out: Path, command: str) -> dict[str, Any]:
    """All rows; ``out`` is written after every pair of runs, and a comparison that it holds is continued.

    Args:
        names: names of ``WORKS``.
        repeats: pairs of runs of a row; the order alternates.
        out: JSON file of the results. The models to start from are kept beside it.
        command: for the provenance.
    """
    document: dict[str, Any] = read_json(out) if out.exists() else {"rows": {}}
    about, versions = (
        provenance([], 0),
        {name: version(name) for name in ("trl", "transformers", "torch", "accelerate")},
    )
    document |= {
        "what": "creditflow's trainer beside TRL's GRPOTrainer with environment_factory: the same model, episodes and update",
        "provenance": about | {"command": command},
        "versions": versions,
    }
    for name in names:
        work = WORKS[name]
        new = {"work": work.to_json(), "versions": versions, "commits": [], "runs": {side: [] for side in SIDES}}
        row = document["rows"].setdefault(name, new)
        if row["work"] != work.to_json() or row.get("versions", versions) != versions:
            raise ValueError(f"{out} holds {name!r} with other sizes or versions: give another file")
        start = out.parent / f"{out.stem}.starts" / name.replace(" ", "_")
        if "start" not in row or not start.exists():
            shutil.rmtree(start, ignore_errors=True)
            row["start"] = _in_process("start", work, start)
        for repeat in range(len(row["runs"][SIDES[0]]), repeats):
            pair = {side: _in_process(side, work, start) for side in (SIDES if repeat % 2 == 0 else SIDES[::-1])}
            for side, run in pair.items():
                row["runs"][side].append(run)
            row.setdefault("commits", []).append(about["commit"])
            row |= summary(work, row["start"], row["runs"])
            with atomic_writer(out) as stream:
                stream.write(json.dumps(document, indent=1) + "\n")
    print(table(document["rows"]), flush=True)
    return document


def summary(work: Work, about: Mapping[str, Any], runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The ratio with its interval, and by side the rates, the fraction of the limit and the fractions of time.

    Pairs of iterations in which a group of ours has equal returns are left out: our trainer skips its rows, TRL computes them.
    """
    limit = float(np.median([run["limit"] for side in runs.values() for run in side]))
    whole = [
        (repeat, i)
        for repeat, run in enumerate(runs[SIDES[0]])
        for i, count in enumerate(run["counts"])
        if not count["without_signal"]
    ]
    if not whole:
        raise ValueError("every iteration had a group without signal")
    cpu = {side: np.array([found[repeat]["cpu"][i] for repeat, i in whole]) for side, found in runs.items()}
    sides = {}
    for side, found in runs.items():
        seconds, counts = float(np.median(cpu[side])), [found[repeat]["counts"][i] for repeat, i in whole]
        sides[side] = {
            "cpu_seconds": seconds,
            "wall_seconds": float(np.median([found[repeat]["wall"][i] for repeat, i in whole])),
            "episodes_per_second": work.episodes / seconds,
            "trained_tokens_per_second": float(np.mean([count["tokens"] for count in counts])) / seconds,
            "limit_fraction": work.operations(about["vocabulary"]) / seconds / limit,
            "parts": {
                part: float(np.median([found[repeat]["parts"][part][i] for repeat, i in whole])) / seconds
                for part in found[0]["parts"]
            },
            "tokens": [float(np.mean([count[key] for count in counts])) for key in ("tokens", "sampled")],
        }
    logs = np.log(cpu[SIDES[1]] / cpu[SIDES[0]])
    found_ratio: dict[str, Any] = {"ratio": float(np.exp(logs.mean())), "interval": None, "pairs": len(logs)}
    if len(logs) > 1:
        error = t_quantile(len(logs) - 1) * float(logs.std(ddof=1)) / len(logs) ** 0.5
        found_ratio["interval"] = [float(np.exp(logs.mean() - error)), float(np.exp(logs.mean() + error))]
    return {"limit_gflops": limit / 1e9, "sides": sides, **found_ratio}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The rows as text."""
    lines = [
        ["model, turns", "trainer", "CPU s", "episodes/s", "tokens/s", "of the limit", *PARTS, "ratio"]
    ]  # fmt: skip
    for name, row in rows.items():
        for side, one in row.get("sides", {}).items():  # none before the first pair
            low_high = "" if row["interval"] is None else " [{:.2f}, {:.2f}]".format(*row["interval"])
            parts = [f"{one['parts'].get(part, 0.0):.0%}" for part in PARTS]
            lines.append(
                [name, side, f"{one['cpu_seconds']:.2f}", f"{one['episodes_per_second']:.2f}",
                 f"{one['trained_tokens_per_second']:,.0f}", f"{one['limit_fraction']:.0%}", *parts,
                 f"{row['ratio']:.2f}{low_high}" if side == SIDES[0] else ""]
            )  # fmt: skip
    return text_table(lines)
