"""What a better success model is worth inside ``pica``: linear, network and exact success, and exact success with errors, learned with.

In the suite ``shared`` (a policy for many tasks) and in ``lm`` (small language models) every method starts from the same policy, with the same tasks and
random numbers; the number is the area under the learning curve of exact success minus grpo's, in points. At λ = 1 PiCA's shaping
telescopes: it adds a baseline to the outcome, whatever the success model predicts. ``pica{gae_lambda=0}`` leaves the turn its own change of log f alone,
so there the model's quality can matter. Every finished part is written at once, and ``--resume`` continues.

  python tests/evidence/pica/fair/downstream.py --out DIR [--resume] [--force] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from evidence.pica.fair.parts import SIZES, Parts

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.train.arguments.outputs import Output, add_output, named
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.language_model.suite.work import LM_PRESETS
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.shared.cells import SharedCell, run_unit
from creditflow.train.statistics import contrasts_of, crossed_mean, stratified_mean

__all__ = ["Sizes", "add_arguments", "downstream", "main", "run"]

BASELINE: Final = "grpo"
CRITICS: Final = ("exact", "noise=0.5", "noise=1", "noise=2", "linear", "network", "fitted")
REFERENCES: Final = ("grouptd", "oracle_adv")
FILES: Final = ("*.json",)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the study.

    Attributes:
        kinds: task kinds of ``shared``, and ``units``, layout seeds of each.
        updates: of a policy in ``shared``.
        families: task families of ``lm``, and ``seeds`` of each.
        critics: annotation sources in ``shared``; ``few`` in ``lm``.
        iterations: of a language model.
    """

    kinds: tuple[str, ...] = ("pits", "slip", "sokoban")
    units: int = 5
    updates: int = 30
    families: tuple[str, ...] = ("pits", "sokoban")
    seeds: int = 3
    critics: tuple[str, ...] = CRITICS
    few: tuple[str, ...] = ("exact", "noise=1", "linear", "network")
    iterations: int = 50


QUICK: Final = Sizes(("pits",), 2, 2, ("pits",), 2, ("exact", "linear"), ("exact",), 2)


def methods_of(critics: Sequence[str]) -> tuple[str, ...]:
    """The compared methods, the baseline first.

    >>> methods_of(["exact"])
    ('grpo', 'pica[exact]', 'pica{gae_lambda=0}[exact]', 'grouptd', 'oracle_adv')
    """
    return (BASELINE, *(f"{name}[{one}]" for name in ("pica", "pica{gae_lambda=0}") for one in critics), *REFERENCES)


def downstream(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """All parts in order; finished ones are read from ``folder``. Returns the results as JSON values."""
    parts = Parts(folder, asdict(sizes))
    shared = {
        kind: [parts.json(f"shared-{kind}-{unit}", partial(_shared, kind, unit, sizes)) for unit in range(sizes.units)]
        for kind in sizes.kinds
    }
    found = {
        "sizes": asdict(sizes),
        "shared": _compared({kind: _areas(rows, ("area", "held_out")) for kind, rows in shared.items()}),
    }
    language = {
        family: [_language(parts, family, seed, sizes) for seed in range(sizes.seeds)] for family in sizes.families
    }
    found["lm"] = _compared({family: _areas(rows, ("area", "held_out")) for family, rows in language.items()})
    return found | {"cpu_seconds": parts.seconds()}


def _shared(kind: str, unit: int, sizes: Sizes) -> dict[str, Any]:
    """Areas on trained and held-out tasks by method, in [0, 1]."""
    work = replace(PRESETS["quick"].shared, updates=sizes.updates, groups=1)
    found = run_unit(SharedCell(kind), work, [BASELINE], methods_of(sizes.critics), 0, unit)
    return {
        name: {"area": [float(np.mean(own[1:]))], "held_out": [float(np.mean(other[1:]))]}
        for name, (own, other) in found["curves"].items()
    }


def _language(parts: Parts, family: str, seed: int, sizes: Sizes) -> dict[str, Any]:
    """Areas by method and task of one seed; the warm-up and every method are parts of their own."""
    from creditflow.train.bench.language_model.suite import run as jobs

    full = LM_PRESETS["lm" if sizes.iterations > 2 else "lm-smoke"]
    work = replace(
        full,
        learning=replace(
            full.learning, iterations=sizes.iterations, points=min(full.learning.points, sizes.iterations)
        ),
    )
    name = f"lm-{family}-{seed}"
    start = parts.json(f"{name}-start", lambda: jobs.warm_up(family, seed, work, "cpu"))

    def learned(method: str) -> dict[str, Any]:
        return {"curve": jobs.learn(family, seed, method, work, "cpu", start["parameters"])}

    rows = {}
    for number, method in enumerate(methods_of(sizes.few)):
        curve = parts.json(f"{name}-{number}", partial(learned, method))["curve"]
        rows[method] = {place: _task_areas(curve, key) for place, key in (("area", "train"), ("held_out", "held_out"))}
    return rows


def _task_areas(curve: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """Area under the curve of each task by the trapezoidal rule, start included."""
    at = np.array([point["iteration"] for point in curve], np.float64)
    values = np.array([point[key]["sampled"] for point in curve])
    areas: list[float] = (np.diff(at) @ (0.5 * (values[1:] + values[:-1])) / at[-1]).tolist()
    return areas


Areas = dict[str, dict[str, np.ndarray[Any, np.dtype[np.float64]]]]


def _areas(rows: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Areas:
    """By place and method float64 (seeds, tasks), or (layout seeds, 1)."""
    methods = [name for name in rows[0] if name != "cpu_seconds" and all(name in row for row in rows)]
    return {place: {name: np.array([row[name][place] for row in rows]) for name in methods} for place in places}


def _compared(found: Mapping[str, Areas]) -> dict[str, Any]:
    """By place and method the difference from the baseline in points, with its interval, over all kinds and by kind."""
    table: dict[str, Any] = {}
    for place in next(iter(found.values())):
        differences = {
            kind: {
                name: crossed_mean(100.0 * (x - areas[place][BASELINE]))
                for name, x in areas[place].items()
                if name != BASELINE
            }
            for kind, areas in found.items()
        }
        common = [name for name in next(iter(differences.values())) if all(name in of for of in differences.values())]
        pooled = contrasts_of({name: stratified_mean([of[name] for of in differences.values()]) for name in common})
        table[place] = {
            "baseline": {kind: 100.0 * float(areas[place][BASELINE].mean()) for kind, areas in found.items()},
            "all": {name: _row(one.difference) | {"p_adjusted": _finite(one.p_adjusted)} for name, one in pooled.items()},
            **{kind: {name: _row(one) for name, one in of.items()} for kind, of in differences.items()},
        }  # fmt: skip
    return table


def _row(mean: Any) -> dict[str, float | None]:
    return {"mean": _finite(mean.mean), "low": _finite(mean.interval.low), "high": _finite(mean.interval.high)}


def _finite(x: float) -> float | None:
    return float(f"{x:.4g}") if np.isfinite(x) else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_output(parser, "--out", Output(kind="folder", owned=named(*FILES), cleared=True, first=SIZES), metavar="DIR", required=True, help="write parts and results.json here")  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="continue an interrupted study")
    parser.add_argument(
        "--quick", action="store_true", help="toy sizes, to test the code path; the result is no evidence"
    )


def run(args: argparse.Namespace) -> int:
    """Run the study; returns 0."""
    require_torch()
    from creditflow.train.bench.report.provenance import provenance

    folder = Path(args.out)
    found = downstream(QUICK if args.quick else Sizes(), folder)
    Parts.write(folder / "results.json", provenance([], 0) | {"command": args.command_line} | found)
    for suite in ("shared", "lm"):
        for place, table in found[suite].items():
            print(f"\n{suite}, {place}: area minus grpo's, in points")
            for name, row in table["all"].items():
                print(f"  {name:30} {json.dumps(row)}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("evidence.pica.fair.downstream", arguments, script="tests/evidence/pica/fair/downstream.py")


if __name__ == "__main__":
    raise SystemExit(main())
