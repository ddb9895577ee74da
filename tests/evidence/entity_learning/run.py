"""Small language models learn to search with entity credit: every arm of every seed, in parts that a killed run goes on from.

    python tests/evidence/entity_learning/run.py --out tests/evidence/entity_learning [--seeds 1 2 3 4 5]
    python tests/evidence/entity_learning/run.py --design replication --out tests/evidence/entity_learning/replication --seeds 11 12 13

A model of 0.2 million weights imitates a faulty demonstrator, per seed on demonstrations of its own (``warm_up.py``); then each arm
(``arms.py``) learns from these weights with as many updates and rollouts. In the replication each seed has its own world and base; with
``--set env.options.top_k=2`` a search returns a distractor too. Parts lie in ``WORK/parts``; at the end, and with ``--summary-only``, they
become ``OUT/results.json.gz``, ``tables.txt`` and, for the study, ``probe.txt``. Needs torch; one thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.entity_learning import probe
from evidence.entity_learning.arms import CONTROLS, RIVALS, SCHEMES, learn, rival
from evidence.entity_learning.schemes import register_schemes
from evidence.entity_learning.summary import tables
from evidence.entity_learning.warm_up import BASE_SEED, SETTINGS, pretrain, settings_of, warm_up
from evidence.entity_learning.world import WORLD_SEED, write_world

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.atomic import atomic_writer


@dataclass(frozen=True, kw_only=True)
class Design:
    """What differs between the study and its replication.

    Attributes:
        waves: the arms; all seeds play those of one wave before the next.
        own: each seed has a world and a base of its own.
    """

    waves: tuple[tuple[str, ...], ...]
    own: bool = False

    def world_seed(self, seed: int) -> int:
        """The seed of the world that a seed plays in."""
        return seed if self.own else WORLD_SEED

    def base_seed(self, seed: int) -> int:
        """The seed of the base that a seed starts from; no seed of a warm-up, so that their worlds differ."""
        return OWN_BASES + seed if self.own else BASE_SEED

    def folder(self, work: Path, name: str, seed: int) -> Path:
        """Where the world or the base of a seed lies."""
        return work / (f"{name}-{seed}" if self.own else name)


OWN_BASES: Final = 10_000
DESIGNS: Final = {
    "study": Design(waves=((*RIVALS, *(name for name in SCHEMES if name not in CONTROLS)), CONTROLS)),
    "replication": Design(
        waves=(("warm_up", "grpo", "sapo", "gdcr", "grouptd", "sapo_shuffled"),),
        own=True,
    ),
}


def run_seed(seed: int, arms: Sequence[str], args: argparse.Namespace) -> None:
    """The world, the base, the warm-up and those arms of a seed that have no part yet."""
    work, design = args.work, DESIGNS[args.design]
    world, base = (design.folder(work, name, seed) for name in ("world", "base"))
    of_world = design.world_seed(seed)
    settings = settings_of(world, seed, args.set)
    names = write_world(world, of_world, settings.env.options["top_k"])
    if not (base / "numbers.json").exists():
        drawn = settings_of(world, design.base_seed(seed), args.set)
        _write(base / "numbers.json", pretrain(drawn, world, base, of_world))
    start = work / f"warm-up-{seed}"
    if not (note := start / "numbers.json").exists():
        numbers = warm_up(settings, base, start, of_world)
        _write(note, numbers)
        print(time.strftime("%T"), seed, numbers, flush=True)
    for name in arms:
        if (path := work / "parts" / f"{seed}-{name}.json").exists():
            continue
        judged = (rival if name in RIVALS else learn)(settings, start, name, world, names)
        _write(
            path,
            {
                "seed": seed,
                "arm": name,
                "world": of_world,
                "start": json.loads(note.read_text("ascii")),
                "base": json.loads((base / "numbers.json").read_text("ascii")),
            }
            | judged,
        )
        em = {kind: round(float(np.mean(judged[kind]["em"])), 3) for kind in ("sampled", "greedy")}
        print(time.strftime("%T"), seed, name, em, judged["cpu_seconds"], judged["held_out"], flush=True)


def summarise(out: Path, work: Path, command: str, *, probed: bool) -> None:
    """Write results and tables from the parts, and the probe."""
    import torch
    import transformers

    found = [json.loads(path.read_text("ascii")) for path in sorted((work / "parts").glob("*.json"))]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    texts = {"tables": tables(found)}  # before any file is replaced
    if probed:
        texts["probe"] = probe.table(work / "world") + "\n"
    _write(out / "results.json.gz", {"command": command, "commit": commit, "versions": versions, "parts": found})
    for name, text in texts.items():
        with atomic_writer(out / f"{name}.txt", encoding="utf-8") as stream:
            stream.write(text)
    print(texts["tables"])


def _check_settings(path: Path, design: str, changed: list[str]) -> None:
    """Refuse a work folder whose parts were made with other settings."""
    now = {"setting.yaml": sha256(SETTINGS.read_bytes()).hexdigest(), "design": design, "changed": changed}
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
    parser.add_argument("--design", choices=tuple(DESIGNS), default="study")
    parser.add_argument("--out", type=Path, default=Path("tests/evidence/entity_learning"))
    parser.add_argument("--work", type=Path, default=Path("runs/entity_learning"), help="worlds and warm-ups")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", nargs="+", choices=[*RIVALS, *SCHEMES], help="only these")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="change a setting; may be repeated")
    parser.add_argument("--summary-only", action="store_true")
    args = parser.parse_args()
    register_schemes()
    design = DESIGNS[args.design]
    words = [*(["--arms", *args.arms] if args.arms else []), *(word for one in args.set for word in ("--set", one))]
    if not args.summary_only:
        import torch

        torch.set_num_threads(1)
        _check_settings(args.work / "settings.json", args.design, args.set)
        for wave in design.waves:  # in the study the question first, then the controls
            arms = [name for name in wave if not args.arms or name in args.arms]
            for seed in args.seeds:
                run_seed(seed, arms, args)
    named = "" if args.design == "study" else f"--design {args.design} "
    command = [f"python tests/evidence/entity_learning/run.py {named}--seeds", *map(str, args.seeds), *words]
    summarise(args.out, args.work, " ".join(command), probed=not design.own)
    return 0


if __name__ == "__main__":
    sys.exit(main())
