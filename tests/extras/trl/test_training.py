"""Real episodes: a tiny Qwen2 plays Sokoban under TRL, saves, resumes, evaluates and is opened again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.page_blocks import run_page
from helpers.shared_data import ROOT
from helpers.trainer_page import PAGE, run_blocks

import creditflow
from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group

pytestmark = pytest.mark.trl
SIZE = 4  # episodes per group


@dataclass(frozen=True, kw_only=True)
class FirstWord(Scheme):
    """Credits the action "up" in every state, which is learned quickly."""

    name = "first_word"

    def assign(self, group: Group) -> Credit:
        up = np.array([turn.action == "up" for turn in group.turns], float)
        return Credit.of(group, outcome=np.zeros(len(group)), step=up - up.mean())


def weights(model: Any) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def test_a_few_steps_on_sokoban_change_the_policy_and_log_its_success(trainer_of: Callable[..., Any]) -> None:
    import torch

    trainer = trainer_of()
    before = weights(trainer.model)
    trainer.train()
    rows = [row for row in trainer.state.log_history if "reward" in row]
    assert len(rows) == 4
    assert all(0.0 <= row["success"] <= 1.0 and 1.0 <= row["turns"] <= 5.0 for row in rows)
    assert max(row["grad_norm"] for row in rows) > 0.0
    assert any(not torch.equal(before[name], value) for name, value in weights(trainer.model).items())


@pytest.mark.parametrize("model", ["warm", "windowed_warm"])
def test_the_block_of_the_page_on_trainers_runs(model: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    out = tmp_path / "out"
    assert (
        run_blocks(
            "trl", tmp_path, page=PAGE.parent / "TRL.md", MODEL=str(request.getfixturevalue(model)), OUT=str(out)
        )
        == 1
    )
    assert (out / "checkpoint-2" / "creditflow_agent.json").is_file()


def test_the_walk_with_an_own_environment_trains_one_model_in_both_trainers(tmp_path: Path) -> None:
    page = ROOT / "assets" / "site" / "pages" / "environments" / "own.md"
    assert run_page(page.read_text(encoding="utf-8"), tmp_path, "trl") == 7  # the last one asserts that success rises
    records = [json.loads(line) for line in (tmp_path / "runs/corridor/metrics.jsonl").read_text().splitlines()]
    evaluated = [record["sampled"] for record in records if record["kind"] == "eval_valid"]
    assert evaluated[-1] > evaluated[0]
    assert (tmp_path / "runs/trl/model/creditflow_agent.json").is_file()


def test_every_loss_is_computed_in_training_mode(trainer_of: Callable[..., Any]) -> None:
    trainer = trainer_of()
    modes: list[bool] = []
    loss = trainer._compute_loss

    def watched(model: Any, inputs: dict[str, Any]) -> Any:
        modes.append(model.training)
        return loss(model, inputs)

    trainer._compute_loss = watched
    trainer.train()
    assert modes == [True] * 4


@pytest.mark.parametrize(("checkpointing", "own_prompts"), [(False, False), (True, False), (False, True)])
def test_the_samplers_logprobs_are_those_that_trl_recomputes(
    checkpointing: bool, own_prompts: bool, trainer_of: Callable[..., Any], windowed: Any, windowed_warm: Path
) -> None:
    import torch

    model = {"settings": windowed, "model": windowed_warm} if own_prompts else {}
    trainer = trainer_of(temperature=0.7, gradient_checkpointing=checkpointing, **model)
    seen: list[Any] = []
    loss = trainer._compute_loss

    def watched(model: Any, inputs: dict[str, Any]) -> Any:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        with torch.no_grad():
            got, *_ = trainer._get_per_token_logps_and_entropies(
                model, ids, attention, inputs["completion_ids"].shape[1]
            )
        mask = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        seen.append((got - inputs["sampling_per_token_logps"])[mask])
        return loss(model, inputs)

    trainer._compute_loss = watched
    trainer.train()
    gaps = torch.cat(seen)
    assert len(gaps) > 100
    assert float(gaps.abs().max()) < 1e-4


def test_the_credited_action_becomes_more_frequent(trainer_of: Callable[..., Any]) -> None:
    frequencies: list[float] = []

    @dataclass(frozen=True, kw_only=True)
    class Watched(FirstWord):
        def assign(self, group: Group) -> Credit:
            frequencies.append(float(np.mean([turn.action == "up" for turn in group.turns])))
            return super().assign(group)

    trainer_of(Watched(), max_steps=16, learning_rate=4e-3).train()
    assert np.mean(frequencies[-12:]) > np.mean(frequencies[:12]) + 0.3


@pytest.mark.parametrize(
    "cut",
    [
        {},
        {"per_device_train_batch_size": 6, "steps_per_generation": 2},
        {"per_device_train_batch_size": SIZE},  # the checkpoint is within an epoch
    ],
)
def test_resuming_repeats_the_uninterrupted_run_bit_for_bit(
    cut: dict[str, Any], trainer_of: Callable[..., Any], tmp_path: Path
) -> None:
    import torch

    saving = {"save_strategy": "steps", "save_steps": 2} | cut
    whole = trainer_of(output_dir=str(tmp_path / "whole"), **saving)
    whole.train()
    again = trainer_of(output_dir=str(tmp_path / "again"), **saving)
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    assert again.state.global_step == 4
    other = weights(again.model)
    assert all(torch.equal(value, other[name]) for name, value in weights(whole.model).items())
    midway = trainer_of(max_steps=2, **cut)
    midway.train()
    assert any(not torch.equal(value, other[name]) for name, value in weights(midway.model).items())


def test_a_windowed_run_learns_and_its_resumption_repeats_it_bit_for_bit(
    trainer_of: Callable[..., Any], windowed: Any, windowed_warm: Path, tmp_path: Path
) -> None:
    import torch

    cut = {"per_device_train_batch_size": 6, "steps_per_generation": 2, "save_strategy": "steps", "save_steps": 2}
    model = {"settings": windowed, "model": windowed_warm}
    whole = trainer_of(output_dir=str(tmp_path / "whole"), **cut, **model)
    before = weights(whole.model)
    whole.train()
    again = trainer_of(output_dir=str(tmp_path / "again"), **cut, **model)
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    resumed = weights(again.model)
    assert all(torch.equal(value, resumed[name]) for name, value in weights(whole.model).items())
    assert any(not torch.equal(value, resumed[name]) for name, value in before.items())


def test_a_checkpoint_is_opened_as_an_agent_with_the_prompting_of_training(
    trainer_of: Callable[..., Any], settings: Any, tmp_path: Path
) -> None:
    from creditflow.agents.language_model.pretrained import make_hf_agent

    trainer = trainer_of(max_steps=1, save_strategy="steps", save_steps=1)
    trainer.train()
    agent = make_hf_agent(str(tmp_path / "run" / "checkpoint-1"), device="cpu")
    assert agent.sampling.max_new_tokens == 3
    assert agent.conversations.prompt.name == settings.prompting.prompt


def test_a_custom_sampler_is_made_once_and_synced_after_every_update(trainer_of: Callable[..., Any]) -> None:
    from creditflow.agents.backends.transformers_backend import TransformersBackend

    made: list[Any] = []
    synced: list[str] = []

    class Observed(TransformersBackend):
        def sync(self, version: str = "") -> None:
            synced.append(version)
            super().sync(version)

    def make(trainer: Any) -> Any:
        made.append(Observed(trainer.model))
        return made[-1]

    trainer_of(max_steps=3, others={"make_backend": make}).train()
    assert len(made) == 1
    assert synced == ["step-0", "step-1", "step-2"]


def test_a_sharded_model_is_rejected_without_a_custom_sampler(
    trainer_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    prepare = transformers.Trainer.create_accelerator_and_postprocess

    def sharded(self: Any) -> None:
        prepare(self)
        self.is_fsdp_enabled = True

    monkeypatch.setattr(transformers.Trainer, "create_accelerator_and_postprocess", sharded)
    with pytest.raises(ConfigError, match="sharded"):
        trainer_of()
    assert trainer_of(others={"make_backend": lambda trainer: None}).is_fsdp_enabled


def test_several_generations_within_a_step_play_different_episodes(trainer_of: Callable[..., Any]) -> None:
    trainer = trainer_of(
        max_steps=2, per_device_train_batch_size=SIZE, steps_per_generation=1, gradient_accumulation_steps=3
    )
    rollout = trainer.credit_rollout
    numbers: list[int] = []
    count = rollout._iteration

    def observed(trainer: Any) -> int:
        number: int = count(trainer)
        numbers.append(number)
        return number

    rollout._iteration = observed
    trainer.train()
    assert numbers == [0, 1, 2, 3, 4, 5]


def test_evaluation_plays_its_own_episodes(trainer_of: Callable[..., Any]) -> None:
    trainer = trainer_of(eval_tasks=True, num_generations_eval=2, per_device_eval_batch_size=2)
    result = trainer.evaluate()
    assert 0.0 <= result["eval_success"] <= 1.0


def test_a_scheme_with_another_aggregation_is_rejected_unless_trls_is_selected(trainer_of: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="loss types that fit: grpo"):
        trainer_of(credit.make("grouptd"), max_steps=1).train()
    trainer_of(credit.make("grouptd"), max_steps=1, loss_type="grpo").train()
    trainer_of(credit.make("grouptd"), max_steps=1, others={"averaging": "loss_type"}).train()


def test_a_scheme_that_needs_annotations_is_rejected_without_annotators(trainer_of: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="pass annotators"):
        trainer_of(credit.make("ppo_gae"))


def test_annotators_run_before_the_scheme(trainer_of: Callable[..., Any], settings: Any) -> None:
    from creditflow.train.annotate import Context, make_annotator

    @dataclass(frozen=True, kw_only=True)
    class Nearer(Scheme):
        """Credits the decrease of the distance to success."""

        name = "nearer"
        requires = ("distance.oracle", "distance.oracle.next")

        def assign(self, group: Group) -> Credit:
            step = [turn.values["distance.oracle"] - turn.values["distance.oracle.next"] for turn in group.turns]
            return Credit.of(group, outcome=np.zeros(len(group)), step=np.array(step))

    oracle = make_annotator("oracle", Context(make_env=lambda: creditflow.make("sokoban", **settings.env.options)))
    trainer = trainer_of(Nearer(), max_steps=1, others={"annotators": [oracle]})
    trainer.train()
    [row] = [row for row in trainer.state.log_history if "grad_norm" in row]
    assert row["grad_norm"] > 0.0
