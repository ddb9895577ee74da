"""A run's settings in verl's words: every setting is carried, refused by name, or listed; nothing is dropped silently."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml

from creditflow.envs.errors import ConfigError
from creditflow.train.commands import train
from creditflow.train.engines.translation import Facts, Line, Remark, Translation, setting_names, translate
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
RECIPES = sorted(path for path in FOLDER.glob("*.yaml") if not path.stem.endswith("success_model"))
FACTS = Facts(tasks=512, validation_tasks=64, max_turns=50)

# what verl cannot do of the recipes, by the settings that it is about; every other recipe is translated whole
REFUSED = {
    "arpo_wikisearch": {"rollout.branching"},
    "dapo_wikisearch": {"rollout.dynamic_sampling", "credit.overlong"},
    "dr_grpo_wikisearch": {"update.minibatch_size"},
    "egrpo_wikisearch": {"update.loss.aggregation"},
    "gigpo_alfworld_7b_lora": {"model.lora.rank"},
    "gspo_wikisearch": {"update.loss.ratio"},
    "pica_wikisearch": {
        "rollout.top_p", "critic", "credit.annotators", "update.loss.kl_in", "update.minibatch_size",
    },
    "quickstart": {
        "model.path", "sft", "prompting.max_context", "update.optimizer.schedule", "update.loss.aggregation",
        "update.minibatches",
    },
    "ppo_alfworld": {"critic"},
    "prm_alfworld": {"credit.annotators"},
    "sft_wikisearch": {"update.iterations"},
    "ppo_webshop": {"critic"},
    "r1_instruct_wikisearch": {"rollout.top_p", "update.minibatch_size"},
    "search_r1_grpo_wikisearch": {"rollout.top_p", "update.minibatch_size"},
    "ragen_sokoban": {"critic", "checkpoint.best"},
    "search_r1_ppo_wikisearch": {"rollout.top_p", "critic", "update.loss.kl_in"},
    "steppo_alfworld": {"critic", "update.loss.ratio", "update.loss.aggregation"},
    "stepsearch_wikisearch": {"update.minibatch_size"},
    **{
        f"rewardflow_{env}": {"update.loss.aggregation"}
        for env in ("alfworld", "sokoban", "sokoban_vl", "webshop", "wikisearch")
    },
    **{f"smollm2_{env}": {"sft", "update.loss.aggregation", "update.minibatches"} for env in ("sokoban", "webshop")},
    **{f"smollm2_{env}": {"sft"} for env in ("alfworld", "wikisearch")},
}  # fmt: skip


def settings_of(**sections: Any) -> TrainConfig:
    """A run that verl can do, with sections replaced."""
    plain: dict[str, Any] = {
        "out": "runs/x",
        "model": {"path": "somebody/model"},
        "prompting": {"max_context": 1024},
        "rollout": {"tasks": 16, "group_size": 8},
        "update": {"iterations": 10},
        "evaluation": {"panel": "small-v1:valid", "samples": 1},
    }
    for name, section in sections.items():
        plain[name] = {**plain.get(name, {}), **section} if isinstance(section, dict) else section
    return read_dataclass(TrainConfig, plain)


def another(hint: Any, value: Any) -> Any:
    """A different value of a setting of this type."""
    if get_origin(hint) is Literal:
        return next(option for option in get_args(hint) if option != value)
    if hint is bool or isinstance(value, bool):
        return not value
    if hint is int:
        return value + 8
    if hint is float:
        return value / 2 if value else 0.25
    if hint is str:
        return f"{value}x"
    if get_origin(hint) is tuple and get_args(hint)[0] is float:
        return tuple(item / 2 for item in value)
    if get_origin(hint) is tuple:
        return (*value, "another")
    return {**(value or {}), "another": 1}


SPECIAL: dict[str, Any] = {
    "device": "cpu",
    "model.scratch.heads": 8,
    "model.scratch.kv_heads": 4,
    "rollout.dtype": "bfloat16",
    "credit.overlong.margin": 3,
    "update.optimizer.warmup_fraction": 0.25,
    "verl.tensor_parallel": 2,
}


def changed(settings: Any, name: str, full: str) -> Any:
    """The settings with another value of one setting.

    Raises:
        ConfigError: the schema does not allow it alone.
    """
    first, _, rest = name.partition(".")
    value = getattr(settings, first)
    if rest:
        return replace(settings, **{first: changed(value, rest, full)})
    new = SPECIAL[full] if full in SPECIAL else another(get_type_hints(type(settings))[first], value)
    return replace(settings, **{first: new})


def bases() -> list[TrainConfig]:
    """Runs in which different settings have an effect."""
    window = {"history": "window", "max_context": 1024}
    return [
        settings_of(),
        settings_of(prompting=window, update={"minibatch_size": 64, "loss": {"kl_weight": 0.1}}),
        settings_of(
            generation={"backend": "vllm"}, update={"old_logprobs": "sampler", "optimizer": {"schedule": "cosine"}}
        ),
        settings_of(
            credit={"overlong": {"max_tokens": 9, "margin": 2}},
            critic={"kind": "separate"},
            update={"loss": {"aggregation": "constant", "normaliser": 64}},
            sft={"log": "chats.jsonl", "episodes": 8},
        ),
        settings_of(verl={"ray": "auto", "gpus": 8}, rollout={"tasks": 16, "branching": {"max_trajectories": 9}}),
    ]


@pytest.mark.parametrize("name", list(setting_names(TrainConfig(out="x"))))
def test_every_setting_is_carried_refused_or_listed(name: str) -> None:
    tried = 0
    for base in bases():
        try:
            other = changed(base, name, name)
        except ConfigError:
            continue
        tried += 1
        before, after = translate(base, FACTS), translate(other, FACTS)
        refused = covers({n for one in (before, after) for remark in one.refused for n in remark.settings}, name)
        assert before != after or refused, f"{name} changed and verl's configuration did not"
        assert covers(named(before) | named(after), name), f"{name} changes a line that does not name it"
    assert tried, f"{name}: no run of this test can change it"


def covers(names: set[str], name: str) -> bool:
    """Whether a setting or one of its sections is named."""
    return any(f"{name}.".startswith(f"{one}.") for one in names)


def named(translation: Translation) -> set[str]:
    """Settings that lines and remarks name."""
    lines = [*translation.lines, *(line for loop in translation.loops for line in loop)]
    entries: list[Line | Remark] = [*lines, *translation.refused, *translation.left_out]
    return {name for entry in entries for name in entry.settings}


def test_what_lines_and_remarks_name_are_settings() -> None:
    leaves = set(setting_names(TrainConfig(out="x")))
    known = leaves | {"sft", "critic", "credit.overlong", "rollout.branching"}
    for base in [*bases(), *(load_settings(path) for path in RECIPES)]:
        assert named(translate(base, FACTS)) <= known


def test_a_line_without_a_setting_says_why_it_is_there() -> None:
    lines = translate(settings_of(), FACTS).lines
    assert [line.key for line in lines if not line.source] == []
    assert len({line.key for line in lines}) == len(lines)


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize("name", ["grouptd_alfworld", "grpo_sokoban", "grouptd_webshop", "grouptd_wikisearch"])
def test_a_recipe_for_eight_gpus_runs_on_two_and_four_with_the_same_batch(name: str, gpus: int) -> None:
    settings = load_settings(FOLDER / f"{name}.yaml")
    fewer = translate(replace(settings, verl=replace(settings.verl, gpus=gpus)), FACTS)
    assert not fewer.refused
    [line] = lines_of(fewer, "n_gpus_per_node")
    assert line.value == gpus
    assert [row.value for row in lines_of(fewer, "train_batch_size")] == [settings.rollout.tasks]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_translated_whole_or_refused_by_name(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = dry_run(str(path), "--set", f"out={tmp_path / 'run'}")
    printed = capsys.readouterr()
    refusals = [line for line in printed.err.splitlines() if line.startswith("# verl cannot do this: ")]
    expected = REFUSED.get(path.stem, set())
    assert code == (2 if expected else 0)
    for name in expected:
        assert any(name in line for line in refusals), name
    assert all(any(name in line for name in expected) for line in refusals), refusals
    config, loops = yaml.safe_load_all(printed.out)
    assert config["algorithm"]["creditflow"]["scheme"] == load_settings(path).credit.scheme
    assert loops[0]["prompting"]["prompt"] == load_settings(path).prompting.prompt
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["egrpo_wikisearch", "sapo_wikisearch"])
def test_the_command_that_a_recipe_gives_for_verl_is_translated(name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").replace("\\\n#", "")
    (command,) = re.findall(rf"train/configs/{name}\.yaml --engine verl (.*)", text)
    assert dry_run(str(FOLDER / f"{name}.yaml"), *shlex.split(command), "--set", f"out={tmp_path / 'run'}") == 0


def test_the_commands_for_gpus_on_the_page_are_translated() -> None:
    page = (FOLDER.parent / "adapters" / "SCALING.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line.split("#")[0] for line in page.splitlines() if line.startswith("creditflow train train/configs")]
    assert len(commands) == 3
    rows = re.findall(r"`(--set [^`]+)`", page.partition("| what you want |")[2].partition("\n\n")[0])
    assert len(rows) == 4
    commands += [f"creditflow train train/configs/grpo_sokoban.yaml {row}" for row in rows]
    for command in commands:
        words = [word for word in shlex.split(command)[2:] if word not in ("--engine", "verl", "--dry-run")]
        assert dry_run(str(FOLDER.parent.parent / words[0]), *words[1:]) == 0


def dry_run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return train.run(parser.parse_args([*arguments, "--engine", "verl", "--dry-run"]))


@pytest.mark.parametrize("gpus", [4, 8])
def test_a_dry_run_tells_memory_and_hours(gpus: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry_run(str(FOLDER / "gigpo_alfworld.yaml"), "--set", f"verl.gpus={gpus}") == 0
    told = capsys.readouterr().err
    assert f"GB at the peak on each of {gpus} GPUs" in told
    assert f"on the clock at least a {gpus}th of that" in told


def test_numbers_and_texts_of_the_printed_configuration_are_those_of_the_lines() -> None:
    translation = translate(settings_of(update={"optimizer": {"lr": 1e-6, "eps": 1e-8}}), FACTS)
    config = yaml.safe_load(translation.config_text())
    for line in translation.lines:
        value = config
        for key in line.key.split("."):
            value = value[key]
        assert value == line.value, line
        assert type(value) is type(line.value), line


def test_minibatches_of_windowed_rows_are_counted_in_turns_and_the_line_says_so() -> None:
    run = settings_of(prompting={"history": "window"}, update={"minibatch_size": 256, "minibatch_unit": "turn"})
    [line] = lines_of(translate(run, FACTS), "ppo_mini_batch_size")
    assert line.value == 32
    assert "x 8 = 256 turns" in line.why


def test_a_minibatch_that_does_not_divide_is_the_nearest_that_does_and_the_line_says_so() -> None:
    run = settings_of(
        prompting={"history": "window"},
        rollout={"group_size": 5},
        update={"minibatch_size": 512, "minibatch_unit": "turn"},
    )
    [line] = lines_of(translate(run, FACTS), "ppo_mini_batch_size")
    assert (line.value * 5) % 8 == 0
    assert "x 5 = 520 turns, the nearest to 512 that divides" in line.why
    far = replace(run, update=replace(run.update, minibatch_size=24))
    assert "40 is one" in str(translate(far, FACTS).refused)


def test_one_step_of_windowed_rows_is_a_minibatch_of_all_possible_turns() -> None:
    [line] = lines_of(translate(settings_of(prompting={"history": "window"}), FACTS), "ppo_mini_batch_size")
    assert line.value == 16 * 50


def test_a_model_that_sees_pictures_is_given_to_verl_with_its_own_processor() -> None:
    line = "actor_rollout_ref.model.tokenizer_path"
    assert translate(settings_of(), FACTS).value(line).endswith("runs/x/verl/tokenizer")
    assert translate(settings_of(), replace(FACTS, pictures=True)).value(line) == "somebody/model"


def test_windowed_rows_have_micro_batches_by_tokens() -> None:
    run = settings_of(prompting={"history": "window", "max_context": 20000}, rollout={"max_new_tokens": 100})
    translation = translate(run, FACTS)
    assert translation.value("actor_rollout_ref.actor.use_dynamic_bsz") is True
    assert translation.value("actor_rollout_ref.actor.ppo_max_token_len_per_gpu") == 20000
    assert translation.value("data.max_prompt_length") == 19900
    assert translation.value("data.max_response_length") == 100


def test_groups_that_do_not_divide_are_refused_with_numbers_that_do() -> None:
    run = settings_of(
        rollout={"tasks": 512, "group_size": 5}, update={"minibatch_size": 256, "minibatch_unit": "trajectory"}
    )
    [remark] = translate(run, FACTS).refused
    assert "10 minibatches of 512 groups do not" in remark.reason
    assert "update.minibatches=8" in remark.reason
    assert translate(replace(run, update=replace(run.update, minibatch_size=0, minibatches=8)), FACTS).refused == ()


def test_batches_divide_over_the_gpus_of_the_machine() -> None:
    for gpus in (2, 4, 8):
        assert translate(settings_of(verl={"gpus": gpus}), FACTS).refused == ()
    [remark] = translate(settings_of(verl={"gpus": 3}), FACTS).refused
    assert "verl.gpus" in remark.settings


def test_options_of_verl_replace_lines_and_name_their_source() -> None:
    options = {"actor_rollout_ref.actor.strategy": "fsdp", "actor_rollout_ref.actor.fsdp_config.param_offload": True}
    translation = translate(settings_of(verl={"options": options}), FACTS)
    for key, value in options.items():
        [line] = lines_of(translation, key)
        assert line.value == value
        assert "verl.options" in line.settings


def lines_of(translation: Translation, end: str) -> list[Line]:
    return [line for line in translation.lines if line.key.endswith(end)]


def test_epochs_over_the_tasks_never_end_before_the_iterations() -> None:
    for tasks in (16, 17, 40, 512):
        translation = translate(settings_of(update={"iterations": 10}), replace(FACTS, tasks=tasks))
        assert translation.value("trainer.total_epochs") * (tasks // 16) >= 10


def test_more_nodes_need_a_cluster() -> None:
    with pytest.raises(ConfigError, match="ray start --head"):
        settings_of(verl={"nodes": 2})


def test_a_success_model_is_not_verls(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave out --engine verl"):
        dry_run(str(FOLDER / "pica_success_model.yaml"))


def test_a_resumed_run_keeps_its_engine(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.yaml").write_text("out: x\n", encoding="ascii")
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    with pytest.raises(ConfigError, match="is a run of creditflow: resume it without --engine verl"):
        train.run(parser.parse_args(["--resume", str(tmp_path), "--engine", "verl"]))


def test_every_field_of_the_schema_is_walked() -> None:
    def leaves(kind: Any) -> int:
        hints = get_type_hints(kind)
        return sum(leaves(hints[f.name]) if is_dataclass(hints[f.name]) else 1 for f in fields(kind))

    assert len(list(setting_names(TrainConfig(out="x")))) == leaves(TrainConfig)
