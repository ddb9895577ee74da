"""verl's own loader and validation accept every recipe's translation; the tasks' file is read by its data set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from creditflow.train.cli import main
from creditflow.train.engines.translation import Translation, translate
from creditflow.train.engines.verl import facts_of
from creditflow.train.settings.schema import load_settings

pytestmark = pytest.mark.verl
FOLDER = Path(__file__).parents[3] / "train" / "configs"
# of RL: neither success models nor SFT alone
RECIPES = sorted(
    path
    for path in FOLDER.glob("*.yaml")
    if not path.stem.endswith("success_model") and not path.stem.startswith("sft_")
)
TOKENS = "update.loss.aggregation=token_mean"  # of the averages of papers that verl has not
SMALL = ["sft.episodes=0", TOKENS, "update.minibatches=1", "update.minibatch_size=64"]
# settings with which verl can do what it refuses of a recipe as published
RUNNABLE = {
    "arpo_wikisearch": ["rollout.branching.max_trajectories=0"],
    "dapo_wikisearch": ["rollout.dynamic_sampling=false", "credit.overlong.max_tokens=0"],
    "dr_grpo_wikisearch": ["update.minibatch_size=0", "update.minibatches=8"],
    "egrpo_wikisearch": [TOKENS],
    "gigpo_alfworld_7b_lora": ["model.lora.rank=0"],
    "gspo_wikisearch": ["update.loss.ratio=token"],
    "pica_wikisearch": [
        "credit={scheme: grpo}", "critic.kind=none", "update.loss.kl_in=loss", "update.minibatch_size=0", "rollout.top_p=1.0",
        "update.minibatches=32",
    ],
    "ppo_alfworld": ["critic.kind=none", "credit={scheme: grpo}"],
    "ppo_webshop": ["critic.kind=none", "credit={scheme: grpo}"],
    "r1_instruct_wikisearch": ["rollout.top_p=1.0", "update.minibatch_size=0", "update.minibatches=8"],
    "search_r1_grpo_wikisearch": ["rollout.top_p=1.0", "update.minibatch_size=0", "update.minibatches=8"],
    "prm_alfworld": ["credit.annotators=[]", "credit.scheme=grpo"],
    **{f"rewardflow_{env}": [TOKENS] for env in ("alfworld", "sokoban", "sokoban_vl", "webshop", "wikisearch")},
    **{f"smollm2_{env}": SMALL for env in ("sokoban", "webshop")},
    **{f"smollm2_{env}": ["sft.episodes=0"] for env in ("alfworld", "wikisearch")},
    "ragen_sokoban": ["critic.kind=none", "credit={scheme: grpo}", "checkpoint.best=false"],
    "search_r1_ppo_wikisearch": ["rollout.top_p=1.0", "critic.kind=none", "credit={scheme: grpo}", "update.loss.kl_in=loss"],
    "steppo_alfworld": [
        "critic.kind=none", "credit={scheme: grpo}", "update.loss.ratio=token", "update.loss.aggregation=token_mean",
    ],
    "stepsearch_wikisearch": ["update.minibatch_size=0", "update.minibatches=4"],
    "quickstart": [
        "model.path=somebody/model", "sft.episodes=0", "prompting.max_context=96", "update.optimizer.schedule=cosine",
        "update.loss.aggregation=token_mean", "update.minibatches=1", "update.minibatch_size=64",
    ],
}  # fmt: skip


def composed(folder: Path, translation: Translation) -> Any:
    """The configuration that ``python -m verl.trainer.main_ppo`` composes of the translation."""
    from hydra import compose, initialize_config_dir

    (folder / "verl.yaml").write_text(translation.config_text(), encoding="utf-8")
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return compose("verl", overrides=["hydra.searchpath=[pkg://verl.trainer.config]"])


@pytest.mark.parametrize("gpus", [8, 2])
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_verl_accepts_the_translation_of_every_recipe(path: Path, gpus: int, tmp_path: Path) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from creditflow.train.adapters.verl.credit import check_averaging, check_config, check_windowed, credit_settings

    settings = load_settings(path, (f"out={tmp_path}/run", f"verl.gpus={gpus}", *RUNNABLE.get(path.stem, ())))
    facts = facts_of(settings)
    translation = translate(settings, facts)
    assert translation.refused == ()
    config = composed(tmp_path, translation)
    assert need_reference_policy(config) == bool(settings.update.loss.kl_weight)
    assert not need_critic(config)
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=False)
    for section in (config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout):
        omega_conf_to_dataclass(section)
    check_config(config)
    check_windowed(config)
    assert credit_settings(config.algorithm).make().name == settings.credit.scheme
    if config.algorithm.creditflow.averaging == "scheme":
        windowed = settings.prompting.history == "window"
        check_averaging(facts.aggregation, config.actor_rollout_ref.actor.loss_agg_mode, windowed=windowed)
    for line in translation.lines:
        value = OmegaConf.select(config, line.key)
        value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        if isinstance(line.value, dict) and isinstance(value, dict):  # a section of verl's has further entries
            assert line.value.items() <= value.items(), line
        else:
            assert value == line.value, line


def test_verls_default_configuration_has_every_line_of_every_translation(tmp_path: Path) -> None:
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        default = compose("ppo_trainer")
    # fields of verl's dataclasses and of ray.init that its YAML leaves out, and our own section
    beside = ("algorithm.creditflow.", "ray_kwargs.ray_init.", "actor_rollout_ref.model.override_config.")
    for path in RECIPES:
        settings = load_settings(path, (f"out={tmp_path}/run",))
        for line in translate(settings, facts_of(settings)).lines:
            section, _, leaf = line.key.rpartition(".")
            if not line.key.startswith(beside) and leaf != "mixed_precision":
                assert leaf in list(OmegaConf.select(default, section)), f"verl has no {line.key}"


@pytest.mark.parametrize("name", ["gigpo_alfworld", "graphgpo_sokoban", "sapo_wikisearch", "graphgpo_webshop"])
def test_verl_makes_the_agent_loops_of_the_translation(name: str, tmp_path: Path) -> None:
    from hydra.utils import get_class
    from omegaconf import OmegaConf

    from creditflow.train.adapters.text_episode import EpisodeConfig
    from creditflow.train.adapters.verl.loop import CreditAgentLoop
    from creditflow.train.settings.reading import read_dataclass

    settings = load_settings(FOLDER / f"{name}.yaml", (f"out={tmp_path}/run", "rollout.max_turns=7"))
    loops: Any = OmegaConf.to_container(OmegaConf.create(translate(settings, facts_of(settings)).loops_text()))
    assert [loop.pop("name") for loop in loops] == ["creditflow", "creditflow_validation"]
    for loop in loops:
        assert get_class(loop.pop("_target_")) is CreditAgentLoop
        assert loop.pop("threads") is False
        play = read_dataclass(EpisodeConfig, loop)
        assert play.prompting == settings.prompting
        assert play.max_new_tokens == settings.rollout.max_new_tokens
    assert read_dataclass(EpisodeConfig, loops[0]).env == settings.env
    assert read_dataclass(EpisodeConfig, loops[0]).budget.turns == 7
    assert read_dataclass(EpisodeConfig, loops[1]).env == settings.evaluation_env
    assert read_dataclass(EpisodeConfig, loops[1]).budget.turns == 0


def test_verls_data_set_reads_complete_tasks(tmp_path: Path, config_of: Any, model_folder: Path) -> None:
    import json

    from verl.utils.dataset.rl_dataset import RLHFDataset

    import creditflow
    from creditflow.agents.language_model.pretrained import open_tokenizer

    path = tmp_path / "tasks.parquet"
    arguments = ["--env", "sokoban", "--panel", "small-v1:train", "--env-set", "max_steps=9", "--out", str(path)]
    assert main(["data", "build", "verl", *arguments]) == 0
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
    assert main(["data", "build", "verl", "--env", "sokobann", "--out", str(tmp_path / "x.parquet")]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_verls_own_command_loads_the_translation(tmp_path: Path) -> None:
    settings = load_settings(FOLDER / "gigpo_alfworld.yaml", (f"out={tmp_path}/run",))
    (tmp_path / "verl.yaml").write_text(translate(settings, facts_of(settings)).config_text(), encoding="utf-8")
    command = [
        sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(tmp_path), "--config-name", "verl",
        "--cfg", "job", "--package", "algorithm.creditflow",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "scheme: gigpo\n" in done.stdout
    assert "discount: 0.95\n" in done.stdout
