"""Settings: numbers are numbers, unknown names suggest the nearest one, saved settings read back the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.policy.network.options import pick_device
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping, read_dataclass, to_plain_data, write_yaml
from creditflow.train.settings.schema import TrainConfig, load_settings


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_and_json_give_equal_settings(tmp_path: Path) -> None:
    yaml = write(tmp_path, "a.yaml", "out: x\nupdate:\n  optimizer: {lr: 1e-6, betas: [0.9, 0.95]}\n")
    json = write(tmp_path, "a.json", '{"out": "x", "update": {"optimizer": {"lr": 1e-6, "betas": [0.9, 0.95]}}}')
    assert load_settings(yaml) == load_settings(json)
    assert load_settings(yaml).update.optimizer.lr == 1e-6


def test_an_override_wins_and_is_typed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "out: x\nseed: 1\n")
    settings = load_settings(
        path, ("seed=5", "update.optimizer.lr=3e-7", "rollout.dynamic_sampling=true", "tasks.exclude=[a:b, c:d]",
               "credit.parameters.step_weight=0.5", "model.path=")
    )  # fmt: skip
    assert (settings.seed, settings.update.optimizer.lr, settings.rollout.dynamic_sampling) == (5, 3e-7, True)
    assert settings.tasks.exclude == ("a:b", "c:d")
    assert settings.credit.parameters == {"step_weight": 0.5}
    assert settings.model.path == ""


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rolout.tasks=3", "did you mean 'rollout'"),
        ("rollout.task=3", "setting 'rollout.task'.*did you mean 'tasks'"),
        ("update.loss.clip_hi=0.3", "did you mean 'clip_high'"),
        ("rollout.tasks=many", "rollout.tasks must be an integer, got 'many'"),
        ("rollout.tasks=1.5", "rollout.tasks must be an integer"),
        ("update.optimizer.lr=fast", "update.optimizer.lr must be a finite number, got 'fast'"),
        ("update.optimizer.lr=nan", "must be a finite number"),
        ("update.packing=pakced", "did you mean 'packed'"),
        ("rollout=3", "rollout must be a mapping"),
        ("tasks.exclude=3", "tasks.exclude must be a list, got 3"),
        ("tasks.exclude=a:b", "tasks.exclude must be a list, got 'a:b'"),
        ("update.optimizer.betas=0.9", "update.optimizer.betas must be a list of 2 values, got 0.9"),
        ("seed.x=3", "seed is a value, not a section"),
        ("nothing", "a setting is written KEY=VALUE"),
        ("update.loss.dual_clip=0.5", "dual_clip must be 0"),
        ("update.optimizer.betas=[0.9, 1.0]", r"update.optimizer: betas must lie in \[0, 1\)"),
        ("sft.noise=1.5", r"sft: noise must lie in \[0, 1\], got 1.5"),
        ("model.scratch.heads=0", "model.scratch: heads must be at least 1, got 0"),
        ("evaluation.top_p=0", r"evaluation: top_p must lie in \(0, 1\]"),
        ("prompting.max_context=256", "max_new_tokens is 256 in a context of 256 tokens"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, override: str, message: str) -> None:
    path = write(tmp_path, "a.yaml", "out: x\nseed: 1\n")
    with pytest.raises(ConfigError, match=message):
        load_settings(path, (override,))


def numbers(kind: Any, prefix: str = "") -> Iterator[str]:
    """The full names of all settings that are one number."""
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield from numbers(hint, f"{prefix}{name}.")
        elif hint in (int, float):
            yield f"{prefix}{name}"


# a negative weight lowers the entropy; the rule of branching is a line
SIGNED = ("update.loss.entropy_weight", *(f"rollout.branching.{name}" for name in ("base", "slope", "threshold")))


def test_a_negative_number_is_rejected_wherever_it_has_no_meaning(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "out: x\n")
    names = list(numbers(TrainConfig))
    assert len(names) > 60
    for name in names:
        if name in SIGNED:
            load_settings(path, (f"{name}=-1",))
            continue
        with pytest.raises(ConfigError, match="-1") as caught:
            load_settings(path, (f"{name}=-1",))
        assert name.rpartition(".")[2] in str(caught.value)


def test_a_device_that_torch_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match="device must be auto, cpu, cuda or cuda:N, got 'gpu'"):
        pick_device("gpu")


def test_a_missing_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing setting: out"):
        load_settings(write(tmp_path, "a.yaml", "seed: 1\n"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "out: [", "not YAML"),
        ("a.json", "{", "a.json"),
        ("a.yaml", "- 1\n", "expected a mapping"),
        ("a.ini", "", "ends in .yaml"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_mapping(write(tmp_path, name, text))
    with pytest.raises(DataError, match="cannot be read"):
        load_mapping(tmp_path / "nowhere.yaml")


def test_the_resolved_copy_reads_back_the_same(
    tmp_path: Path, config: dict[str, Any], settings_of: Callable[..., TrainConfig]
) -> None:
    settings = settings_of(config, "update.optimizer.lr=1e-6", "tasks.exclude=[a:b]")
    write_yaml(tmp_path / "c.yaml", to_plain_data(settings))
    assert load_settings(tmp_path / "c.yaml") == settings
    assert read_dataclass(TrainConfig, apply_overrides(to_plain_data(settings), [])) == settings


def test_the_shipped_configs_read(tmp_path: Path) -> None:
    folder = Path(__file__).parents[4] / "train" / "configs"
    found = sorted(folder.glob("*.yaml"))
    assert found
    for path in found:
        if "kind" in load_mapping(path):
            read_dataclass(SuccessTrainConfig, load_mapping(path))
        else:
            load_settings(path, (f"out={tmp_path}",))
