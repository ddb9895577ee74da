"""The embedded sample is what its command writes, and its page documents every field."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from importlib.resources import files

import pytest

from creditflow.train.credit_set.build import records_of_task
from creditflow.train.credit_set.reading import SAMPLE, open_credit_set
from creditflow.train.credit_set.settings import PANEL, SETTINGS, BuildSettings

FOLDER = files("creditflow.assets") / "credit_set"


@pytest.fixture(scope="module")
def lines():
    return [json.loads(line) for line in gzip.decompress((FOLDER / SAMPLE).read_bytes()).splitlines()]


def test_the_sample_has_500_turns_of_all_policies_in_all_environments(lines):
    _, turns = open_credit_set(None)
    assert Counter(turn.env for turn in turns) == dict.fromkeys(SETTINGS, 125)
    assert min(Counter((turn.env, turn.policy) for turn in turns).values()) == 31
    assert len((FOLDER / SAMPLE).read_bytes()) < 2**20
    assert {turn.forks for turn in turns if turn.env != "sokoban"} == {32}
    assert len(turns) == len(lines) - 1


@pytest.mark.parametrize("env", list(SETTINGS))
def test_the_first_task_of_every_environment_is_built_again(lines, env):
    settings = BuildSettings(turns=500)
    again = records_of_task(settings, env, 0)
    stored = [record for record in lines[1:] if record["env"] == env][: len(again)]
    assert stored == json.loads(json.dumps(again))


def test_the_card_names_every_field_policy_and_limit(lines):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    described = card.partition("## Fields")[2].partition("## Predictions")[0]
    for name in {name for record in lines[1:] for name in record}:
        assert f"`{name}`" in described, name
    settings = BuildSettings()
    assert all(f"`{policy}`" in card for policy in settings.policies)
    panel = PANEL.partition(":")[0]
    for env, of_env in SETTINGS.items():
        row = next(line for line in card.splitlines() if line.startswith(f"| {env} "))
        cells = [cell.strip() for cell in row.split("|")]
        assert panel in cells[2]
        assert cells[3].split()[0] == str(of_env.max_steps)
        assert float(cells[4]) == of_env.noise


def test_answers_are_not_in_the_prompt_of_a_search(lines):
    for record in lines[1:]:
        if record["env"] == "wikisearch":
            assert "Possible actions" not in record["prompt"]
