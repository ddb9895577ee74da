"""``creditflow bench --estimator``: advantage code of others, named on the command line and run only then."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.files.atomic import atomic_writer

__all__ = ["ESTIMATES", "add_estimator_arguments", "score_named"]

ESTIMATES: Final = "estimators.json"
PRESETS: Final = ("smoke", "quick")


def add_estimator_arguments(parser: argparse.ArgumentParser) -> None:
    """Define ``--estimator``."""
    parser.add_argument(
        "--estimator", action="append", default=[], metavar="SPEC",
        help="score this advantage function, which runs its code: package.module:FUNCTION or path/to/file.py:FUNCTION, with "
        ":ARGUMENT behind it if it takes one (repeatable)",
    )  # fmt: skip


def score_named(args: argparse.Namespace) -> int:
    """Score the named estimators; print the tables, or with ``--json`` the document, and write it into ``--out``.

    Returns:
        The exit code: 1 if an estimator has no result.

    Raises:
        ConfigError: an option has no effect, or an estimator cannot be loaded.
    """
    from creditflow.train.bench.estimators.loading import load_estimator
    from creditflow.train.bench.estimators.score import score_estimators, scores_text, unscored

    for option, is_set in (("--envs", args.envs is not None), ("--schemes", args.schemes), ("--resume", args.resume),
                          ("--show", args.show), ("--predictions", args.predictions)):  # fmt: skip
        if is_set:
            raise ConfigError(f"{option} has no effect with --estimator; leave it out")
    if args.preset not in PRESETS:
        raise ConfigError(f"--estimator has the presets {', '.join(PRESETS)}, got {short_repr(args.preset)}")
    estimators = [load_estimator(spec) for spec in dict.fromkeys(args.estimator)]
    document = score_estimators(estimators, args.preset, args.seed)
    text = json.dumps(document, indent=1, allow_nan=False)
    print(text if args.json else scores_text(document))
    if args.out:
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_writer(folder / ESTIMATES) as stream:
            stream.write(text + "\n")
    failures = unscored(document)
    for failure in failures:
        print(f"creditflow: {failure}", file=sys.stderr)
    return 1 if failures else 0
