"""The recipe and the data set pass verl's own loading and validation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import creditflow.train.adapters
from creditflow.agents.language_model.models.pretrained import PromptingConfig
from creditflow.train.commands.programs.verl_data import main

pytestmark = pytest.mark.verl
FOLDER = Path(creditflow.train.adapters.__file__).parent / "verl"


def recipe(*overrides: str) -> Any:
    """The config that ``python -m verl.trainer.main_ppo --config-dir FOLDER --config-name recipe`` composes."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(config_dir=str(FOLDER), version_base=None):
        return compose("recipe", overrides=["hydra.searchpath=[pkg://verl.trainer.config]", *overrides])


def test_the_recipe_passes_verls_validation_and_our_checks() -> None:
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from creditflow.train.adapters.verl.credit import check_averaging
    from creditflow.train.adapters.verl.support import check_config, credit_settings

    config = recipe()
    assert need_reference_policy(config)
    assert not need_critic(config)
    validate_config(config=config, use_reference_policy=True, use_critic=False)
    for section in (config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout):
        omega_conf_to_dataclass(section)
    check_config(config)
    scheme = credit_settings(config.algorithm).make()
    assert scheme.name == "graphgpo"
    check_averaging("token_mean", config.actor_rollout_ref.actor.loss_agg_mode)


def test_the_recipes_batches_divide_over_its_gpus() -> None:
    config = recipe()
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert gpus == rollout.agent.num_workers == 64
    assert config.data.train_batch_size % actor.ppo_mini_batch_size == 0
    assert (actor.ppo_mini_batch_size * rollout.n) % gpus == 0
    assert config.data.train_batch_size % rollout.agent.num_workers == 0
    assert rollout.prompt_length + rollout.response_length <= rollout.max_model_len
    assert rollout.prompt_length == config.data.max_prompt_length
    assert rollout.response_length == config.data.max_response_length
    assert actor.ppo_max_token_len_per_gpu >= rollout.max_model_len


def test_the_loops_of_the_recipe_can_be_constructed() -> None:
    from hydra.utils import get_class
    from omegaconf import OmegaConf

    from creditflow.train.adapters.episode_config import EpisodeConfig
    from creditflow.train.adapters.verl.loop import CreditAgentLoop
    from creditflow.train.settings.reading import read_dataclass

    loops = OmegaConf.to_container(OmegaConf.load(FOLDER / "loop.yaml"))
    for loop in loops:
        assert get_class(loop.pop("_target_")) is CreditAgentLoop
        assert loop.pop("name") == "creditflow"
        assert read_dataclass(EpisodeConfig, loop).prompting == PromptingConfig()


def test_verls_data_set_reads_complete_tasks(tmp_path: Path, config_of: Any, model_folder: Path) -> None:
    import json

    from verl.utils.dataset.rl_dataset import RLHFDataset

    import creditflow
    from creditflow.agents.language_model.models.pretrained import open_tokenizer

    path = tmp_path / "tasks.parquet"
    arguments = ["--env", "sokoban", "--panel", "small-v1:train", "--set", "max_steps=9", "--out", str(path)]
    assert main(arguments) == 0
    config = config_of().data
    data = RLHFDataset(data_files=str(path), tokenizer=open_tokenizer(model_folder), config=config)
    assert len(data) > 3
    row = data[1]
    env = creditflow.make("sokoban")
    _, info = env.reset(options={"task": json.loads(row["extra_info"]["task"])})
    assert info["task_id"] == row["extra_info"]["task_id"]
    assert row["agent_name"] == "creditflow"
    assert row["raw_prompt"][0]["content"] == info["task_id"]


def test_a_typo_in_the_data_command_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--env", "sokobann", "--out", str(tmp_path / "x.parquet")]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_verls_own_command_loads_the_recipe() -> None:
    command = [
        sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(FOLDER), "--config-name", "recipe",
        "--cfg", "job", "--package", "algorithm.creditflow", "algorithm.creditflow.scheme=gigpo",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "scheme: gigpo\n" in done.stdout
    assert "incomplete: zero\n" in done.stdout
