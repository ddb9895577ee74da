"""An unmatchable entity changes nothing: it is not counted, and it is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.episodes.entity_groups import FILM, search, searches
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.text.entity_matching import EntityMatcher, MatchRule
from creditflow.train.cli import main
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.trajectory import Group, write_jsonl

NEVER = {"normalized": ["yes", "No.", "—", "…!", " ", ""], "exact_substring": ["yes", "NO", "no!", ""]}
SCHEMES = [
    ("gdcr", {}),
    ("sapo", {"answer": "virtual"}),
    ("egrpo", {}),
    ("egrpo", {"scope": "trajectory"}),
    ("egrpo", {"aliases": True}),
]


@pytest.mark.parametrize("rule", list(NEVER))
@pytest.mark.parametrize(("name", "options"), SCHEMES)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_an_entity_that_can_never_match_changes_no_credit(name, options, rule, seed, data):
    group = random_group(np.random.default_rng(seed))
    more = data.draw(st.lists(st.sampled_from(NEVER[rule]), min_size=1, unique=True))
    entities = data.draw(st.permutations([*group.task["entities"], *more]))
    scheme = credit.make(name, rule=rule, **options)
    plain, got = scheme.assign(group), scheme.assign(Group(group.trajectories, {**group.task, "entities": entities}))
    np.testing.assert_array_equal(got.flat_advantages, plain.flat_advantages)
    np.testing.assert_array_equal(got.flat_step_rewards, plain.flat_step_rewards)
    assert sorted(got.diagnostics["unmatchable"]) == sorted(more)
    assert plain.diagnostics["unmatchable"] == ()


def test_a_matchable_alias_makes_an_entity_matchable():
    task = {**FILM, "entities": [*FILM["entities"], {"name": "Yes", "aliases": ["Yes the band"]}]}
    group = searches(search(("Yes the band", ""), name="a"), search(("", ""), name="b"), task=task)
    fractions = {
        aliases: credit.make("egrpo", rule="normalized", aliases=aliases).assign(group).diagnostics["gamma"].tolist()
        for aliases in (True, False)
    }
    assert fractions == {True: [1 / 4, 0.0], False: [0.0, 0.0]}


def test_mentioning_all_matchable_entities_gives_rate_one():
    task = {**FILM, "entities": [*FILM["entities"], "yes"]}
    named = "Inception, Christopher Nolan, London, Science Fiction, yes"
    gamma = credit.make("egrpo").assign(searches(search((named, "")), task=task)).diagnostics["gamma"]
    assert gamma.tolist() == [1.0]


def test_an_environment_that_recorded_an_unmatchable_entity_does_not_make_it_count():
    task = {**FILM, "entities": [*FILM["entities"], "yes"]}
    one = search(("", ""), ("yes", ""))
    turns = tuple(replace(turn, entities=("yes",)) for turn in one.turns)
    shown = Group((replace(one, turns=turns),), {**task, "edges": [*FILM["edges"], ["yes", "to", "London"]]})
    assert not credit.make("gdcr", observations="entities").assign(shown).flat_step_rewards.any()


@given(st.lists(st.lists(st.sampled_from(["Ann", "", "—", "Bob"]), max_size=3), max_size=5))
def test_the_matcher_lists_unmatchable_entities(forms):
    nothing_by_rule: dict[MatchRule, set[str]] = {"normalized": {"", "—"}, "exact_substring": {""}}
    for rule, nothing in nothing_by_rule.items():
        matcher = EntityMatcher(forms, rule)
        assert matcher.unmatchable == tuple(i for i, own in enumerate(forms) if set(own) <= nothing)
        assert not set(matcher.found("Ann — Bob")) & set(matcher.unmatchable)


def test_the_command_lists_unmatchable_entities(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    task = {**FILM, "entities": [*FILM["entities"], "yes"]}
    group = searches(search(("Nolan", ""), ("", "")), task=task)
    write_jsonl(tmp_path / "log.jsonl", [group])
    assert main(["credit", "--scheme", "egrpo", str(tmp_path / "log.jsonl"), "--out", str(tmp_path / "out")]) == 0
    assert "entities that no text can mention, and which are ignored: 'yes'" in capsys.readouterr().err
    assert json.loads((tmp_path / "out").read_text())["scheme"] == "egrpo"
