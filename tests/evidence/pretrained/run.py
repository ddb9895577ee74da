"""Credit schemes on a pretrained model: imitation once per seed, then every scheme from the same model; README.md has the predictions.

  python tests/evidence/pretrained/run.py --model models/smollm2 --out results.jsonl [--seeds 4] [--schemes grpo,stateless]
      [--work FOLDER] [--set KEY=VALUE]
  python tests/evidence/pretrained/run.py --out results.jsonl --table

A line is appended for each finished run. Called again, the command does the runs that are missing, and continues one that was interrupted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.schema import TrainConfig, load_settings
from creditflow.train.statistics import normal_interval
from creditflow.train.text_table import text_table

__all__ = ["SCHEMES", "missing", "settings_of", "table"]

RECIPE: Final = Path(__file__).resolve().parents[3] / "train/configs/smollm2_sokoban.yaml"
SCHEMES: Final = ("grpo", "stateless", "grouptd", "gigpo", "graphgpo")
PRIMARY: Final = ("grouptd", "stateless")
GROUPTD: Final = "{td_lambda: 0.6, divide_by_success: true, progress_weight: 2.0, progress_count: 8.0, merge_test: 4.0}"


def settings_of(work: Path, model: str, scheme: str, seed: int, overrides: Sequence[str] = ()) -> TrainConfig:
    """The settings of a run; those of "sft" imitate, all others begin with its model."""
    out = work / f"{scheme}-{seed}"
    if scheme == "sft":
        given: tuple[str, ...] = (f"model.path={model}", "update.iterations=0")
    else:
        parameters = GROUPTD if scheme == "grouptd" else "{}"
        given = (
            f"model.path={work / f'sft-{seed}' / 'model'}", "sft.episodes=0", f"credit.scheme={scheme}",
            f"credit.parameters={parameters}", "evaluation.panel=", "update.loss.aggregation=trajectory_mean",
        )  # fmt: skip
    return load_settings(RECIPE, (f"out={out}", f"seed={seed}", *given, *overrides))


def missing(done: Sequence[Mapping[str, Any]], seeds: int, schemes: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Seed and scheme of the runs that have no line yet, seed by seed, imitation first."""
    known = {(row["seed"], row["scheme"]) for row in done}
    for seed in range(seeds):
        yield from ((seed, scheme) for scheme in ("sft", *schemes) if (seed, scheme) not in known)


def _run(settings: TrainConfig) -> dict[str, Any]:
    """Run or continue a run; the numbers of its final evaluation."""
    from creditflow.train.trainer import Trainer

    folder = Path(settings.out)
    Trainer(settings, resume=(folder / "checkpoints").is_dir()).run()
    records = read_metrics(folder / "metrics.jsonl")
    return next(record for record in reversed(records) if "sampled" in record)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds with 95 % intervals, and the differences to the primary contrast's control, paired by seed."""
    by = {(row["scheme"], row["seed"]): float(row["sampled"]) for row in rows}
    seeds = sorted({seed for _, seed in by})
    lines = []
    for scheme in dict.fromkeys(scheme for scheme, _ in by):
        found = np.array([by[scheme, seed] for seed in seeds if (scheme, seed) in by])
        paired = np.array(
            [by[scheme, s] - by[PRIMARY[1], s] for s in seeds if (scheme, s) in by and (PRIMARY[1], s) in by]
        )
        lines.append((scheme, str(len(found)), _shown(found), _shown(paired)))
    return text_table([("arm", "seeds", "success", f"minus {PRIMARY[1]}"), *lines])


def _shown(values: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    if len(values) < 2:
        return f"{values.mean():.3f}" if len(values) else ""
    low, high = normal_interval(values)
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="models/smollm2", help="folder of the imported model")
    parser.add_argument("--out", type=Path, required=True, help="results, one line per run")
    parser.add_argument("--work", type=Path, default=Path("runs/pretrained"), help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--table", action="store_true", help="print the table of the results, and run nothing")
    options = parser.parse_args()
    done = [json.loads(line) for line in options.out.read_text("utf-8").splitlines()] if options.out.exists() else []
    if options.table:
        print(table(done))
        return
    for seed, scheme in missing(done, options.seeds, options.schemes.split(",")):
        settings = settings_of(options.work, options.model, scheme, seed, options.set)
        row = {"scheme": scheme, "seed": seed} | _run(settings)
        with options.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        print(
            f"{scheme} {seed}: {row['sampled']:.3f} [{row['sampled_ci_low']:.3f}, {row['sampled_ci_high']:.3f}]",
            flush=True,
        )


if __name__ == "__main__":
    main()
