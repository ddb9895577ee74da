"""Summarise the transfer experiments: means and planned differences with intervals, as evidence.

    python tests/evidence/alfworld/transfer/summarize.py ../shared/data/alfworld/alfworld_games_full.tar.xz runs/transfer

Reads what ``tabular.py`` and ``language_model.py`` wrote, and writes ``tests/evidence/alfworld/transfer/results.json``. Intervals are 95 %, over seeds
(other training games, other episodes) and validation games, which all policies play: two-way clustered. As games of one scene are alike,
every difference also has an interval over seeds and scenes, from the means of scenes; valid_unseen has only four. The margins within which
a difference counts as equivalent were fixed before the runs reported: 5 points of success, one command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from evidence.alfworld.released import Content, described_parser, released_contents, scene_of
from evidence.alfworld.transfer.training_sets import evaluation_games

from creditflow.train.bench.report.provenance import provenance
from creditflow.train.statistics import ClusteredMean, crossed_mean

ROOT = Path(__file__).resolve().parents[4]
EVIDENCE = Path(__file__).with_name("results.json")
REPEATED: Final = EVIDENCE.with_name("repeated.json")
MARGINS: Final = {"success": 0.05, "commands": 1.0}
# (policy, its rival): what is subtracted from what
PLANNED: Final = (
    ("generated-100", "released-100"),
    ("generated-400", "released-400"),
    ("standard-v2-400", "released-400"),
    ("standard-v1-400", "released-400"),
    ("refitted-100", "released-100"),
    ("refitted-400", "released-100"),
    ("generated_odd-300", "released_odd-300"),
    ("generated-400 without prior", "released-400 without prior"),
    ("released-400 with generated prior", "released-400"),
    ("generated-400 reinforced", "released-400 reinforced"),
)
Results = Mapping[str, Mapping[str, Mapping[str, NDArray[np.float64]]]]  # policy -> split -> measure -> (seeds, games)


def stacked(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, NDArray[np.float64]]]]:
    """Return the results of several seeds as arrays (seeds, games)."""
    return {
        policy: {
            split: {measure: np.array([run[policy][split][measure] for run in runs]) for measure in measures}
            for split, measures in splits.items()
        }
        for policy, splits in runs[0].items()
    }


def figures(found: ClusteredMean) -> list[float]:
    """Return mean and both ends of the interval."""
    return [round(float(x), 4) for x in (found.mean, *found.interval)]


def by_scene(values: NDArray[np.float64], scenes: Sequence[int]) -> NDArray[np.float64]:
    """Return the means of scenes, (seeds, scenes)."""
    at = np.array(scenes)
    return np.stack([values[:, at == scene].mean(axis=1) for scene in sorted(set(scenes))], axis=1)


def difference(
    first: NDArray[np.float64], second: NDArray[np.float64], scenes: Sequence[int], measure: str
) -> dict[str, Any]:
    """Return first minus second, paired by seed and game."""
    paired = first - second
    found = crossed_mean(paired)
    row: dict[str, Any] = {"over_games": figures(found), "over_scenes": figures(crossed_mean(by_scene(paired, scenes)))}
    if measure in MARGINS:
        row["within_margin"] = bool(max(map(abs, found.interval)) <= MARGINS[measure])
    return row


def tabular(
    results: Results, scenes: Mapping[str, Sequence[int]], planned: Sequence[tuple[str, str]] | None = None
) -> dict[str, Any]:
    """Return means by policy, and the planned differences."""
    return {
        "policies": {
            policy: {split: {m: figures(crossed_mean(x)) for m, x in found.items()} for split, found in splits.items()}
            for policy, splits in results.items()
        },
        "differences": {
            f"{first} - {second}/{decoding}": {
                split: {
                    m: difference(x, results[f"{second}/{decoding}"][split][m], scenes[split], m)
                    for m, x in found.items()
                }
                for split, found in results[f"{first}/{decoding}"].items()
            }
            for first, second in (PLANNED if planned is None else planned)
            for decoding in ("greedy", "sampled")
            if f"{first}/{decoding}" in results and f"{second}/{decoding}" in results
        },
    }


def by_type(results: Results, types: Mapping[str, Sequence[str]], policies: Sequence[str]) -> dict[str, Any]:
    """Return success and commands by task type, over both validation splits."""
    splits = ("valid_seen", "valid_unseen")
    kinds = np.concatenate([types[split] for split in splits])
    found: dict[str, Any] = {}
    for kind in sorted(set(kinds.tolist())):
        chosen = kinds == kind
        found[kind] = {"games": int(chosen.sum())}
        for policy in policies:
            joined = {m: np.concatenate([results[policy][s][m] for s in splits], axis=1) for m in MARGINS}
            found[kind][policy] = {m: round(float(x[:, chosen].mean()), 4) for m, x in joined.items()}
    return found


def language_model(
    runs: Mapping[tuple[str, int], Mapping[str, Any]], scenes: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Return means by kind of training games, and generated minus released, for seeds that have both."""
    seeds = sorted(seed for kind, seed in runs if kind == "generated" and ("released", seed) in runs)
    results = {k: stacked([{k: runs[k, seed]["results"]} for seed in seeds])[k] for k in ("released", "generated")}
    found = tabular({f"{k}/greedy": v for k, v in results.items()}, scenes)["policies"]
    return {
        "seeds": seeds,
        "numbers": {k: [runs[k, seed]["numbers"] for seed in seeds] for k in results},
        "models": found,
        "differences": {
            split: {
                m: difference(x, results["released"][split][m], scenes[split], m)
                for m, x in measures.items()
                if m != "uniform_nats"
            }
            for split, measures in results["generated"].items()
        },
    }


def evidence(games: Mapping[str, Content], folder: Path) -> dict[str, Any]:
    """Return the summary of a folder of results."""
    played = evaluation_games(games)
    scenes = {split: [scene_of(name) for name in found] for split, found in played.items()}
    types = {split: [game["goal"][0] for game in found.values()] for split, found in played.items()}
    runs = [json.loads(path.read_text("ascii")) for path in sorted(folder.glob("tabular-*.json"))]
    results = stacked([run["results"] for run in runs])
    shown = ("released-400/greedy", "generated-400/greedy", "standard-v2-400/greedy")
    models = [json.loads(path.read_text("ascii")) for path in sorted(folder.glob("language_model-*.json"))]
    return {
        "seeds": [run["seed"] for run in runs],
        "games": {split: {"games": len(found), "scenes": len(set(found))} for split, found in scenes.items()},
        "margins": MARGINS,
        "games_and_states": runs[0]["games_and_states"],
        **tabular(results, scenes),
        "by_type": by_type(results, types, [policy for policy in shown if policy in results]),
        "language_model": language_model({(run["kind"], run["seed"]): run for run in models}, scenes)
        if models
        else None,
    }


def repeated(games: Mapping[str, Content], folder: Path) -> dict[str, Any]:
    """Return the summary of ``repeated.py``: houses minus games shown as often, and these minus the games shown once."""
    scenes = {split: [scene_of(name) for name in found] for split, found in evaluation_games(games).items()}
    results = stacked([json.loads(path.read_text("ascii")) for path in sorted(folder.glob("repeated-*.json"))])
    houses, often, once = dict.fromkeys(name.partition("/")[0] for name in results)
    return {
        "seeds": len(next(iter(results[f"{once}/greedy"].values()))["success"]),
        **tabular(results, scenes, [(houses, often), (often, once)]),
    }


def main() -> None:
    parser = described_parser(__doc__, "archive", "archive of the released games")
    parser.add_argument("folder", type=Path, help="folder of the results")
    parser.add_argument("--repeated", action="store_true", help="only what repeated.py wrote")
    parser.add_argument("--out", type=Path, help="file to write")
    args = parser.parse_args()
    summed, out, scripts, word = (
        (repeated, REPEATED, ("repeated.py ARCHIVE --seeds 0 1 2 3 4",), " --repeated")
        if args.repeated
        else (
            evidence,
            EVIDENCE,
            ("tabular.py ARCHIVE --seeds 0 1 2 3 4", "language_model.py ARCHIVE --seeds 0 1 2"),
            "",
        )
    )
    result = {
        **provenance([], 0),
        "job": out.stem,
        "command": f"python tests/evidence/alfworld/transfer/summarize.py ARCHIVE runs/transfer{word}",
        "runs": [f"python tests/evidence/alfworld/transfer/{script}" for script in scripts],
        "date": date.today().isoformat(),
        "machine": "two shared CPU cores, no GPU",
        **summed(released_contents(args.archive), args.folder),
    }
    (args.out or out).write_text(json.dumps(result, indent=1) + "\n", "ascii")


if __name__ == "__main__":
    main()
