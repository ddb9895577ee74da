"""Registered schemes take part without further code, or are listed with the reason why they cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from helpers.worlds.gridworlds import grid_tasks

from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.document import read_results
from creditflow.train.bench.methods import default_schemes, scheme_entry, settings_of
from creditflow.train.bench.selection import select_methods
from creditflow.train.cli import main
from creditflow.train.rollout import play_group
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import SCHEMES
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group


@dataclass(frozen=True, kw_only=True)
class Needy(credit.Scheme):
    """Reads an annotation that no annotator writes."""

    name = "needy"
    requires: ClassVar[tuple[str, ...]] = ("value.needy",)

    def assign(self, group):
        raise AssertionError("never called")


@dataclass(frozen=True, kw_only=True)
class Picky(credit.Scheme):
    """Rejects every group."""

    name = "picky"

    def assign(self, group):
        raise credit.CreditError(f"group {group.group_id!r} has no entities")


@dataclass(frozen=True, kw_only=True)
class RecordedOnly(credit.Scheme):
    """Scores recorded logs, but not simulated groups."""

    name = "late"

    def assign(self, group):
        if type(group) is not Group:
            raise credit.CreditError("needs the observations")
        return credit.make("grpo").assign(group)


@dataclass(frozen=True, kw_only=True)
class LastTurn(credit.Scheme):
    """Scores every group."""

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
def registered(monkeypatch):
    for scheme in (Needy, Picky, RecordedOnly, LastTurn):
        monkeypatch.setitem(SCHEMES._entries, scheme.name, scheme)


def test_a_registered_scheme_takes_part_without_being_listed(registered, groups):
    assert "last_turn" in default_schemes(False)
    selection = select_methods(default_schemes(False), groups, horizon=20, exact=True)
    assert "last_turn" in selection.schemes
    assert "shuffled(last_turn)" in selection.controls


def test_of_a_swept_scheme_the_first_variant_has_controls_and_variants_beside_schemes_have_none(groups):
    variants = [f"{name}{{discount={value}}}" for name in ("rewardflow", "grouptd") for value in (0.5, 0.9)]
    selection = select_methods(variants, groups, horizon=20, exact=False)
    shuffled = [name for name in selection.controls if name.startswith("shuffled(")]
    assert shuffled == ["shuffled(rewardflow{discount=0.5})", "shuffled(grouptd{discount=0.5})"]
    beside = select_methods(["gigpo", *variants], groups, horizon=20, exact=False)
    assert [name for name in beside.controls if name.startswith("shuffled(")] == ["shuffled(gigpo)"]


def test_a_scheme_that_lacks_annotations_is_undefined_with_the_reason(registered, groups):
    selection = select_methods(["grpo", "needy", "picky"], groups, horizon=20, exact=True)
    assert selection.schemes == ("grpo",)
    assert "value.needy" in selection.undefined["needy"]
    assert "no entities" in selection.undefined["picky"]


def test_a_scheme_takes_part_when_the_log_has_its_annotation(registered, groups, monkeypatch):
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
    assert select_methods(["needy"], groups, horizon=20, exact=True).schemes == ()
    assert select_methods(["needy"], annotated, horizon=20, exact=True).schemes == ("needy",)


def test_a_scheme_that_lacks_task_data_is_undefined_with_the_reason(groups):
    selection = select_methods(["grpo", "gdcr", "egrpo"], groups, horizon=20, exact=True)
    assert selection.schemes == ("grpo",)
    assert "entities" in selection.undefined["gdcr"]
    assert "entities" in selection.undefined["egrpo"]


def test_a_run_continues_without_the_schemes_that_cannot_score(registered, tmp_path, capsys):
    names = "grpo,last_turn,needy,picky,late"
    command = ["bench", "--preset", "smoke", "--envs", "shared", "--workers", "1", "--schemes", names]
    assert main([*command, "--out", str(tmp_path)]) == 0
    (suite,) = read_results(tmp_path / "results.json")["suites"]
    assert suite["schemes"] == ["grpo", "last_turn"]
    assert suite["undefined"]["late"] == "needs the observations"
    assert {"needy", "picky"} <= set(suite["undefined"])
    shown = capsys.readouterr().out
    assert "Not applicable to shared" in shown
    assert "no annotation 'value.needy'" in shown
    assert "value.needy" in (tmp_path / "report.html").read_text()


def test_a_run_without_schemes_still_shows_the_controls(registered, tmp_path, capsys):
    command = ["bench", "--preset", "smoke", "--envs", "shared", "--workers", "1", "--schemes", "needy"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "shared: no two schemes were compared." in capsys.readouterr().out


def test_an_unknown_scheme_suggests_the_near_name():
    with pytest.raises(ConfigError, match="did you mean 'grouptd'"):
        scheme_entry("groupdt")


def test_settings_that_differ_from_the_paper_are_described():
    assert settings_of(["grpo", "graphgpo"]) == {"graphgpo": "graphgpo with distance_discount=0.8"}
