"""The success model of the fair test and its rivals, trained on the same labelled turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from evidence.pica.fair.matched import recency
from evidence.pica.fair.mentions import condensed
from evidence.pica.fair.rivals import KINDS, Chosen, fit_chosen, turn_features
from evidence.pica.fair.states import ForkedTurn
from numpy.typing import NDArray

from creditflow.train.annotate.success.labelling import label_log
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers.records.group import Group

__all__ = ["SETTINGS", "fit_rivals", "model_scores", "rival_scores", "train_success_model"]

Floats = NDArray[np.float64]
VALID: Final = 0.1  # fraction of questions on which ridges are chosen
SETTINGS: Final[dict[str, Any]] = {
    "kind": "success_model", "seed": 0, "device": "cpu", "threads": 1,
    "model": {"scratch": {"architecture": "qwen2", "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 4, "intermediate": 128, "vocabulary": 1200,
                          "pattern": " ?[A-Za-z]+|[^A-Za-z]", "positions": 512, "init": 0.08}},
    "text": {"read": "action", "names": "words"}, "head": "turns",
    "loss": {"kind": "paper", "pivot_loss": "softplus", "pivot_weight": 1.0, "non_pivot_weight": 1.0, "every_turn_weight": 0.3},
    "batch": 32, "batch_tokens": 4096, "optimizer": {"lr": 3e-3, "schedule": "cosine", "warmup_fraction": 0.05, "weight_decay": 0.05},
    "checkpoint": {"every": 100, "keep": 1},
}  # fmt: skip


def train_success_model(log: Path, labels: Path, out: Path, steps: int, *, calibrate: bool) -> dict[str, float]:
    """Train the model, or continue where training was killed; returns its evaluation on the validation questions.

    Args:
        log, labels: condensed episodes and their labels.
        out: run folder; the model is written to ``out/model``.
        steps: optimiser steps.
        calibrate: Platt scaling on the validation questions.
    """
    from creditflow.train.annotate.success.settings import SuccessTrainConfig
    from creditflow.train.annotate.success.training import SuccessTrainer

    data = {"log": str(log), "labels": str(labels), "valid": VALID, "too_long": "skip"}
    settings = read_dataclass(
        SuccessTrainConfig, SETTINGS | {"out": str(out), "data": data, "steps": steps, "calibrate": calibrate}
    )
    return SuccessTrainer(settings, resume=(out / "config.yaml").exists()).run()


def model_scores(folder: Path, turns: Sequence[ForkedTurn]) -> tuple[Floats, Floats]:
    """log f(t) − log f(t−1) of each turn under the model in ``folder``, and f(t−1), each float64 (N,)."""
    from creditflow.train.annotate.success.model import open_success
    from creditflow.train.annotate.success.predict import predict_success

    model, encoder, file = open_success(str(folder), device="cpu")
    episodes = [encoder.encode(turn.records, turn.question) for turn in turns]
    last = np.array([f[-2:] for f in predict_success(model, episodes, file.kind)]).reshape(-1, 2)
    logs = np.log(np.maximum(last, 1e-9))
    return logs[:, 1] - logs[:, 0], last[:, 0]


def fit_rivals(groups: Sequence[Group]) -> dict[str, Chosen]:
    """By kind a model of whether a turn's label is "+": a pivot, or a correct answer; the success model has the same labels.

    Args:
        groups: episodes with all that was read.
    """
    labels = {(one.group_id, one.trajectory_id): one.turn_labels for one in label_log(groups).labels}
    rows: dict[str, list[list[str]]] = {kind: [] for kind in KINDS}
    positive, owner = [], []
    tasks = {group.task_id: number for number, group in enumerate(groups)}
    for group in groups:
        for member in group.trajectories:
            marks = labels.get((group.group_id, member.trajectory_id), ())
            short = condensed(member.turns)
            read, acted = [t.observation for t in member.turns], [t.action for t in member.turns]
            for t, mark in enumerate(marks):
                if not mark:
                    continue
                about = recency(acted[t], read[: t + 1], acted[:t])
                for kind in KINDS:
                    rows[kind].append(turn_features(short, t, about, kind))
                positive.append(mark == "+")
                owner.append(tasks[group.task_id])
    order = np.random.default_rng(0).permutation(len(tasks))
    valid = np.isin(np.array(owner), order[: max(1, round(VALID * len(tasks)))])
    label = np.array(positive)

    def part(of: Sequence[list[str]], mask: NDArray[np.bool_]) -> list[list[str]]:
        return [of[i] for i in np.flatnonzero(mask).tolist()]

    return {
        kind: fit_chosen(part(of, ~valid), label[~valid], part(of, valid), label[valid]) for kind, of in rows.items()
    }


def rival_scores(rivals: dict[str, Chosen], turns: Sequence[ForkedTurn]) -> dict[str, Floats]:
    """Log odds of a pivot by kind, float64 (N,)."""
    found = {}
    for kind, chosen in rivals.items():
        found[kind] = chosen.model.score([turn_features(t.records, len(t.turns) - 1, t.recency, kind) for t in turns])
    return found
