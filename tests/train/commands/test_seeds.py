"""Seeds: one type in every command and every settings file, of which every number can be stored and drawn from."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command_parsers import PARSERS

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate.success.settings import SuccessDataConfig, SuccessTrainConfig
from creditflow.train.arguments.options import seed
from creditflow.train.cli import main
from creditflow.train.settings.bounds import MAX_SEED
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.records.jsonl import read_groups

WITH_SEED = sorted(
    name for name, parser in PARSERS.items() if any("--seed" in action.option_strings for action in parser._actions)
)
WRONG = (-1, MAX_SEED + 1, 2**63, 2**64)


@pytest.mark.parametrize("name", WITH_SEED)
def test_the_seed_of_every_command_has_one_type(name: str) -> None:
    [action] = [action for action in PARSERS[name]._actions if "--seed" in action.option_strings]
    assert action.type is seed
    assert action.default is None or 0 <= action.default <= MAX_SEED


def test_rollout_writes_a_log_that_is_read_again_with_every_seed_that_it_takes(tmp_path: Path) -> None:
    for number in (0, MAX_SEED):
        command = ["rollout", "--panel", "small-v1:valid", "--limit", "1", "--group-size", "2", "--seed", str(number)]
        assert main([*command, "--out", str(tmp_path / f"{number}.jsonl")]) == 0
        [group] = read_groups(tmp_path / f"{number}.jsonl")
        assert len(group) == 2


@pytest.mark.parametrize("number", WRONG)
def test_other_seeds_are_wrong_use(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x")
    for command in (["rollout", "--out", out], ["bench", "--out", out], ["play"], ["serve", "search", "wiki"]):
        with pytest.raises(SystemExit, match="2"):
            main([*command, "--seed", str(number)])
        assert f"expected a whole number from 0 to {MAX_SEED}, got '{number}'" in capsys.readouterr().err
    assert not Path(out).exists()


@pytest.mark.parametrize("number", WRONG)
def test_settings_reject_them_too(number: int) -> None:
    with pytest.raises(ConfigError, match=f"seed must be a whole number from 0 to {MAX_SEED}"):
        TrainConfig(out="x", seed=number)
    with pytest.raises(ConfigError, match="seed must be"):
        SuccessTrainConfig(kind="success_model", out="x", data=SuccessDataConfig(log="x", labels="y"), seed=number)
