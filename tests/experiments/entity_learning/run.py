"""Small language models learn to search with entity credit: every arm of every seed, in parts that a killed run goes on from.

    python tests/experiments/entity_learning/run.py --out tests/evidence/entity_learning [--seeds 1 2 3 4 5]

A model of 0.2 million weights imitates a faulty demonstrator, per seed on demonstrations of its own (``warm_up.py``); then each arm
(``arms.py``) learns from these weights with as many updates and rollouts. Parts lie in ``WORK/parts``; at the end, and with ``--summary-only``, they
become ``OUT/results.json.gz``, ``tables.txt`` and ``probe.txt``. Needs torch; one thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.entity_learning import probe
from experiments.entity_learning.arms import CONTROLS, RIVALS, SCHEMES, learn, rival
from experiments.entity_learning.schemes import register_schemes
from experiments.entity_learning.summary import tables
from experiments.entity_learning.warm_up import BASE_SEED, SETTINGS, pretrain, settings_of, warm_up
from experiments.entity_learning.world import write_world

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.atomic import atomic_writer


def run_seed(seed: int, arms: Sequence[str], args: argparse.Namespace, parts: Path, names: list[str]) -> None:
    """The base, the warm-up and those arms of a seed that have no part yet."""
    work, world = args.work, args.work / "world"
    settings, base = settings_of(world, seed, args.set), work / "base"
    if not (base / "numbers.json").exists():
        _write(base / "numbers.json", pretrain(settings_of(world, BASE_SEED, args.set), world, base))
    start = work / f"warm-up-{seed}"
    if not (note := start / "numbers.json").exists():
        numbers = warm_up(settings, base, start)
        _write(note, numbers)
        print(time.strftime("%T"), seed, numbers, flush=True)
    for name in arms:
        if (path := parts / f"{seed}-{name}.json").exists():
            continue
        judged = (rival if name in RIVALS else learn)(settings, start, name, world, names)
        _write(
            path,
            {
                "seed": seed,
                "arm": name,
                "start": json.loads(note.read_text("ascii")),
                "base": json.loads((base / "numbers.json").read_text("ascii")),
            }
            | judged,
        )
        em = {kind: round(float(np.mean(judged[kind]["em"])), 3) for kind in ("sampled", "greedy")}
        print(time.strftime("%T"), seed, name, em, judged["cpu_seconds"], judged["held_out"], flush=True)


def summarise(out: Path, work: Path, command: str) -> None:
    """Write results and tables from the parts."""
    import torch
    import transformers

    found = [json.loads(path.read_text("ascii")) for path in sorted((work / "parts").glob("*.json"))]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    texts = {"tables": tables(found), "probe": probe.table(work / "world") + "\n"}  # before any file is replaced
    _write(out / "results.json.gz", {"command": command, "commit": commit, "versions": versions, "parts": found})
    for name, text in texts.items():
        with atomic_writer(out / f"{name}.txt", encoding="utf-8") as stream:
            stream.write(text)
    print(texts["tables"])


def _check_settings(path: Path, changed: list[str]) -> None:
    """Refuse a work folder whose parts were made with other settings."""
    now = {"setting.yaml": sha256(SETTINGS.read_bytes()).hexdigest(), "changed": changed}
    if not path.exists():
        _write(path, now)
    if json.loads(path.read_text("ascii")) != now:
        raise ConfigError(f"{path.parent} holds parts of other settings ({path.name}): name another folder with --work")


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as stream:
        stream.write(json.dumps(value) + "\n")


def main() -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/evidence/entity_learning"))
    parser.add_argument("--work", type=Path, default=Path("runs/entity_learning"), help="worlds and warm-ups")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", nargs="+", choices=[*RIVALS, *SCHEMES], help="only these")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="change a setting; may be repeated")
    parser.add_argument("--summary-only", action="store_true")
    args = parser.parse_args()
    register_schemes()
    parts = args.work / "parts"
    if not args.summary_only:
        import torch

        torch.set_num_threads(1)
        _check_settings(args.work / "settings.json", args.set)
        names = write_world(args.work / "world")
        wanted = args.arms or [*RIVALS, *SCHEMES]
        for arms in ([a for a in wanted if a not in CONTROLS], [a for a in wanted if a in CONTROLS]):
            for seed in args.seeds:  # the question first, then the controls
                run_seed(seed, arms, args, parts, names)
    words = [*(["--arms", *args.arms] if args.arms else []), *(word for one in args.set for word in ("--set", one))]
    command = ["python tests/experiments/entity_learning/run.py --seeds", *map(str, args.seeds), *words]
    summarise(args.out, args.work, " ".join(command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
