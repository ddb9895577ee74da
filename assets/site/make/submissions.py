"""Submitted benchmark results: every file in `tests/evidence/submissions` is checked and shown beside the leaderboard.

Run: ``python -m creditflow.assets.site.make.submissions FILE …`` checks files before they are sent. A file is named
``WHO.LABEL.json.gz`` and is the ``results.json`` of one run, compressed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.assets.site.markdown import table
from creditflow.assets.site.repository import ROOT
from creditflow.envs.errors import CreditflowError, DataError, short_repr
from creditflow.envs.reading.failures import loading, naming
from creditflow.train.bench.exact.cells import Cell, cells_of, starts_of
from creditflow.train.bench.exact.tasks import exact_kinds
from creditflow.train.bench.language_model.suite.work import LM_PRESETS
from creditflow.train.bench.methods import base_method, is_control
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tidy import BASELINE
from creditflow.train.bench.results import read_results
from creditflow.train.cards.figures import Regime, figures_of

__all__ = ["FOLDER", "Submission", "main", "read_submission", "section"]

FOLDER: Final = "tests/evidence/submissions"
LISTED: Final = ("quick", "lm")  # presets of the leaderboard
SUITES: Final = ("grids", "shared")
CONTROLS: Final = frozenset({BASELINE, "oracle_adv", "flipped(oracle_adv)", "shuffled(oracle_adv)"})
NAME: Final = re.compile(r"(?P<who>[a-z0-9][a-z0-9-]{0,38})\.[a-z0-9][a-z0-9-]{0,38}\.json\.gz")
COMMIT: Final = re.compile(r"[0-9a-f]{7,40}")
MAX_BYTES: Final = 2 * 2**20  # of a file; the stored run of the preset lm has 0.8 MB
MAX_METHODS: Final = 40  # schemes in a file
MAX_TEXT: Final = 300  # characters of a command that are shown; its beginning


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked result.

    Attributes:
        who: from the file's name.
        file: the file's name.
        preset, seed, command, commit: from its provenance; the command may be any text.
        figures: by regime, method and endpoint the mean with its 95 % interval; schemes and ``oracle_adv``.
    """

    who: str
    file: str
    preset: str
    seed: int
    command: str
    commit: str
    figures: Mapping[Regime, Mapping[str, Mapping[str, Estimate]]]


def read_submission(path: Path, presets: Sequence[str] = ()) -> Submission:
    """Read and check a submitted file.

    Args:
        path: the file.
        presets: the accepted presets; those of the leaderboard if empty.

    Raises:
        DataError, ConfigError: it is damaged, too large, of another version, preset or set of tasks, grpo or the controls are missing, or a
            sanity check fails.
    """
    named = NAME.fullmatch(path.name)
    if named is None:
        raise DataError(f"{path}: expected a name like ada.grids.json.gz: who, a label, lower case, digits and hyphens")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise DataError(
            f"{path} has {size:,} bytes; the limit is {MAX_BYTES:,}. Send only results.json, compressed with gzip"
        )
    document = read_results(path)
    with (
        naming(path),
        loading(f"{path}: the parts of the file contradict each other"),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        preset, seed, command, commit = _provenance(path, document["provenance"], presets or LISTED)
        _check_tasks(path, document, preset, seed)
        _check_methods(path, document)
        figures = figures_of(document)
        failed = [
            f"{check.suite}: {check.check} ({check.observed})" for check in sanity_checks(document) if not check.passed
        ]
        values = [estimate.mean for of in figures.values() for ends in of.values() for estimate in ends.values()]
    if not figures or not all(map(math.isfinite, values)):
        raise DataError(f"{path}: expected finite results of the suite grids, the suite shared or the preset lm")
    if failed:
        raise DataError(f"{path}: sanity checks failed: {'; '.join(failed)}")
    return Submission(named["who"], path.name, preset, seed, command, commit, figures)


def _provenance(path: Path, found: Mapping[str, Any], presets: Sequence[str]) -> tuple[str, int, str, str]:
    preset, seed, command, commit = (found.get(name) for name in ("preset", "seed", "command", "commit"))
    if preset not in presets:
        raise DataError(f"{path}: expected the preset {' or '.join(presets)}, got {short_repr(preset)}")
    if not isinstance(seed, int) or not isinstance(command, str) or not isinstance(commit, str):
        raise DataError(
            f"{path}: the provenance has no seed, command or commit. Write results.json with `creditflow bench`"
        )
    if not COMMIT.fullmatch(commit):
        raise DataError(
            f"{path}: expected the hash of a commit, got {short_repr(commit)}; run it in a clean git checkout"
        )
    return str(preset), seed, command, commit


def _check_tasks(path: Path, document: Mapping[str, Any], preset: str, seed: int) -> None:
    """The sizes are those of the preset, and the tasks of tables those of preset and seed, by their hashes."""
    sizes = asdict(PRESETS[preset]) if preset in PRESETS else LM_PRESETS[preset].to_json()
    stored = {
        name: of for name, of in document["amounts"].items() if name != "methods"
    }  # --schemes chooses the methods
    if not stored or not _agrees(stored, json.loads(json.dumps(sizes))):
        raise DataError(
            f"{path}: the sizes differ from those of the preset {preset}. Run the preset of the present release"
        )
    for suite in document["suites"]:
        if suite["spec"] not in SUITES or suite["name"] != suite["spec"]:
            raise DataError(f"{path}: expected the suites {' and '.join(SUITES)}, got {short_repr(suite['spec'])}")
    for cells in [suite["cells"] for suite in document["suites"] if suite["spec"] == "grids"]:
        work = PRESETS[preset].grids
        cells_and_tasks = [(Cell(cell["kind"], cell["success"], cell["size"]), cell["task_names"]) for cell in cells]
        if cells_and_tasks != [
            (cell, _names(cell, seed, work.tasks)) for cell in cells_of(exact_kinds("grids")[0], work)
        ]:
            raise DataError(f"{path}: the settings and tasks differ from those of the preset {preset} with seed {seed}")


def _agrees(stored: Any, present: Any) -> bool:
    """Whether stored sizes are the present ones; what a preset was given since then does not count."""
    if isinstance(stored, Mapping) and isinstance(present, Mapping):
        return all(_agrees(value, present.get(name)) for name, value in stored.items())
    return bool(stored == present)


def _names(cell: Cell, seed: int, count: int) -> list[str]:
    return [mdp.name for mdp, _ in starts_of("grids", cell.kind, cell.success, seed, count)]


def _check_methods(path: Path, document: Mapping[str, Any]) -> None:
    """grpo and the controls were measured in every part, and few enough schemes."""
    methods = [{*suite["schemes"], *suite["controls"]} for suite in document["suites"]]
    if "language_models" in document:
        methods += [set(family["one_step"][0]) for family in document["language_models"]["families"].values()]
    absent = {name for names in methods for name in CONTROLS - names}
    if absent or not methods:
        raise DataError(
            f"{path}: no results of {', '.join(sorted(absent))}. Measure grpo and the controls in the same run"
        )
    if any(len({base_method(name) for name in names}) > MAX_METHODS for names in methods):
        raise DataError(f"{path}: more than {MAX_METHODS} schemes. Send only your own")


def submissions() -> Iterator[Submission]:
    """The checked files of the folder, by name.

    Raises:
        DataError: one of them is not sound, or it is no result.
    """
    for path in sorted((ROOT / FOLDER).iterdir()):
        if path.name != "README.md":
            yield read_submission(path)


def section(found: Sequence[Submission]) -> str:
    """The part of the page that shows submitted results."""
    if not found:
        return "No result has been submitted yet."
    rows = [["who", "method", "regime", "learning compared with grpo, points", "M2", "M2 of grpo"]]
    for submission in found:
        for regime, methods in submission.figures.items():
            for method, ends in methods.items():
                if method == BASELINE or is_control(method):
                    continue
                learning, step, base = ends.get("learning"), ends.get("step"), methods.get(BASELINE, {}).get("step")
                area = Estimate(*(100 * x for x in (learning.mean, learning.low, learning.high))) if learning else None
                cells = [area.text(1, "+") if area else "–", *(x.text(2) if x else "–" for x in (step, base))]
                rows.append([submission.who, quoted(method), regime, *cells])
    runs = [["file", "command", "commit", "seed"]]
    runs += [
        [f"`{submission.file}`", quoted(submission.command), f"`{submission.commit}`", str(submission.seed)]
        for submission in found
    ]
    return f"The build of the site checked these files. It did not repeat the runs.\n\n{table(rows)}\n{table(runs)}"


def quoted(text: str) -> str:
    r"""Text of a stranger as a code span: nothing in it is Markdown or HTML, and it is one line.

    >>> quoted("`a` <b>\n" + "c" * 400)[:12]
    '`·a· <b>·ccc'
    """
    plain = "".join(c if c.isprintable() and c != "`" else "·" for c in text[:MAX_TEXT]).strip()
    return f"`{plain or '·'}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check files; returns 1 if one of them is not sound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="WHO.LABEL.json.gz")
    parser.add_argument(
        "--preset", default=",".join(LISTED), metavar="NAMES", help="accepted presets; default %(default)s"
    )
    args = parser.parse_args(arguments)
    code = 0
    for path in args.files:
        try:
            submission = read_submission(path, args.preset.split(","))
        except (CreditflowError, OSError) as error:
            print(error, file=sys.stderr)
            code = 1
            continue
        print(f"{path} is valid: {submission.who}, preset {submission.preset}, seed {submission.seed}")
        print(section([submission]))
    return code


if __name__ == "__main__":
    sys.exit(main())
