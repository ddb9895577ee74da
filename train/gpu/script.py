"""GPU acceptance script: equality tests, throughput, learning curves. Needs torch ≥ 2.13, transformers ≥ 5.4; no network.

  python -m creditflow.train.gpu --bundle build/wheels      # on a machine with network: collect the wheels
  PYTHONPATH=src:build/wheels python -m creditflow.train.gpu --out figures.json
  python -m creditflow.train.gpu --dry-run                  # the same script on a CPU, at toy size

Three parts: equality tests on the device; throughput, memory and the fraction of the device's own measured ceilings;
learning curves of every scheme and of controls from one SFT policy per seed. The results file is rewritten after every
check, and a later call skips the checks that it contains, so an interrupted run can be continued.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.envs.errors import ConfigError, CreditflowError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.commands.arguments.parser import CommandParser
from creditflow.train.gpu.bundle import build_bundle

__all__ = ["ResultsFile", "main"]


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


def main(arguments: list[str] | None = None) -> int:
    """Run the script; returns 1 if a check failed."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="toy sizes on a CPU, to test the script itself")
    parser.add_argument("--bundle", metavar="DIR", help="only collect and unpack the pure-Python wheels")
    parser.add_argument(
        "--out", default="runs/gpu/gpu.json", metavar="FILE", help="results file (default runs/gpu/gpu.json)"
    )
    parser.add_argument("--runs", default="runs/gpu", metavar="DIR", help="run folders (default runs/gpu)")
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
    args = parser.parse_args(arguments)
    if args.bundle:
        return build_bundle(Path(args.bundle))
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
    path = Path(args.out)
    data = read_json(path) if path.is_file() else {}
    data["about"] = _about(device, args.dry_run)
    results = ResultsFile(path, time.monotonic() + 60 * args.minutes, data)
    for name, check in gpu_checks.checks(device).items():
        results.run_check(f"equality/{name}", check)
    for name, measure in gpu_speed.measurements(device, toy=args.dry_run).items():
        results.run_check(f"speed/{name}", measure)
    curves = gpu_curves.curves(
        Path(args.runs), seeds=args.seeds, schemes=args.schemes, overrides=args.set, toy=args.dry_run
    )
    for name, curve in curves.items():
        results.run_check(f"curves/{name}", curve)
    print(f"{len(data['checks'])} checks in {path}; failed: {', '.join(results.failed) or 'none'}")
    return 1 if results.failed else 0


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
