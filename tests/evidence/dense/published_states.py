"""Writes ``tests/evidence/dense/published_states.json``: does a published encoder find equal states better than n-grams do?

    PYTHONPATH=src OMP_NUM_THREADS=1 python tests/evidence/dense/published_states.py --encoder FOLDER [--out FILE]

Rollouts of noisy experts on embedded tasks, as for ``tests/evidence/merging/results.json``, and of ALFWorld; there also with a time stamp before every text and
its sentences in one of two or three wordings, drawn for every visit. The truth is the environment's state key. ``hash`` is the embedder of the schemes'
``merge="hash"``, ``encoder`` that of ``creditflow merge --by hf:FOLDER@T``.

Two measures, both of every task and averaged over tasks, with 95 % t-intervals and paired differences: the area under the ROC curve of
similarities of two texts of a task, positive if they show a common true state; and of the clusters ("leader clusters", ``similar_states``) the precision and recall
of pairs of turns, with F1. The threshold of each embedder is the one with the best F1 on the tasks of even number; the figures are of the others.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.sentence_embedder import SentenceEmbedder
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.cli import main as creditflow
from creditflow.train.statistics import auroc, crossed_mean, holm
from creditflow.wrappers.canonical.embedding import DenseVectors, Embedder, HashingEmbedder, SparseVectors
from creditflow.wrappers.canonical.merge import TextSource, merged_group, similar_states, state_texts
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

PLAY = (
    "rollout --agent noisy:0.4 --panel {panel} --seed 0 --limit {limit} --group-size {size} --env {env} --out log.jsonl"
)
SHOP = PLAY.format(
    env="webshop --env-set preset=graphgpo --env-set ads={ads}", panel="standard-v1:train", limit=16, size=8
)
SEARCH = PLAY.format(
    env="wikisearch --env-set dialect=plain --env-set max_steps=4", panel="standard-v1:train", limit=40, size=5
)
HOUSE = PLAY.format(env="alfworld --env-set text_key=rewardflow", panel="standard-v3:train", limit=24, size=8)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)
DEFAULT = 0.9  # of the schemes' merge_threshold
FRAMES = (  # of ALFWorld's sentences, and other wordings of the same
    (r"You arrive at ([^.]+)\.", (r"You arrive at \1.", r"You walk over to \1.", r"Now you stand by \1.")),
    (r"[OI]n the ([^,.]+), you see ([^.]+)\.", (r"On the \1, you see \2.", r"The \1 holds \2.", r"There you find \2.")),
    (r"The ([^.]+) is closed\.", (r"The \1 is closed.", r"The \1 is shut.")),
    (r"You are carrying: ([^.]+)\.", (r"You are carrying: \1.", r"In your hand is \1.", r"You hold \1.")),
    (r"You are not carrying anything\.", ("You are not carrying anything.", "Your hands are empty.")),
    (r"You pick up the ([^.]+) from the ([^.]+)\.", (r"You pick up the \1 from the \2.", r"From the \2 you take the \1.")),
    (r"You move the ([^.]+) to the ([^.]+)\.", (r"You move the \1 to the \2.", r"The \2 now has the \1.")),
)  # fmt: skip


@dataclass
class Remembered:
    """An embedder that embeds every text once."""

    embedder: Embedder
    known: dict[str, Any] = field(default_factory=dict)

    def embed(self, texts: Sequence[str]) -> SparseVectors | DenseVectors:
        """One row per text."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        if missing:
            found = self.embedder.embed(missing)
            if isinstance(found, SparseVectors):
                ends = zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)
                rows: Any = [(found.feature[a:b], found.weight[a:b]) for a, b in ends]
            else:
                rows = found
            self.known |= dict(zip(missing, rows, strict=True))
        rows = [self.known[text] for text in texts]
        if not rows or isinstance(rows[0], np.ndarray):
            return np.array(rows, np.float32)
        offsets = np.concatenate([[0], np.cumsum([len(feature) for feature, _ in rows])])
        features, weights = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
        return SparseVectors(features, weights, offsets)


def one_of(wordings: Sequence[str], rng: np.random.Generator) -> Callable[[re.Match[str]], str]:
    """A replacement for ``re.sub``: one of the wordings for each match."""
    return lambda match: match.expand(wordings[int(rng.integers(len(wordings)))])


def reworded(text: str, rng: np.random.Generator) -> str:
    """A text with a time stamp, each of its sentences in one wording."""
    for pattern, wordings in FRAMES:
        text = re.sub(pattern, one_of(wordings, rng), text)
    hour, minute, second = rng.integers((24, 60, 60)).tolist()
    return f"[{hour:02}:{minute:02}:{second:02}] {text}"


def disturbed(groups: Sequence[Group]) -> list[Group]:
    """The groups with every text key reworded, each visit anew."""
    rng = np.random.default_rng(0)
    return [
        Group(
            tuple(
                replace(one, turns=tuple(replace(turn, text_key=reworded(turn.text_key, rng)) for turn in one.turns))
                for one in group.trajectories
            ),
            group.task,
        )
        for group in groups
    ]


def products(vectors: SparseVectors | DenseVectors) -> NDArray[np.float64]:
    """All inner products, (n, n)."""
    if not isinstance(vectors, SparseVectors):
        return np.asarray(vectors, np.float64) @ np.asarray(vectors, np.float64).T
    _, column = np.unique(vectors.feature, return_inverse=True)
    rows = np.zeros((len(vectors), int(column.max()) + 1))
    rows[np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets)), column] = vectors.weight
    return rows @ rows.T


def area(group: Group, embedder: Embedder, source: TextSource) -> float:
    """Area under the ROC curve of two texts' similarity; NaN without a pair of either kind."""
    texts, true = state_texts(group, source), group.states("state").state
    shown: dict[str, set[int]] = {}
    for text, state in zip((texts[k] for k in group.states("text").state.tolist()), true.tolist(), strict=True):
        if text is not None:
            shown.setdefault(text, set()).add(state)
    names = sorted(shown)
    first, second = np.triu_indices(len(names), 1)
    same = [
        not shown[names[i]].isdisjoint(shown[names[j]]) for i, j in zip(first.tolist(), second.tolist(), strict=True)
    ]
    return auroc(np.round(products(embedder.embed(names))[first, second], 9), np.array(same, np.bool_))


def pairs(labels: NDArray[np.int64]) -> int:
    """Unordered pairs of equal labels."""
    count = np.unique(labels, return_counts=True)[1]
    return int((count * (count - 1) // 2).sum())


def agreement(group: Group, merged: Group) -> tuple[float, float, float]:
    """Precision, recall and F1 of pairs of turns in one merged state, as pairs in one true state; precision is 1 without pairs."""
    true = group.states("state").state.astype(np.int64)
    label = merged.states("text").state.astype(np.int64)
    both = pairs(label * (int(true.max()) + 1) + true)
    precision = both / pairs(label) if pairs(label) else 1.0
    recall = both / pairs(true) if pairs(true) else 1.0
    return precision, recall, 2 * precision * recall / (precision + recall) if both else 0.0


def mean(values: Sequence[float] | NDArray[np.float64]) -> list[float]:
    """Mean over tasks and the ends of its interval."""
    found = crossed_mean(np.array(values)[None])
    return [round(float(value), 4) for value in (found.mean, *found.interval)]


def measured(groups: Sequence[Group], embedders: dict[str, Embedder], source: TextSource) -> dict[str, Any]:
    """Both measures of every embedder, their differences, and the clusters of equal texts for comparison."""
    areas = {name: np.array([area(group, one, source) for group in groups]) for name, one in embedders.items()}
    known = ~np.isnan(np.stack(list(areas.values()))).any(axis=0)
    found: dict[str, Any] = {"tasks_with_both_kinds_of_pairs": int(known.sum())}
    found["auc"] = {name: mean(values[known]) for name, values in areas.items()}
    found["auc"]["difference"] = mean((areas["encoder"] - areas["hash"])[known])
    p = [crossed_mean((areas["encoder"] - areas["hash"])[known][None]).p_value]
    chosen: dict[str, NDArray[np.float64]] = {}
    found["clusters"] = {"equal texts": by_name(np.array([agreement(group, group) for group in groups])[1::2])}
    for name, one in embedders.items():
        table = np.array(
            [[agreement(group, merged_group(group, similar_states(group, one, threshold, source=source).leader)) for group in groups]
             for threshold in THRESHOLDS]
        )  # fmt: skip
        best = int(np.argmax(table[:, ::2, 2].mean(axis=1)))
        chosen[name] = table[best, 1::2]
        found["clusters"][name] = {"threshold": THRESHOLDS[best], **by_name(chosen[name])}
        found["clusters"][f"{name} at {DEFAULT}"] = by_name(table[THRESHOLDS.index(DEFAULT), 1::2])
    change = chosen["encoder"] - chosen["hash"]
    found["clusters"]["difference"] = by_name(change)
    return found | {"p": [*p, crossed_mean(change[:, 2][None]).p_value]}


def by_name(values: NDArray[np.float64]) -> dict[str, list[float]]:
    """Means of precision, recall and F1, (tasks, 3)."""
    return {name: mean(values[:, i]) for i, name in enumerate(("precision", "recall", "f1"))}


def play(command: str) -> list[Group]:
    """Groups of a rollout."""
    with tempfile.TemporaryDirectory(prefix="states.") as folder:
        log = f"{folder}/log.jsonl"
        if creditflow([log if word == "log.jsonl" else word for word in shlex.split(command)]):
            raise SystemExit(f"failed: creditflow {command}")
        return list(read_groups(log))


PARTS: dict[str, tuple[str, TextSource, Callable[[Sequence[Group]], Sequence[Group]]]] = {
    "webshop, no advertisements": (SHOP.format(ads=0), "key", list),
    "webshop, 2 advertisements a page": (SHOP.format(ads=2), "key", list),
    "wikisearch, query shown": (SEARCH, "observation", list),
    "alfworld": (HOUSE, "key", list),
    "alfworld, reworded and stamped": (HOUSE, "key", disturbed),
}


def main() -> None:
    """Play, compare and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True, help="encoder folder")
    parser.add_argument("--limit", type=int, help="the first tasks only, to try it out")
    parser.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    args = parser.parse_args()
    rows: dict[str, Any] = {}
    for name, (command, source, change) in PARTS.items():
        groups = change(play(command)[: args.limit])
        embedders = {"hash": Remembered(HashingEmbedder()), "encoder": Remembered(SentenceEmbedder(args.encoder))}
        began = time.process_time()
        texts = sorted({text for group in groups for text in state_texts(group, source) if text})
        seconds = {}
        for kind, embedder in embedders.items():
            began = time.process_time()
            embedder.embed(texts)
            seconds[kind] = time.process_time() - began
        turns = sum(len(group.turns) for group in groups)
        rows[name] = {"command": f"creditflow {command}", "tasks": len(groups), "turns": turns, "texts": len(texts),
                      "cpu_seconds": seconds, **measured(groups, dict(embedders), source)}  # fmt: skip
        print(name, json.dumps(rows[name]), flush=True)
    adjusted = iter(holm([p for row in rows.values() for p in row["p"]]))
    for row in rows.values():
        p = {measure: float(f"{next(adjusted):.3g}") for measure in ("auc", "f1")}
        row.pop("p")
        row["adjusted_p_of_differences"] = p
    report = {
        **provenance([], 0), "command": "python tests/evidence/dense/published_states.py --encoder FOLDER",
        "versions": {name: version(name) for name in ("torch", "transformers")}, "thresholds": THRESHOLDS, "parts": rows,
    }  # fmt: skip
    with atomic_writer(args.out) as out:
        out.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
