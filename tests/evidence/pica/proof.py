"""The proof of PiCA's success model on the embedded encyclopedia; exits with 1 unless it holds.

A model with random initial weights is trained on labelled rollouts of noisy experts. On questions whose relations and
templates it was never trained on, in a world of its own, log f(t) − log f(t−1) must separate pivots from other tool
turns: the lower end of the 95 % interval of its AUC (bootstrap over questions) must exceed 0.7, and that of its lead over
a lexical baseline trained on the same turns must exceed 0. The calibration error of f and the ablation are reported too,
as is the significance test of the paper's appendix F, over training runs.

The model reads names as ``train/annotate/success/names.py`` rewrites them, by where they first and last occurred; the
baseline counts shared words. A second baseline, which is no part of the claim, reads the model's own texts: logistic
regression on how often each kind of rewritten name occurs in action and result.

  python tests/evidence/pica/proof.py [--out FILE] [--work DIR] [--force] [--split dev] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.pica.ablation import ARMS, run_arm
from evidence.pica.lexical import FEATURES, Lexical, overlap_features, standing_features
from evidence.pica.pivots import Features, auc_verdict, baseline_data, calibration_of, score_turns
from evidence.pica.significance import COMPARED, STARTS, significance, significance_text
from evidence.pica.world import SPLITS, Split, WorldSize, env_options, questions, rollouts

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.annotate.success.labelling import label_log
from creditflow.train.annotate.success.labels import write_labels
from creditflow.train.annotate.success.names import plain_words
from creditflow.train.arguments.outputs import Output, add_output, named
from creditflow.train.arguments.programs import run_program
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping, read_dataclass
from creditflow.train.statistics import cluster_bootstrap
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl

__all__ = ["Sizes", "add_arguments", "main", "prove", "run"]

CONFIG: Final = "success_model.yaml"
WORK_FILES: Final = ("train.jsonl", "train.labels.jsonl", "run")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the data, the training and the ablation.

    Attributes:
        train_worlds: seeds of the training worlds.
        train, test: sizes of worlds; many questions with few episodes each, to avoid memorisation.
        steps: of the success model; 0 keeps the config's.
        questions, group, iterations, seeds: of the ablation, and of the runs of the significance test.
    """

    train_worlds: tuple[int, ...] = (11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
    train: WorldSize = field(default_factory=lambda: WorldSize(1500, 1200, 2))
    test: WorldSize = field(default_factory=lambda: WorldSize(1500, 900, 3))
    steps: int = 0
    questions: int = 8
    group: int = 6
    iterations: int = 20
    seeds: int = 3


QUICK: Final = Sizes((1,), WorldSize(400, 60, 2), WorldSize(400, 60, 2), 3, 2, 2, 1, 2)


def prove(sizes: Sizes, split: Split, work: Path) -> dict[str, Any]:
    """Train the model and the baselines, test them and run the ablation; returns the evidence as JSON data.

    Args:
        sizes: of worlds, training and ablation.
        split: what is held out for the test.
        work: folder for logs, labels and the model.
    """
    from creditflow.train.annotate import make_annotator
    from creditflow.train.annotate.success.settings import SuccessTrainConfig
    from creditflow.train.annotate.success.training import SuccessTrainer

    began = time.process_time()
    spent: dict[str, float] = {}

    def note(name: str) -> None:
        spent[name] = round(time.process_time() - began - sum(spent.values()), 1)
        print(f"{name}: {spent[name]} cpu-s", flush=True)

    train = [
        group
        for seed in sizes.train_worlds
        for group in rollouts(seed, sizes.train, questions(seed, sizes.train, lambda q: not split.held_out(q)))
    ]
    test = rollouts(split.world, sizes.test, questions(split.world, sizes.test, split.held_out))
    note("rollouts")
    write_jsonl(work / "train.jsonl", train)
    write_labels(work / "train.labels.jsonl", label_log(train).labels)
    overrides = [
        f"out={work / 'run'}",
        f"data.log={work / 'train.jsonl'}",
        f"data.labels={work / 'train.labels.jsonl'}",
    ]
    with resources.as_file(resources.files("creditflow.train.configs") / CONFIG) as path:
        data = apply_overrides(load_mapping(path), [*overrides, *([f"steps={sizes.steps}"] if sizes.steps else [])])
    settings = read_dataclass(SuccessTrainConfig, data)
    SuccessTrainer(settings).run()
    note("training")
    annotator = make_annotator(f"success:{work / 'run' / 'model'}")
    plain = frozenset(plain_words(text for group in train for t in group.turns for text in (t.observation, t.action)))
    features: dict[str, Features] = {
        "lexical": overlap_features,
        "lexical and standings": lambda member, question: standing_features(member, question, plain),
    }
    baselines = {name: (feature, Lexical(*baseline_data(train, feature))) for name, feature in features.items()}
    scored = score_turns(test, annotator, baselines)
    result = {
        "held_out": asdict(split), "lexical_features": FEATURES,
        "train": {"questions": len(train), "episodes": sum(map(len, train)), "success": _success_rate(train)},
        "test": {"questions": len(test), "episodes": sum(map(len, test)), "success": _success_rate(test),
                 "turns": len(scored.pivot), "pivots": int(scored.pivot.sum())},
        **auc_verdict(scored),
        "calibration_error": calibration_of(test, annotator),
    }  # fmt: skip
    note("judging")
    result["ablation"] = _ablation(sizes, split, annotator)
    note("ablation")
    result["significance"] = _significance(sizes, split, annotator)
    note("significance")
    return result | {"sizes": asdict(sizes), "config": data, "cpu_seconds": spent}


def _success_rate(groups: Sequence[Group]) -> float:
    return float(np.mean([member.success for group in groups for member in group.trajectories]))


def _ablation(sizes: Sizes, split: Split, annotator: Any) -> dict[str, Any]:
    """Means over the last quarter of iterations, with intervals over questions, each with all its seeds."""
    tasks = questions(split.world, sizes.test, split.held_out)[: sizes.questions]
    options = env_options(split.world, sizes.test)
    late = max(1, sizes.iterations // 4)
    table: dict[str, Any] = {}
    for name in ARMS:
        arms = [
            run_arm(name, tasks, options, annotator, iterations=sizes.iterations, group=sizes.group, seed=seed)
            for seed in range(sizes.seeds)
        ]
        row = {}
        for measure in ("f1", "turns"):
            curves = np.stack([getattr(arm, measure) for arm in arms])  # seeds, iterations + 1, questions
            late_means = curves[:, -late:].mean(axis=1)  # seeds, questions
            cells = late_means.reshape(-1)
            # a question is resampled with all its seeds: they share its difficulty
            parts = list(np.arange(late_means.size).reshape(late_means.shape).T)
            low, high = cluster_bootstrap(parts, partial(_mean, cells), n_resamples=1000, rng=np.random.default_rng(1))
            row[measure] = {
                "first": float(curves[:, 0].mean()), "late": float(cells.mean()), "low": low, "high": high,
                "curve": [round(float(x), 4) for x in curves.mean(axis=(0, 2))],
            }  # fmt: skip
        table[name] = row
    return table


def _significance(sizes: Sizes, split: Split, annotator: Any) -> dict[str, Any]:
    """The paper's test: runs of the arms from several initial policies, each with all seeds."""
    tasks = questions(split.world, sizes.test, split.held_out)[: sizes.questions]
    options, late = env_options(split.world, sizes.test), max(1, sizes.iterations // 4)

    def run_of(name: str, start: float, seed: int) -> float:
        arm = run_arm(
            name,
            tasks,
            options,
            annotator,
            iterations=sizes.iterations,
            group=sizes.group,
            seed=seed,
            optimal_prob=start,
        )
        return float(arm.f1[-late:].mean())

    runs = {
        name: [[run_of(name, start, seed) for seed in range(1, sizes.seeds + 1)] for start in STARTS]
        for name in COMPARED
    }
    return significance(runs) | {"starts": list(STARTS), "runs": runs}


def _mean(cells: Floats, at: NDArray[np.int64]) -> float:
    return float(cells[at].mean())


def _print_summary(result: dict[str, Any]) -> None:
    test = result["test"]
    held = result["held_out"]
    print(f"\nheld out: relations {', '.join(held['relations'])}; templates {', '.join(held['templates'])}; {test['questions']} "
          f"questions, {test['turns']} tool turns, {test['pivots']} of them pivots")  # fmt: skip
    for name, (value, low, high) in result["auc_with_95_percent_interval"].items():
        print(f"  {name:21} {'AUC ' if name != 'lead' else 'over lexical '}{value:.3f}  [{low:.3f}, {high:.3f}]")
    print(f"  calibration error of f over all turn ends: {result['calibration_error']:.3f}")
    print("\nablation (softmax table, trained-on questions), mean of the last quarter with a 95 % interval:")
    for name, row in result["ablation"].items():
        f1, turns = row["f1"], row["turns"]
        print(f"  {name:28} F1 {f1['first']:.3f} -> {f1['late']:.3f} [{f1['low']:.3f}, {f1['high']:.3f}]   turns "
              f"{turns['first']:.2f} -> {turns['late']:.2f} [{turns['low']:.2f}, {turns['high']:.2f}]")  # fmt: skip
    print(f"\n{significance_text(result['significance'])}")
    print(f"\nthe claim {'holds' if result['holds'] else 'DOES NOT HOLD'}")


def _provenance(command_line: str) -> dict[str, Any]:
    """Command, commit and versions."""
    import torch
    import transformers

    from creditflow.train.bench.report.provenance import provenance

    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return provenance([], 0) | {"command": command_line} | versions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_output(parser, "--out", metavar="FILE", help="write the evidence as JSON")
    add_output(
        parser, "--work", Output(kind="folder", owned=named(*WORK_FILES), cleared=True), metavar="DIR",
        help="keep logs, labels and the model here (default: a temporary folder)",
    )  # fmt: skip
    parser.add_argument("--split", choices=list(SPLITS), default="final", help="settings were chosen on the dev splits")
    parser.add_argument(
        "--quick", action="store_true", help="toy sizes, to test the code path; the result is no evidence"
    )


def run(args: argparse.Namespace) -> int:
    """Run the program; returns 0 if the claim holds, 1 otherwise."""
    require_torch()
    sizes = QUICK if args.quick else Sizes()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(args.work or temporary)
        work.mkdir(parents=True, exist_ok=True)
        result = prove(sizes, SPLITS[args.split], work)
    _print_summary(result)
    if args.out:
        facts = _provenance(args.command_line)
        with atomic_writer(args.out) as stream:
            # the path of the work folder differs between machines
            stream.write(json.dumps(facts | result, indent=1).replace(str(work), "WORK") + "\n")
    return 0 if result["holds"] else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("evidence.pica.proof", arguments, script="tests/evidence/pica/proof.py")


if __name__ == "__main__":
    raise SystemExit(main())
