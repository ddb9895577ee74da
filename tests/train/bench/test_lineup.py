"""Schemes of one's own take part by themselves, or are named with the reason why they cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.columns import scheme_column, scheme_columns, settings_of
from creditflow.train.bench.exact.gridworlds import grid_tasks
from creditflow.train.bench.lineup import line_up
from creditflow.train.bench.run import read_results
from creditflow.train.cli import main
from creditflow.train.rollout import play_group
from creditflow.wrappers import credit
from creditflow.wrappers.credit import registry
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group


@dataclass(frozen=True, kw_only=True)
class Needy(credit.Scheme):
    """Reads what nobody wrote."""

    name = "needy"
    requires: ClassVar[tuple[str, ...]] = ("value.needy",)

    def assign(self, group):
        raise AssertionError("never asked")


@dataclass(frozen=True, kw_only=True)
class Picky(credit.Scheme):
    """Refuses every group."""

    name = "picky"

    def assign(self, group):
        raise credit.CreditError(f"group {group.group_id!r} has no entities")


@dataclass(frozen=True, kw_only=True)
class LateRefusal(credit.Scheme):
    """Scores recorded logs, but not the groups that are drawn from the tables."""

    name = "late"

    def assign(self, group):
        if type(group) is not Group:
            raise credit.CreditError("needs the observations")
        return credit.make("grpo").assign(group)


@dataclass(frozen=True, kw_only=True)
class LastTurn(credit.Scheme):
    """Works everywhere."""

    name = "last_turn"

    def assign(self, group):
        arrays = group.arrays
        step = (arrays.last & arrays.success[arrays.trajectory]).astype(float)
        return credit.Credit.of(group, outcome=arrays.returns * 0, step=step)


@pytest.fixture
def groups():
    env = GroupEnv("grid-pits", size=8)
    source = grid_tasks("pits", 0, 4)
    return [play_group(env, TabularAgent(optimal_prob=0.6), source.get(i)) for i in source.task_ids()]


@pytest.fixture
def newcomers(monkeypatch):
    for scheme in (Needy, Picky, LateRefusal, LastTurn):
        monkeypatch.setitem(registry._SCHEMES, scheme.name, scheme)


def test_a_registered_scheme_takes_part_without_being_listed(newcomers, groups):
    assert "last_turn" in scheme_columns(False)
    lineup = line_up(scheme_columns(False), groups, horizon=20, exact=True)
    assert "last_turn" in lineup.schemes
    assert "shuffled(last_turn)" in lineup.controls


def test_a_scheme_that_lacks_something_is_named_with_the_reason(newcomers, groups):
    lineup = line_up(["grpo", "needy", "picky"], groups, horizon=20, exact=True)
    assert lineup.schemes == ("grpo",)
    assert "value.needy" in lineup.undefined["needy"]
    assert "no entities" in lineup.undefined["picky"]


def test_an_annotation_that_is_there_is_not_missing(newcomers, groups, monkeypatch):
    monkeypatch.setattr(Needy, "assign", LastTurn.assign)
    annotated = [
        replace(
            group,
            trajectories=tuple(
                replace(member, turns=tuple(replace(turn, values={"value.needy": 0.5}) for turn in member.turns))
                for member in group.trajectories
            ),
        )
        for group in groups
    ]
    assert line_up(["needy"], groups, horizon=20, exact=True).schemes == ()
    assert line_up(["needy"], annotated, horizon=20, exact=True).schemes == ("needy",)


def test_a_scheme_without_what_it_reads_of_the_task_is_named_with_the_reason(groups):
    lineup = line_up(["grpo", "gdcr", "egrpo"], groups, horizon=20, exact=True)
    assert lineup.schemes == ("grpo",)
    assert "entities" in lineup.undefined["gdcr"]
    assert "entities" in lineup.undefined["egrpo"]


def test_the_run_goes_on_without_the_schemes_that_refuse(newcomers, tmp_path, capsys):
    names = "grpo,last_turn,needy,picky,late"
    command = ["bench", "--preset", "smoke", "--envs", "grids", "--workers", "1", "--schemes", names]
    assert main([*command, "--out", str(tmp_path)]) == 0
    (suite,) = read_results(tmp_path / "results.json")["suites"]
    assert suite["schemes"] == ["grpo", "last_turn"]
    assert suite["undefined"]["late"] == "needs the observations"
    assert {"needy", "picky"} <= set(suite["undefined"])
    shown = capsys.readouterr().out
    assert "Not defined on grids" in shown
    assert "no annotation 'value.needy'" in shown
    assert "value.needy" in (tmp_path / "report.html").read_text()


def test_a_run_without_any_scheme_still_shows_its_controls(newcomers, tmp_path, capsys):
    command = ["bench", "--preset", "smoke", "--envs", "grids", "--workers", "1", "--schemes", "needy"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "no scheme is defined here" in capsys.readouterr().out


def test_unknown_columns_suggest_the_near_one():
    with pytest.raises(ConfigError, match="did you mean 'grouptd'"):
        scheme_column("groupdt")


def test_settings_that_differ_from_the_paper_are_told():
    assert settings_of(["grpo", "graphgpo"]) == {"graphgpo": "graphgpo with distance_discount=0.8"}
    assert "step part alone" in settings_of(["gigpo_mean"])["gigpo_mean"]
