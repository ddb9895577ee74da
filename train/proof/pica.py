"""The proof of PiCA's success model on the embedded encyclopedia; exits with 1 unless it holds.

A model made from nothing is trained on labelled rollouts of noisy experts. On questions whose relations and templates
it was never trained on, in a world of its own, log f(t) − log f(t−1) must tell pivots from other tool turns: the lower
end of the 95 % interval of its AUC (bootstrap over questions) must exceed 0.7, and so must, above 0, that of its lead
over a lexical baseline trained on the same turns. Then the calibration error of f, and the ablation.

The model reads names as ``success_names`` writes them, by where they first and last stood; the baseline counts which
words are shared. What the baseline would make of the model's own texts is measured as well, and is no part of the claim:
logistic regression on how often names of each standing stand in action and result.

  python -m creditflow.train.proof.pica [--out FILE] [--work DIR] [--split dev] [--quick]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.annotate.success.labelling.labels import write_labels
from creditflow.train.annotate.success.labelling.pipeline import label_log
from creditflow.train.annotate.success.metrics import calibration_error
from creditflow.train.annotate.success.names import plain_words
from creditflow.train.commands.arguments.parser import CommandParser
from creditflow.train.proof.ablation import ARMS, run_arm
from creditflow.train.proof.lexical import FEATURES, Lexical, overlap_features, standing_features
from creditflow.train.proof.world import SPLITS, Split, WorldSize, env_options, questions, rollouts
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping, read_dataclass
from creditflow.train.statistics import auroc, cluster_bootstrap
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Sizes", "main", "prove"]

CONFIG: Final = "success_model.yaml"
LEAST_AUC: Final = 0.7
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Features = Callable[[Trajectory, str], Floats]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything.

    Attributes:
        train_worlds: seeds of the training worlds.
        train, test: sizes of worlds; many questions with few episodes each, to avoid memorisation.
        steps: of the success model; 0 keeps the config's.
        questions, group, iterations, seeds: of the ablation.
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


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Labelled tool turns: scores, marks, and the indices of each question's."""

    score: dict[str, Floats]
    pivot: Bools
    parts: list[NDArray[np.int64]]


def prove(sizes: Sizes, split: Split, work: Path) -> dict[str, Any]:
    """Everything; returns what is written as evidence."""
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
    baselines = {name: (feature, Lexical(*_baseline_data(train, feature))) for name, feature in features.items()}
    judged = _turns(test, annotator, baselines)
    result = {
        "held_out": asdict(split), "lexical_features": FEATURES,
        "train": {"questions": len(train), "episodes": sum(map(len, train)), "success": _success(train)},
        "test": {"questions": len(test), "episodes": sum(map(len, test)), "success": _success(test),
                 "turns": len(judged.pivot), "pivots": int(judged.pivot.sum())},
        **_verdict(judged),
        "calibration_error": _calibration(test, annotator),
    }  # fmt: skip
    note("judging")
    result["ablation"] = _ablation(sizes, split, annotator)
    note("ablation")
    return result | {"sizes": asdict(sizes), "config": data, "cpu_seconds": spent}


def _success(groups: Sequence[Group]) -> float:
    return float(np.mean([member.success for group in groups for member in group.trajectories]))


def _turn_labels(groups: Sequence[Group]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Marks of tool turns that are not the last: the last one's result is in no log, and an answer's mark is the outcome."""
    labels = label_log(groups).labels
    return {(one.group_id, one.trajectory_id): (*one.turn_labels[:-1], "") for one in labels}


def _baseline_data(groups: Sequence[Group], features: Features) -> tuple[Floats, Bools]:
    turn_labels = _turn_labels(groups)
    rows: list[Floats] = []
    pivots: list[bool] = []
    for group in groups:
        for member in group.trajectories:
            member_labels = turn_labels.get((group.group_id, member.trajectory_id), ())
            chosen = [t for t, label in enumerate(member_labels) if label]
            rows.append(features(member, str(group.task["text"]))[chosen])
            pivots += [member_labels[t] == "+" for t in chosen]
    return np.concatenate(rows), np.array(pivots)


def _turns(groups: Sequence[Group], annotator: Any, baselines: Mapping[str, tuple[Features, Lexical]]) -> Turns:
    from creditflow.train.annotate import annotate

    turn_labels = _turn_labels(groups)
    rated = annotate(groups, annotator)
    scores: dict[str, list[float]] = {name: [] for name in ("model", *baselines)}
    pivots: list[bool] = []
    parts: list[NDArray[np.int64]] = []
    for group in rated:
        first = len(pivots)
        for member in group.trajectories:
            member_labels = turn_labels.get((group.group_id, member.trajectory_id), ())
            chosen = [t for t, label in enumerate(member_labels) if label]
            for name, (features, fitted) in baselines.items():
                scores[name] += fitted.score(features(member, str(group.task["text"])))[chosen].tolist()
            for t in chosen:
                values = member.turns[t].values
                scores["model"].append(_log(values["value.pica.next"]) - _log(values["value.pica"]))
                pivots.append(member_labels[t] == "+")
        if len(pivots) > first:
            parts.append(np.arange(first, len(pivots)))
    return Turns({name: np.array(one) for name, one in scores.items()}, np.array(pivots), parts)


def _log(success: float) -> float:
    return float(np.log(max(success, 1e-9)))


def _verdict(turns: Turns) -> dict[str, Any]:
    def area(name: str, at: NDArray[np.int64]) -> float:
        return auroc(turns.score[name][at], turns.pivot[at])

    def lead(at: NDArray[np.int64]) -> float:
        return area("model", at) - area("lexical", at)

    every = np.arange(len(turns.pivot))
    rows = {name: (area(name, every), *_interval(turns, partial(area, name))) for name in turns.score}
    rows["lead"] = (lead(every), *_interval(turns, lead))
    holds = rows["model"][1] > LEAST_AUC and rows["lead"][1] > 0.0
    return {"auc_with_95_percent_interval": rows, "holds": bool(holds)}


def _interval(turns: Turns, statistic: Any) -> tuple[float, float]:
    return cluster_bootstrap(turns.parts, statistic, n_resamples=1000, rng=np.random.default_rng(0))


def _calibration(groups: Sequence[Group], annotator: Any) -> float:
    from creditflow.train.annotate import annotate

    chances, won = [], []
    for group in annotate(groups, annotator):
        for member in group.trajectories:
            values = [turn.values for turn in member.turns]
            chances += [values[0]["value.pica"], *(one["value.pica.next"] for one in values)] if values else []
            won += [member.success] * (len(values) + 1 if values else 0)
    return calibration_error(np.array(chances), np.array(won))


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
            # a question is drawn with all its seeds: they met the same difficulty
            parts = list(np.arange(late_means.size).reshape(late_means.shape).T)
            low, high = cluster_bootstrap(parts, partial(_mean, cells), n_resamples=1000, rng=np.random.default_rng(1))
            row[measure] = {
                "first": float(curves[:, 0].mean()), "late": float(cells.mean()), "low": low, "high": high,
                "curve": [round(float(x), 4) for x in curves.mean(axis=(0, 2))],
            }  # fmt: skip
        table[name] = row
    return table


def _mean(cells: Floats, at: NDArray[np.int64]) -> float:
    return float(cells[at].mean())


def _say(result: dict[str, Any]) -> None:
    test = result["test"]
    held = result["held_out"]
    print(f"\nheld out: relations {', '.join(held['relations'])}; templates {', '.join(held['templates'])}; {test['questions']} "
          f"questions, {test['turns']} tool turns, {test['pivots']} of them pivots")  # fmt: skip
    for name, (value, low, high) in result["auc_with_95_percent_interval"].items():
        print(f"  {name:21} {'AUC ' if name != 'lead' else 'over lexical '}{value:.3f}  [{low:.3f}, {high:.3f}]")
    print(f"  calibration error of f over all places: {result['calibration_error']:.3f}")
    print("\nablation (softmax table, trained-on questions), mean of the last quarter with a 95 % interval:")
    for name, row in result["ablation"].items():
        f1, turns = row["f1"], row["turns"]
        print(f"  {name:28} F1 {f1['first']:.3f} -> {f1['late']:.3f} [{f1['low']:.3f}, {f1['high']:.3f}]   turns "
              f"{turns['first']:.2f} -> {turns['late']:.2f} [{turns['low']:.2f}, {turns['high']:.2f}]")  # fmt: skip
    print(f"\nthe claim {'holds' if result['holds'] else 'DOES NOT HOLD'}")


def _facts(arguments: Sequence[str]) -> dict[str, Any]:
    """Command, commit and versions."""
    import torch
    import transformers

    from creditflow.train.bench.report.provenance import provenance

    command = " ".join(["python -m creditflow.train.proof.pica", *arguments])
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return provenance(arguments, 0) | {"command": command} | versions


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 0 if the claim holds."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--out", metavar="FILE", help="write the evidence as JSON")
    parser.add_argument(
        "--work", metavar="DIR", help="keep logs, labels and the model here (default: a temporary folder)"
    )
    parser.add_argument("--split", choices=list(SPLITS), default="final", help="settings were chosen on the dev splits")
    parser.add_argument("--quick", action="store_true", help="toy sizes: does it run? Its verdict means nothing")
    args = parser.parse_args(argv)
    require_torch()
    sizes = QUICK if args.quick else Sizes()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(args.work or temporary)
        work.mkdir(parents=True, exist_ok=True)
        result = prove(sizes, SPLITS[args.split], work)
    _say(result)
    if args.out:
        facts = _facts(sys.argv[1:] if argv is None else argv)
        with atomic_writer(args.out) as stream:
            # the work folder is this machine's own
            stream.write(json.dumps(facts | result, indent=1).replace(str(work), "WORK") + "\n")
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
