"""``python -m fuzz``: the bounded run, a long run, the replay of one case. See the package's docstring."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatch
from hashlib import blake2b
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from traceback import format_exception

from fuzz.child import Case, Result, run_cases, traps_of
from fuzz.target import Target
from fuzz.targets import all_targets

MOST_FINDINGS = 40  # distinct findings after which a target is stopped


def main() -> int:
    """Run the chosen targets; the exit status is 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--targets", default="*", help="comma-separated patterns of names, as in 'logs/*,envs/tasks'")
    parser.add_argument("--seconds", type=float, default=0.0, help="total time; default: a fixed number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="folder for cases that fail")
    parser.add_argument("--replay", type=Path, metavar="CASE", help="run one written case and print its traceback")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [t for t in all_targets() if any(fnmatch(t.name, one) for one in options.targets.split(","))]
    if not chosen:
        parser.error(f"no target matches {options.targets!r}; --list shows all")
    if options.list:
        print("\n".join(f"{t.name:28} {t.cases:5d} cases" for t in chosen))
        return 0
    if options.replay:
        return replay(chosen, options.replay)
    began = time.monotonic()
    ready = [t for t in chosen if not t.missing()]
    for target in chosen:
        if target.missing():
            print(f"{target.name:28} skipped: needs {', '.join(target.missing())}")
    seconds = options.seconds * options.workers / max(len(ready), 1)
    found = 0
    with ProcessPoolExecutor(options.workers, mp_context=get_context("fork")) as pool:
        jobs = {pool.submit(fuzz, target.name, options.seed, seconds, options.out): target.name for target in ready}
        for job in as_completed(jobs):
            if error := job.exception():  # an error in the target itself, such as samples that cannot be made
                number, text = 1, f"{jobs[job]:28} is broken:\n{''.join(format_exception(error))}"
            else:
                number, text = job.result()
            found += number
            print(text, flush=True)
    print(f"{found} findings, {time.monotonic() - began:.0f} s")
    return 1 if found else 0


def fuzz(name: str, seed: int, seconds: float, out: Path) -> tuple[int, str]:
    """Run one target, and write the cases that fail.

    Args:
        name: name of the target.
        seed: seed of the mutated cases.
        seconds: time to run; 0: the target's fixed number of cases.
        out: folder for cases that fail.

    Returns:
        The number of distinct findings, and the text to print.
    """
    [target] = [t for t in all_targets() if t.name == name]
    place = Path(tempfile.mkdtemp(prefix="fuzz-seeds-"))
    began = time.monotonic()
    kinds, found = Counter[str](), dict[str, tuple[int, str]]()
    try:
        seeds = target.seeds(place)
        until = time.monotonic() + (seconds or 600.0)
        for result in run_cases(target, seeds, _cases(target, len(seeds), seed, bounded=not seconds), until):
            kinds[result.outcome.kind] += 1
            if result.outcome.kind == "finding":
                count_, text = found.get(result.outcome.what, (0, ""))
                found[result.outcome.what] = (count_ + 1, text or _written(target, result, out))
            if len(found) >= MOST_FINDINGS:
                break
    finally:
        target.close()
        shutil.rmtree(place, ignore_errors=True)
    tried = ", ".join(f"{kinds[kind]} {kind}" for kind in ("accepted", "rejected", "finding") if kinds[kind])
    lines = [f"{name:28} {tried}; {time.monotonic() - began:.1f} s"]
    lines += [f"  FOUND {what} ({number} times)\n{text}" for what, (number, text) in sorted(found.items())]
    return len(found), "\n".join(lines)


def _cases(target: Target, samples: int, seed: int, *, bounded: bool) -> Iterator[Case]:
    yield from (Case(f"sample {i}", valid=True) for i in range(samples))
    yield from (Case(f"trap {i}") for i in range(len(traps_of(target))))
    yield from (Case(f"{seed}:{i}") for i in (range(target.cases) if bounded or not target.cases else count()))


def _written(target: Target, result: Result, out: Path) -> str:
    """Write a case that failed, and return its error with the command that runs it again."""
    out.mkdir(parents=True, exist_ok=True)
    digest = blake2b(result.data, digest_size=4).hexdigest()
    path = out / f"{target.name.replace('/', '-')}-{digest}.case"
    path.write_bytes(result.data)
    return (
        f"        case {result.case.name}: {result.outcome.message}\n"
        f"        PYTHONPATH=src:tests {sys.executable} -m fuzz --targets {target.name} --replay {path}"
    )


def replay(chosen: Sequence[Target], path: Path) -> int:
    """Run one written case in this process, without limits, so that its traceback can be read."""
    [target] = chosen
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for name in ("samples", "case"):
            (place / name).mkdir()
        target.seeds(place / "samples")
        target.read(path.read_bytes(), place / "case")
    finally:
        target.close()
        shutil.rmtree(place, ignore_errors=True)
    print("accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
