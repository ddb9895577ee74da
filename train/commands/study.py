"""Measure credit schemes against exact values on tabular tasks: metrics, controls, learning curves, predictions.

creditflow study --preset quick --out runs/study.json
creditflow study --show runs/study.json
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditflow.envs.atomic import atomic_writer
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.bench.predictions import judge_predictions, load_predictions
from creditflow.train.bench.run import provenance
from creditflow.train.bench.sanity import broken_rules, require_sane
from creditflow.train.bench.study import PRESETS, cells_of, correlations, run_cell
from creditflow.train.bench.study_plots import plot_bias_variance, plot_curves
from creditflow.train.bench.study_tables import study_text
from creditflow.train.progress import progress

__all__ = ["add_arguments", "run"]

STUDY_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--preset", choices=list(PRESETS), default="quick", help="amount of work (default quick)")
    parser.add_argument("--seed", type=int, default=0, help="of tasks and rollouts (default 0)")
    parser.add_argument("--out", metavar="FILE", help="where to write the study: .json or .json.gz")
    parser.add_argument("--show", metavar="FILE", help="print the tables of a study that was written before")
    parser.add_argument("--plots", metavar="DIR", help="write bias-variance.png and curves.png there")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.show:
        try:
            _show(json.loads(_text(Path(args.show))), args.plots)
        except (ValueError, KeyError) as error:
            raise DataError(f"{args.show} is not a study: {error!r}") from error
        return 0
    if not args.out or args.seed < 0:
        raise ConfigError("creditflow study needs --out FILE (or --show FILE), and a seed of at least 0")
    preset = PRESETS[args.preset]
    began = time.time()
    wanted = cells_of(preset)
    shown = progress(wanted, f"study {args.preset}", len(wanted))
    cells = [run_cell(cell, preset, args.seed) for cell in shown]
    facts = provenance(sys.argv[1:], args.seed)
    study = {
        "study_version": STUDY_VERSION,
        "provenance": facts | {"preset": args.preset, "seconds": round(time.time() - began, 1)},
        "predictions_written": load_predictions()["written"],
        "predictions": judge_predictions(cells),
        "correlations": correlations(cells),
        "broken_rules": broken_rules(cells),
        "cells": cells,
    }
    with atomic_writer(args.out) as stream:
        json.dump(study, stream, indent=None, separators=(",", ":"), allow_nan=False)
    _show(study, args.plots)
    require_sane(cells)
    return 0


def _text(path: Path) -> str:
    packed = path.read_bytes()
    return (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8")


def _show(study: Mapping[str, Any], plots: str | None) -> None:
    print(study_text(study))
    if plots:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        plot_bias_variance(study, folder / "bias-variance.png")
        plot_curves(study, folder / "curves.png")
