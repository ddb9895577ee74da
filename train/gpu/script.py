"""GPU acceptance script: equality tests, throughput, learning curves. Needs torch ≥ 2.13, transformers ≥ 5.4; no network.

  python -m creditflow.train.gpu.bundle --out build/wheels  # on a machine with network: collect the wheels
  PYTHONPATH=src:build/wheels python -m creditflow.train.gpu
  python -m creditflow.train.gpu --dry-run                  # the same script on a CPU, at toy size

Three parts: equality tests on the device; throughput, memory, and their fraction of the device's measured limits; learning
curves of every scheme and of controls from one SFT policy per seed. Writes gpu.json and the folder runs. gpu.json is rewritten
after every check, and with --resume the checks that it contains are skipped, so an interrupted run can be continued.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from creditflow.agents.language_model.models.pretrained import require_torch
from creditflow.envs.errors import ConfigError, CreditflowError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.commands.arguments.outputs import Output, add_output, named
from creditflow.train.commands.arguments.programs import run_program

__all__ = ["ResultsFile", "add_arguments", "main", "run"]

RESULTS: Final = "gpu.json"
RUNS: Final = "runs"


@dataclass
class ResultsFile:
    """The results file.

    Attributes:
        path: path of the file.
        deadline: ``time.monotonic()`` after which no new check is started.
        data: its contents.
    """

    path: Path
    deadline: float
    data: dict[str, Any]

    def run_check(self, name: str, work: Callable[[], Any]) -> None:
        """Run one check unless its result is in the file; an expected failure is a result too."""
        kept = self.data.setdefault("checks", {})
        if name in kept and "error" not in kept[name]:
            print(f"{name}: done already", flush=True)
            return
        if time.monotonic() > self.deadline:
            print(f"{name}: skipped: time limit reached", flush=True)
            return
        began = time.monotonic()
        try:
            result = work()
        except (CreditflowError, ArithmeticError, RuntimeError) as error:
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        kept[name] = {"seconds": round(time.monotonic() - began, 2), **result}
        with atomic_writer(self.path) as stream:
            stream.write(json.dumps(self.data, indent=1) + "\n")
        shown = {k: v for k, v in kept[name].items() if not isinstance(v, list | dict)}
        print(f"{name}: {json.dumps(shown)}", flush=True)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that ended in an error."""
        return [name for name, result in self.data.get("checks", {}).items() if "error" in result]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    parser.add_argument("--dry-run", action="store_true", help="toy sizes on a CPU, to test the script itself")
    add_output(
        parser, "--out", Output(kind="folder", owned=named(RESULTS, RUNS), cleared=True), default="runs/gpu",
        metavar="DIR", help="folder for gpu.json and the training runs (default runs/gpu)",
    )  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run in the same folder")
    parser.add_argument(
        "--minutes", type=float, default=25.0, help="start no new check after this many minutes (default 25)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="random seeds (default 0 1 2)")
    parser.add_argument(
        "--schemes",
        nargs="+",
        default=[],
        help="schemes and controls to train (default: the controls, and all schemes that need no fields of a task)",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a training setting")


def run(args: argparse.Namespace) -> int:
    """Run the script; returns 1 if a check failed."""
    require_torch()
    import torch

    from creditflow.train.gpu import checks as gpu_checks
    from creditflow.train.gpu import curves as gpu_curves
    from creditflow.train.gpu import speed as gpu_speed

    if not args.dry_run and not torch.cuda.is_available():
        raise ConfigError(f"torch {torch.__version__} finds no GPU; --dry-run runs everything on a CPU")
    device = torch.device("cpu" if args.dry_run else "cuda")
    if args.dry_run:
        torch.set_num_threads(1)
    folder = Path(args.out)
    path = folder / RESULTS
    data = read_json(path) if path.is_file() else {}  # without --resume the folder is empty
    data["about"] = _about(device, args.dry_run)
    results = ResultsFile(path, time.monotonic() + 60 * args.minutes, data)
    for name, check in gpu_checks.checks(device).items():
        results.run_check(f"equality/{name}", check)
    for name, measure in gpu_speed.measurements(device, toy=args.dry_run).items():
        results.run_check(f"speed/{name}", measure)
    curves = gpu_curves.curves(
        folder / RUNS, seeds=args.seeds, schemes=args.schemes, overrides=args.set, toy=args.dry_run
    )
    for name, curve in curves.items():
        results.run_check(f"curves/{name}", curve)
    print(f"{len(data['checks'])} checks in {path}; failed: {', '.join(results.failed) or 'none'}")
    return 1 if results.failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    return run_program("gpu.script", arguments)


def _about(device: Any, dry_run: bool) -> dict[str, Any]:
    """Hardware, versions and commit."""
    import numpy as np
    import torch
    import transformers

    about: dict[str, Any] = {
        "dry_run": dry_run,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "commit": _commit(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        about |= {"memory_gib": round(properties.total_memory / 2**30, 1), "cuda": torch.version.cuda}
    return about


def _commit() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607 - git as found
    except OSError:
        return "unknown: git is not installed"
    return done.stdout.strip() or "unknown: not a git checkout"


if __name__ == "__main__":
    sys.exit(main())
