"""GPU acceptance script: equality tests, throughput, a recipe's iterations, the ladder of sizes. Needs no network.

  PYTHONPATH=src python tests/gpu/run.py
  python tests/gpu/run.py --dry-run                  # every piece at toy size on a CPU, and the plan

Parts, in this order: ``equality`` (the sampler, layouts and precisions against plain fp32; repeated calls of vLLM), ``speed`` (sampler,
SFT, update in every layout and with LoRA, the trainer; with memory and the fraction of the device's measured limits), ``recipe``
(iterations of a recipe with a random model of the size of Qwen2.5-1.5B and vLLM: peak memory beside the estimate of ``--dry-run``, use of the
device), ``ladder`` (schemes with models of 7, 20 and 60 million parameters, ``tests/evidence/ladder``, as many runs as fit), and only if it
is named ``pretrained`` (``tests/evidence/pretrained`` with 48 iterations, four seeds at the same time; ``--model``). Every
piece is written to gpu.json when it is done, with the commit, and every run of the ladder to ladder.jsonl; --resume continues after an
interruption or the time limit, on a machine with the same device and versions, so one that can be held for some minutes at a time
suffices. What an H200 gave stands in ``tests/evidence/gpu``.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu.ladder import ROWS, run_ladder
from gpu.pieces import Piece, ResultsFile, plan
from gpu.pretrained import run_study

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.json_text import read_json
from creditflow.train.arguments.options import positive
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.train.arguments.programs import run_program
from creditflow.train.run.identity import require_same

__all__ = ["add_arguments", "main", "run"]

RESULTS: Final = "gpu.json"
RUNS: Final = "runs"
LADDER_SECONDS: Final = 1000.0  # 480 runs; 176 took about 280 s, beside other pieces
PRETRAINED_SECONDS: Final = 2400.0  # an assumption: no GPU has run it
PARTS: Final = ("equality", "speed", "recipe", "ladder", "pretrained")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    parser.add_argument("--dry-run", action="store_true", help="toy sizes on a CPU, to test the script itself")
    add_output(
        parser, "--out", Output(kind="folder", owned=named(RESULTS, RUNS, ROWS), cleared=True, first=RESULTS),
        default="runs/gpu", metavar="DIR", help="folder for the results and the training runs (default runs/gpu)",
    )  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run in the same folder")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS[:4]), help="parts (default: all but pretrained)"
    )
    parser.add_argument(
        "--minutes", type=float, default=27.0, help="stop after this many minutes, to be continued (default 27)"
    )
    parser.add_argument("--workers", type=positive, default=6, help="processes of the part ladder (default 6)")
    add_input(parser, "--model", default="models/smollm2", help="folder of the model of the part pretrained")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a training setting")


def run(args: argparse.Namespace) -> int:
    """Run the script; returns 1 if a piece failed."""
    require_torch()
    import torch

    if not args.dry_run and not torch.cuda.is_available():
        raise ConfigError(f"torch {torch.__version__} finds no GPU; --dry-run runs everything on a CPU")
    deadline = time.monotonic() + 60 * args.minutes
    device = torch.device("cpu" if args.dry_run else "cuda")
    if args.dry_run:
        torch.set_num_threads(1)
    folder = Path(args.out)
    path = folder / RESULTS
    about = _about(device, args)
    data: dict[str, Any] = (
        _stored(path, about) if path.is_file() else {"about": about}
    )  # without --resume the folder is empty
    results = ResultsFile(path, deadline, data, commit=_commit())
    results.write()
    pieces = _pieces(args, folder, device, data)
    print(f"plan; seconds are estimates for an H200\n{plan(pieces, results)}", flush=True)
    for piece in pieces:
        results.run(piece)
    data["not_reached"] = results.not_reached
    results.write()
    print(f"{len(data.get('checks', {}))} pieces in {path}; failed: {', '.join(results.failed) or 'none'}")
    if results.not_reached:
        print(f"not reached (continue with --resume): {', '.join(results.not_reached)}")
    return 1 if results.failed else 0


def _stored(path: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """The results to be continued.

    Raises:
        DataError: no results of this script.
        OtherRunError: results of another machine; figures of two machines in one file would belong to neither.
    """
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("about"), dict):
        raise DataError(f"{path}: holds no results of this script: the key 'about' is missing; name another output")
    require_same(data["about"], about, str(path))
    return data


def _pieces(args: argparse.Namespace, folder: Path, device: Any, data: Mapping[str, Any]) -> list[Piece]:
    """The pieces of the chosen parts, in the order of the parts; ``data`` has the stored results."""
    from gpu import checks, speed
    from gpu.trainer import trainer_iterations

    toy, pieces = args.dry_run, list[Piece]()

    def add(part: str, estimate: float, works: Mapping[str, Callable[[], dict[str, Any]]]) -> None:
        pieces.extend(Piece(f"{part}/{name}", estimate, partial(_untimed, work)) for name, work in works.items())

    if "equality" in args.parts:
        add("equality", 4.0, checks.checks(device))
    if "speed" in args.parts:
        add("speed", 12.0, speed.measurements(device, toy=toy, known=data.get("checks", {}).get("speed/ceilings", {})))
        add("speed", 60.0, {"trainer": partial(trainer_iterations, folder / RUNS, toy, data)})
    if "recipe" in args.parts:
        from gpu.recipe import recipe_iterations

        add("recipe", 480.0, {"qwen2.5-1.5b": partial(recipe_iterations, folder / RUNS / "recipe", toy, args.set)})
    if "ladder" in args.parts:
        work = partial(run_ladder, folder / ROWS, device.type, args.workers, toy)
        pieces.append(Piece("ladder/sizes", LADDER_SECONDS, work))
    if "pretrained" in args.parts:
        work = partial(run_study, folder, args.model, args.set, toy)
        pieces.append(Piece("pretrained/study", PRETRAINED_SECONDS, work))
    return pieces


def _untimed(work: Callable[[], dict[str, Any]], _seconds: float) -> dict[str, Any]:
    """A piece too short to be stopped."""
    return work()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("gpu.run", arguments, script="tests/gpu/run.py")


def _about(device: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Hardware, versions, and settings that the results depend on."""
    import numpy as np
    import torch
    import transformers

    about: dict[str, Any] = {
        "dry_run": args.dry_run,
        "set": list(args.set),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        about |= {"memory_gib": round(properties.total_memory / 2**30, 1), "cuda": torch.version.cuda}
    return about


def _commit() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown: git is not installed"
    return done.stdout.strip() or "unknown: not a git checkout"


if __name__ == "__main__":
    sys.exit(main())
