"""Whether the benchmark computes the same numbers as at an earlier commit, bit by bit.

    python tests/benchmarks/equal_results.py 7f504eb7
    python tests/benchmarks/equal_results.py 7f504eb7 --runs tables,shared

Every run is small, deterministic and in one process. It is measured once with the code of the
earlier commit, whose results are kept in ``--cache``, and once with the code of this checkout.
``stored`` prints the tables, the page and the plots of every stored result of the benchmark, each
by the code that belongs to it. Exit status 1: a number differs, or one side lacks it. Where sums
are added in another order, ``--digits 9`` says how many numbers differ by more than rounding.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
STORED: Final = ("families", "protocol")
# not compared: what differs between two runs of one commit, and what earlier commits wrote besides
TIMED: Final = frozenset({"provenance", "cost", "run", "predictions"})
MAX_DIFFERENCES: Final = 20  # printed for each run

SCHEMES: Final = (
    "grpo", "rloo", "gigpo", "gigpo_mean", "graphgpo", "rewardflow", "rewardflow_raw", "hgpo", "rtmc", "ecpo", "gagpo",
    "grouptd_base", "grouptd_relative", "grouptd_relative_pooled", "pica[fitted]", "tips[exact]", "pica[noise=0.5]",
    "graphgpo{distance_discount=0.3}",
)  # fmt: skip
CRITICS: Final = ("mt_ppo[linear]", "mt_ppo[network]")  # read features of states, which tables lack


# -- measured by either side -----------------------------------------------------------------------
def _bench(out: Path, suites: tuple[str, ...], schemes: tuple[str, ...], preset: str = "smoke", seed: int = 0) -> Any:
    from creditflow.train.bench.document import RunOptions
    from creditflow.train.bench.run import run_bench

    return run_bench(suites, schemes, preset, RunOptions(out, 1, ()), seed=seed)


def tables(out: Path) -> Any:
    """Exact metrics and curves of tables."""
    return _bench(out, ("grids", "sokoban"), SCHEMES, seed=1)


def shared(out: Path) -> Any:
    """A shared policy: every kind of cell, feature map, loss aggregation and optimiser."""
    from creditflow.train.bench import presets

    covering = presets.SharedWork(
        units=2, train=10, held_out=4, groups=24, updates=3, every=2,
        kinds=("pits", "slip", "alias", "fresh", "sokoban", "key"),
        aggregations=("token_mean", "trajectory_mean"), features=("additive", "table"), batches=(1, 12), sizes=(4,),
        successes=(0.5,), crossed=("pits",), crossed_rates=(0.03,), learn_variations=True,
    )  # fmt: skip
    presets.PRESETS["smoke"] = replace(presets.PRESETS["smoke"], shared=covering)  # type: ignore[index]  # typed as a Mapping
    return _bench(out, ("shared",), (*SCHEMES, *CRITICS), seed=2)


def played(out: Path) -> Any:
    """Training through an environment without tables."""
    return _bench(out, ("webshop",), ("grpo", "gigpo", "grouptd", "graphgpo", "mt_ppo[fitted]"))


def sweep(out: Path) -> Any:
    """Values of parameters as variants, by the command."""
    words = ["--preset", "smoke", "--envs", "grids", "--schemes", "gigpo,graphgpo", "--workers", "1"]
    _command(
        "bench", *words, "--sweep", "discount=.8,.95", "--sweep", "graphgpo.distance_discount=.3", "--out", str(out)
    )
    return json.loads((out / "results.json").read_text())


def stored(out: Path) -> Any:
    """Tables, page and plots of the stored results."""
    shown: dict[str, Any] = {}
    for folder in STORED:
        for path in sorted(Path("tests/evidence", folder).glob("*.json.gz")):
            target = out / f"{folder}-{path.name}"
            text = _command("bench", "--show", str(path), "--out", str(target), "--force")
            shown[f"{folder}/{path.name}"] = {
                "text": text.replace(str(out), "").splitlines(),
                **{file.name: _content(file) for file in sorted(target.iterdir())},
            }
    return shown


def _content(file: Path) -> Any:
    """The lines of a page, or the digest of a picture."""
    if file.suffix == ".html":
        return file.read_text().splitlines()
    return hashlib.sha256(file.read_bytes()).hexdigest()


RUNS: Final[dict[str, Callable[[Path], Any]]] = {run.__name__: run for run in (tables, shared, played, sweep, stored)}


def _command(*words: str) -> str:
    from creditflow.train.cli import main

    printed = StringIO()
    with redirect_stdout(printed):
        status = main(list(words))
    if status:
        raise SystemExit(f"creditflow {' '.join(words)}: exit status {status}\n{printed.getvalue()}")
    return printed.getvalue()


# -- compared --------------------------------------------------------------------------------------
def differences(before: Any, after: Any, digits: int = 0, place: str = "") -> Iterator[str]:
    """Yield where two JSON values differ; floats must agree in these digits, 0: bit by bit."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after} - TIMED):
            if key not in before or key not in after:
                yield f"{place}/{key}: only {'before' if key in before else 'after'}"
            else:
                yield from differences(before[key], after[key], digits, f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, digits, f"{place}/{number}")
    elif type(before) is not type(after) or not _equal(before, after, digits):
        yield f"{place}: {json.dumps(before)[:300]} before, {json.dumps(after)[:300]} after"


def _equal(before: Any, after: Any, digits: int) -> bool:
    if digits and isinstance(before, float):
        return math.isclose(before, after, rel_tol=10.0**-digits, abs_tol=10.0**-digits)
    return bool(before == after)


def leaves(value: Any) -> int:
    """Number of compared values in a JSON value."""
    if isinstance(value, dict):
        return sum(leaves(item) for key, item in value.items() if key not in TIMED)
    return sum(map(leaves, value)) if isinstance(value, list) else 1


def measured(run: str, tree: Path, python: str) -> Any:
    """The result of a run with the code of a tree, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
        command = [python, str(Path(__file__).resolve()), "--measure", run, str(result)]
        subprocess.run(command, cwd=tree, env=environment, check=True)
        return json.loads(result.read_text())


def checkout(commit: str, cache: Path) -> Path:
    """The files of a commit, extracted once."""
    tree = cache / "tree"
    if not tree.exists():
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        (cache / "unpacked").mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-x", "-C", str(cache / "unpacked")], input=archive, check=True)
        (cache / "unpacked").rename(tree)
    return tree


def before_of(run: str, commit: str, cache: Path, python: str) -> Any:
    """The result of a run at a commit: measured once, then read."""
    path = cache / f"{run}.json.gz"
    if not path.exists():
        text = json.dumps(measured(run, checkout(commit, cache), python))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return json.loads(gzip.decompress(path.read_bytes()))


def main() -> int:
    """Measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="the earlier commit")
    parser.add_argument("--runs", default=",".join(RUNS), help=f"comma-separated: {', '.join(RUNS)} (default all)")
    parser.add_argument("--python", default=sys.executable, help="interpreter of both sides (default this one)")
    parser.add_argument("--digits", type=int, default=0, help="equal digits of a float (default 0: all bits)")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "creditflow-equal-results")
    parser.add_argument("--measure", nargs=2, metavar=("RUN", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        run, result = args.measure
        folder = Path(result).parent / "out"
        folder.mkdir()
        Path(result).write_text(json.dumps(RUNS[run](folder)))
        return 0
    if not args.commit:
        parser.error("name the earlier commit")
    commit = subprocess.run(["git", "rev-parse", args.commit], cwd=ROOT, check=True, capture_output=True, text=True)
    cache = args.cache / commit.stdout.strip()
    different = 0
    for run in args.runs.split(","):
        before = before_of(run, commit.stdout.strip(), cache, args.python)
        after = measured(run, ROOT, args.python)
        places = list(differences(before, after, args.digits))
        exact = len(list(differences(before, after)))
        different += len(places)
        rounding = f" ({exact} bit by bit)" if args.digits else ""
        print(f"{run}: {leaves(before)} values, {len(places)} differences{rounding}", flush=True)
        for difference in places[:MAX_DIFFERENCES]:
            print(f"  {difference}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
