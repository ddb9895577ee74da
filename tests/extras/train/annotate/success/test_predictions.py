"""Predictions of a saved success model: equal in any batch, causal, refused where its folder does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.episodes.look_episodes import episodes

from creditflow.envs.errors import DataError
from creditflow.train.annotate import AnnotationError, annotate, make_annotator
from creditflow.train.annotate.success.model import open_success, predict_success
from creditflow.train.annotate.success.training import SuccessTrainer


def test_a_saved_model_predicts_what_the_trained_one_predicts(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer = trainer_of(data)
    trainer.run()
    model, _, file = open_success(Path(data["out"]) / "model", device="cpu")
    asked = [sample.episode for sample in trainer.train]
    for one, other in zip(
        predict_success(trainer.model, asked, "paper"), predict_success(model, asked, "paper"), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert file.kind == "paper"


def test_predictions_do_not_depend_on_the_batch(folder: Path) -> None:
    model, encoder, _ = open_success(folder, device="cpu")
    asked = [encoder.encode_member(group, i) for group in episodes() for i in range(2)]
    together = predict_success(model, asked, "paper")
    alone = [predict_success(model, [one], "paper", batch_tokens=1)[0] for one in asked]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_prediction_does_not_depend_on_later_turns(folder: Path) -> None:
    model, encoder, _ = open_success(folder, device="cpu")
    turns = episodes()[0].trajectories[0].turns
    whole, part = (predict_success(model, [encoder.encode(turns[:n], "t")], "paper")[0] for n in (3, 2))
    np.testing.assert_allclose(whole[:2], part[:2], atol=1e-6)


def test_a_hazard_model_writes_survival_from_one(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer_of(data, "loss.kind=hazard").run()
    annotator = make_annotator(f"success:{data['out']}/model")
    (group,) = annotate(episodes()[:1], annotator)
    for member in group.trajectories:
        first, *_ = (turn.values["value.pica"] for turn in member.turns)
        after = [turn.values["value.pica.next"] for turn in member.turns]
        assert first == 1.0
        assert all(a >= b for a, b in zip([1.0, *after], after, strict=False))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format_version": 9}, "this version of creditflow reads 3"), ({"kind": "papre"}, "did you mean 'paper'")],
)
def test_a_description_that_does_not_fit_is_rejected(folder: Path, change: dict[str, Any], message: str) -> None:
    file = folder / "creditflow_success.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=message):
        open_success(folder, device="cpu")


def test_a_folder_that_is_no_success_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a success model"):
        make_annotator(f"success:{tmp_path}")


def test_a_model_that_predicts_nan_is_rejected(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    head = load_file(folder / "score.safetensors")
    save_file({"weight": torch.full_like(head["weight"], float("nan"))}, folder / "score.safetensors")
    with pytest.raises(AnnotationError, match="the model predicts nan after turn 0 of 3"):
        annotate(episodes()[:1], make_annotator(f"success:{folder}"))
