"""Success models: a run, its annotations, and what is rejected."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.run_content import run_content

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate import AnnotationError, annotate, make_annotator
from creditflow.train.annotate.success.evaluation import evaluate_success
from creditflow.train.annotate.success.labelling.labels import Labels, write_labels
from creditflow.train.annotate.success.model import GAIN, open_success
from creditflow.train.annotate.success.predict import predict_success
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.annotate.success.training import SuccessTrainer
from creditflow.train.cli import main
from creditflow.train.run.failures import DivergedError
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

WORDS = ("ash", "birch", "cedar", "elm")


def episodes(count: int = 24) -> list[Group]:
    """Find the word that the question names: the right one is a pivot, and without it nothing succeeds."""
    rng = np.random.default_rng(0)
    groups = []
    for g in range(count // 2):
        members = []
        asked = WORDS[g % len(WORDS)]
        for i in range(2):
            tried = [WORDS[int(k)] for k in rng.permutation(len(WORDS))[:2]]
            won = asked in tried
            shown = [f"find {asked}", *(f"seen {word}" for word in tried)]
            turns = tuple(
                Turn(
                    f"s{t}", f"look {word}" if word else "answer", f"s{t + 1}", observation=shown[t],
                    queries=(word,) if word else (),
                )
                for t, word in enumerate([*tried, ""])
            )  # fmt: skip
            members.append(
                Trajectory(
                    f"{i}", f"g{g}", f"task{g}", turns, won, float(won), "success" if won else "failed", "s3"
                )
            )  # fmt: skip
        groups.append(Group(tuple(members)))
    return groups


def labels_of(groups: list[Group]) -> list[Labels]:
    out = []
    for group in groups:
        for member in group.trajectories:
            asked = member.turns[0].observation.split()[1]
            tools = ["+" if turn.queries == (asked,) else "-" for turn in member.turns[:-1]]
            last = "+" if member.success else "-"
            out.append(Labels(group.group_id, member.trajectory_id, (*tools, last), member.success, "rule"))
    return out


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """Settings of a run of a second."""
    groups = episodes()
    write_jsonl(tmp_path / "log.jsonl", groups)
    write_labels(tmp_path / "labels.jsonl", labels_of(groups))
    return {
        "kind": "success_model", "out": str(tmp_path / "run"), "device": "cpu", "threads": 1, "seed": 3,
        "data": {"log": str(tmp_path / "log.jsonl"), "labels": str(tmp_path / "labels.jsonl"), "valid": 0.25},
        "model": {"scratch": {"hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128,
                              "vocabulary": 280, "positions": 128, "init": 0.1}},
        "steps": 4, "batch": 4, "optimizer": {"lr": 3e-3}, "checkpoint": {"every": 2, "keep": 0},
    }  # fmt: skip


@pytest.fixture
def trainer_of() -> Callable[..., SuccessTrainer]:
    def make(data: dict[str, Any], *overrides: str, resume: bool = False) -> SuccessTrainer:
        settings = read_dataclass(SuccessTrainConfig, apply_overrides(data, overrides))
        return SuccessTrainer(settings, resume=resume, stream=io.StringIO())

    return make


# -- a run ------------------------------------------------------------------------------------------------------------------
def test_a_model_learns_which_look_is_the_pivot(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    overrides = ("steps=300", "batch=12", "optimizer.lr=5e-3", "data.valid=0.0", "loss.non_pivot_weight=1.0")
    trainer = trainer_of(data, *overrides)
    trainer.run()
    result = evaluate_success(trainer.model, trainer.train, "paper", 4096)
    assert result["pivot_auc"] > 0.9


@pytest.mark.parametrize("kind", ["paper", "hazard"])
def test_a_resumed_run_is_bit_equal(kind: str, data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]) -> None:
    overrides = (f"loss.kind={kind}", "language_weight=0.1")
    whole = trainer_of(data, *overrides)
    whole.run()
    expected = run_content(whole.folder)
    shutil.rmtree(whole.checkpoints / "sft-0000004")
    resumed = trainer_of(data, *overrides, resume=True)
    assert resumed.progress.done == 2
    resumed.run()
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name
    assert run_content(resumed.folder) == expected  # every file, its records and the tokenizer's settings among them


def test_recomputed_activations_do_not_change_a_run(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    kept = trainer_of(data)
    kept.run()
    data["out"] += "2"
    recomputed = trainer_of(data, "model.gradient_checkpointing=true")
    recomputed.run()
    for name, weight in kept.model.state_dict().items():
        torch.testing.assert_close(recomputed.model.state_dict()[name], weight, rtol=1e-5, atol=1e-6)


def test_the_head_of_turns_adds_the_mean_over_each_turns_tokens(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer = trainer_of(data, "head=turns")
    trainer.run()
    episode = trainer.train[0].episode
    (success,) = predict_success(trainer.model, [episode], "paper")
    ids = torch.from_numpy(episode.ids[None].astype(np.int64))
    with torch.no_grad():
        hidden = trainer.model.hidden(ids)[0].double().numpy()
    weight = trainer.model.score.weight.detach().double().numpy()[0]
    turns = np.split(hidden, episode.ends + 1)[:-1]
    z = GAIN * np.cumsum([turn.mean(axis=0) @ weight for turn in turns])
    np.testing.assert_allclose(np.log(success / (1.0 - success)), z, atol=1e-4)


def test_calibrated_probabilities_have_the_mean_of_the_outcomes(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    overrides = ("steps=40", "data.valid=0.5", "loss.non_pivot_weight=1.0", "head=turns", "text.names=origins")
    raw = trainer_of(data, *overrides)
    raw.run()
    data["out"] += "2"
    fitted = trainer_of(data, *overrides, "calibrate=true")
    fitted.run()
    model, _, file = open_success(Path(data["out"]) / "model", device="cpu")
    assert file.calibration == fitted.model.calibration == model.calibration != (1.0, 0.0)
    won = np.concatenate([[sample.success] * len(sample.episode.ends) for sample in fitted.valid])
    asked = [sample.episode for sample in fitted.valid]
    predicted = np.concatenate(predict_success(model, asked, "paper"))
    assert abs(predicted.mean() - won.mean()) < 0.01
    assert (
        evaluate_success(fitted.model, fitted.valid, "paper", 4096)["log_loss"]
        < (evaluate_success(raw.model, raw.valid, "paper", 4096)["log_loss"])
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("loss.kind=hazard", "head=turns"), "are for the kind of loss"),
        (("calibrate=true", "data.valid=0.0"), "calibrate fits to the validation tasks"),
    ],
)
def test_undefined_combinations_of_settings_are_rejected(
    overrides: tuple[str, ...], message: str, data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    with pytest.raises(ConfigError, match=message):
        trainer_of(data, *overrides)


def test_a_folder_with_a_run_is_not_overwritten(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer_of(data).run()
    with pytest.raises(ConfigError, match="holds a run already"):
        trainer_of(data)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_state(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer = trainer_of(data)
    with torch.no_grad():
        trainer.model.score.weight.fill_(float("nan"))
    with pytest.raises(DivergedError, match="not finite"):
        trainer.run()
    assert (Path(data["out"]) / "diverged").is_dir()


def test_the_command_trains_and_annotates(
    data: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "success.json"
    config.write_text(json.dumps(data))
    assert main(["train", str(config), "--dry-run"]) == 0
    assert main(["train", str(config)]) == 0
    assert "validation: pivot_auc" in capsys.readouterr().out
    out = tmp_path / "rated.jsonl"
    model = f"success:{data['out']}/model"
    assert main(["annotate", "--with", model, "--device", "cpu", data["data"]["log"], "--out", str(out)]) == 0
    groups = read_groups(out)
    assert '"annotator":"success"' in groups[0].trajectories[0].provenance["value.pica"]
    scored = credit.make("pica").assign(groups[0])
    assert np.isfinite(scored.flat_advantages).all()
    assert scored.flat_step_rewards.any()
    config.write_text(json.dumps(data | {"kind": "success_modle"}))
    assert main(["train", str(config)]) == 2
    assert "did you mean 'success_model'" in capsys.readouterr().err


# -- annotations ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]) -> Path:
    trainer_of(data).run()
    return Path(data["out"]) / "model"


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


def test_a_changed_tokenizer_is_refused(folder: Path) -> None:
    file = folder / "tokenizer.json"
    data = json.loads(file.read_text())
    data["model"]["merges"] = []
    file.write_text(json.dumps(data))
    with pytest.raises(DataError, match="it would be evaluated at other positions than in training"):
        open_success(folder, device="cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"template_version": 0}, "texts are now encoded as"),
        ({"template": "0" * 16}, "texts are now encoded as"),
        ({"format_version": 9}, "this version of creditflow reads 1"),
        ({"kind": "papre"}, "did you mean 'paper'"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    file = folder / "creditflow_success.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=message):
        open_success(folder, device="cpu")


def test_a_folder_that_is_no_success_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a success model"):
        make_annotator(f"success:{tmp_path}")


def test_a_model_that_predicts_nan_is_rejected(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    head = load_file(folder / "score.safetensors")
    save_file({"weight": torch.full_like(head["weight"], float("nan"))}, folder / "score.safetensors")
    with pytest.raises(AnnotationError, match="the model predicts nan after turn 0 of 3"):
        annotate(episodes()[:1], make_annotator(f"success:{folder}"))


# -- data that do not fit -----------------------------------------------------------------------------------------------------
def test_labels_that_do_not_match_turns_are_refused(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    one, *others = labels_of(episodes())
    short = Labels(one.group_id, one.trajectory_id, one.turn_labels[1:], one.success, "rule")
    write_labels(data["data"]["labels"], [short, *others])
    with pytest.raises(DataError, match="2 turn labels for 3 turns"):
        trainer_of(data)


def test_labels_of_another_log_are_refused(data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]) -> None:
    write_labels(data["data"]["labels"], [*labels_of(episodes()), Labels("g99", "0", ("+",), True, "rule")])
    with pytest.raises(DataError, match="1 labels belong to no trajectory of the log"):
        trainer_of(data)


def test_episodes_too_long_for_the_model_are_refused_or_counted(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    with pytest.raises(DataError, match=r"truncate observations with text\.observation_tokens"):
        trainer_of(data, "model.scratch.positions=16")
    with pytest.raises(DataError, match="24 were too long"):
        trainer_of(data, "model.scratch.positions=16", "data.too_long=skip")
