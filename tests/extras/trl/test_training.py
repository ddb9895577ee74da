"""Real episodes: a tiny Qwen2 plays Sokoban under TRL, saves, resumes, evaluates and is opened again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.trainer_page import run_blocks

import creditflow
from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group

pytestmark = pytest.mark.trl
SIZE = 4
SCRIPT = Path(__file__).with_name("launched.py")
CONFIGS = Path(creditflow.__file__).parent / "train" / "adapters" / "trl"
SOURCE = Path(creditflow.__file__).parents[1]
LEVELS = ("######\n#@ $.#\n#    #\n######", "#####\n#   #\n#.$@#\n#####", "#####\n#@  #\n#$  #\n#.  #\n#####")
MODEL = {
    "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 280, "init": 0.1,
    "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FirstWord(Scheme):
    """Credits the action "up" in every state, which is learned quickly."""

    name = "first_word"

    def assign(self, group: Group) -> Credit:
        up = np.array([turn.action == "up" for turn in group.turns], float)
        return Credit.of(group, outcome=np.zeros(len(group)), step=up - up.mean())


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Settings of creditflow's own trainer for a short SFT without RL."""
    from creditflow.train.settings.reading import read_dataclass
    from creditflow.train.settings.schema import TrainConfig

    folder = tmp_path_factory.mktemp("warm")
    levels = folder / "levels.txt"
    levels.write_text("\n\n".join(LEVELS) + "\n", encoding="ascii")
    data = {
        "out": str(folder / "run"), "seed": 8, "device": "cpu", "threads": 1,
        "env": {"name": "sokoban", "options": {"levels": str(levels), "max_steps": 5, "symbols": "ascii"}},
        "model": {"scratch": MODEL},
        "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "append"},
        "sft": {"episodes": 24, "steps": 8, "batch_tokens": 200, "noise": 0.8, "optimizer": {"lr": 4e-3}},
        "rollout": {"max_new_tokens": 3},
    }  # fmt: skip
    return read_dataclass(TrainConfig, data)


@pytest.fixture(scope="module")
def warm(settings: Any) -> Path:
    """The folder of a model after this SFT, which writes valid actions."""
    import io

    from creditflow.train.trainer import Trainer

    Trainer(settings, stream=io.StringIO()).run()
    return Path(settings.out) / "model"


@pytest.fixture
def trainer_of(settings: Any, warm: Path, arguments: Callable[..., Any]) -> Callable[..., Any]:
    from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
    from creditflow.train.run.assemble import training_tasks

    def make(scheme: Any = None, *, eval_tasks: Any = (), others: Any = None, **changes: Any) -> Any:
        tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        values = {
            "per_device_train_batch_size": SIZE * 3, "num_generations": SIZE, "max_steps": 4, "learning_rate": 1e-3,
            "lr_scheduler_type": "constant", "max_completion_length": 64,
        } | changes  # fmt: skip
        return CreditGRPOTrainer(
            str(warm),
            play=EpisodeConfig(env=settings.env, prompting=settings.prompting, max_new_tokens=3),
            tasks=tasks,
            scheme=scheme or credit.make("gigpo"),
            args=arguments(**values),
            eval_tasks=tasks if eval_tasks else (),
            **others or {},
        )

    return make


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


def test_the_block_of_the_page_on_trainers_runs(warm: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_blocks("trl", tmp_path, MODEL=str(warm), OUT=str(out)) == 1
    assert (out / "checkpoint-2" / "creditflow_agent.json").is_file()


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


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_samplers_logprobs_are_those_that_trl_recomputes(
    checkpointing: bool, trainer_of: Callable[..., Any]
) -> None:
    import torch

    trainer = trainer_of(temperature=0.7, gradient_checkpointing=checkpointing)
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


@pytest.fixture(scope="module")
def launched(settings: Any, warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Runs ``launched.py`` by a launcher and checks each process's prompts; returns the saved weights."""
    from safetensors.numpy import load_file

    def launch(processes: int, *launcher: str) -> dict[str, Any]:
        out = tmp_path_factory.mktemp("launched")
        words = [str(warm), settings.env.options["levels"], str(out), str(2 * SIZE // processes)]
        done = subprocess.run(
            [sys.executable, *launcher, str(SCRIPT), *words],
            capture_output=True, text=True, timeout=240, check=False, env=os.environ | {"PYTHONPATH": str(SOURCE)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        played = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("prompts-*.json"))]
        assert [len(set(batch)) for rank in played for batch in rank] == [2 // processes] * 2 * processes
        return dict(load_file(out / "model.safetensors"))

    return launch


@pytest.fixture(scope="module")
def alone(launched: Callable[..., dict[str, Any]], warm: Path) -> dict[str, Any]:
    """The weights saved by a run of one process."""
    from safetensors.numpy import load_file

    weights, before = launched(1), load_file(warm / "model.safetensors")
    assert max(np.abs(weights[name] - before[name]).max() for name in before) > 1e-3
    return weights


@pytest.mark.parametrize(
    "launcher",
    [
        ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        (
            "-m",
            "accelerate.commands.launch",
            "--config_file",
            str(CONFIGS / "accelerate_ddp.yaml"),
            "--num_processes=2",
        ),
    ],
    ids=["torchrun", "accelerate"],
)
def test_two_processes_play_whole_groups_and_train_as_one_does(
    launcher: tuple[str, ...], launched: Callable[..., dict[str, Any]], alone: dict[str, Any]
) -> None:
    together = launched(2, *launcher)
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("name", "kind"), [("ddp", "MULTI_GPU"), ("fsdp2", "FSDP")])
def test_accelerate_reads_the_launch_files(name: str, kind: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    path = str(CONFIGS / f"accelerate_{name}.yaml")
    assert load_config_from_file(path).distributed_type == kind
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(["--config_file", path, "script.py"]))
    assert (arguments.multi_gpu, arguments.use_fsdp) == (name == "ddp", name == "fsdp2")
    if name == "fsdp2":
        assert (arguments.fsdp_version, arguments.fsdp_reshard_after_forward) == (2, True)


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


def test_a_sharded_model_is_refused_without_a_custom_sampler(
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
    rollout = trainer.rollout_func
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


def test_a_scheme_with_another_aggregation_is_refused_unless_trls_is_selected(
    trainer_of: Callable[..., Any],
) -> None:
    with pytest.raises(ConfigError, match="loss types that fit: grpo"):
        trainer_of(credit.make("grouptd"), max_steps=1).train()
    trainer_of(credit.make("grouptd"), max_steps=1, loss_type="grpo").train()
    trainer_of(credit.make("grouptd"), max_steps=1, others={"averaging": "loss_type"}).train()


def test_a_scheme_that_needs_annotations_is_refused_without_annotators(trainer_of: Callable[..., Any]) -> None:
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
