"""The recommendation for a log: the shipped rules, the evidence for them, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.envs.errors import DataError
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.choice.advice import (
    RARELY,
    ShippedChoice,
    evidence_text,
    recommend,
    recommendation_text,
    shipped_choice,
)
from creditflow.train.choice.features import LogFeatures, log_features
from creditflow.train.choice.rules import Condition, Rules
from creditflow.train.cli import main
from creditflow.wrappers.credit.states.grouptd import GroupTD
from creditflow.wrappers.trajectory import write_jsonl

PLAIN = LogFeatures(
    repeated=0.8, conflicted=0.0, size=8.0, batch=16.0, success=0.3, all_failed=0.1, graded=0.0, step_rewards=0.0,
    length=12.0, length_spread=0.4,
)  # fmt: skip
REGRET = {"grpo": 4.0, "grouptd_relative": 0.5}


def setting(title: str, features: LogFeatures, best: str = "grouptd_relative") -> dict[str, object]:
    return {"title": title, "features": features.to_json(), "best": best, "regret": REGRET}


def choice() -> ShippedChoice:
    rules = Rules((Condition("repeated", False, 0.3, "grpo"),), "grouptd_relative")
    settings = (
        setting("near", PLAIN),
        setting("far", replace(PLAIN, size=64.0, batch=1.0, success=0.9)),
        setting("fresh", replace(PLAIN, repeated=0.1), "grpo"),
    )
    estimate = Estimate(1.0, 0.5, 1.5)
    return ShippedChoice(rules, {"rules": estimate}, {"a minus b": estimate}, ("It was evaluated.",), settings, {})


def test_the_rules_decide_and_the_parameters_are_those_of_the_method() -> None:
    advised = recommend(PLAIN, choice())
    assert advised.method == "grouptd_relative"
    assert advised.reason == "otherwise: grouptd_relative"
    scheme = credit.make(advised.scheme, **advised.parameters)
    assert isinstance(scheme, GroupTD)
    assert scheme.td_lambda == 0.6
    assert recommend(replace(PLAIN, repeated=0.1), choice()).method == "grpo"


def test_the_nearest_measured_settings_come_first() -> None:
    assert [title for title, _, _ in recommend(PLAIN, choice()).similar] == ["near", "fresh", "far"]
    assert recommend(replace(PLAIN, repeated=0.1), choice()).similar[0] == ("fresh", "grpo", 4.0)


def test_of_two_settings_that_differ_in_size_the_nearer_ratio_comes_first() -> None:
    made = replace(choice(), settings=tuple(setting(f"{n}", replace(PLAIN, size=float(n))) for n in (3, 2, 32)))
    for size, order in ((2.0, ["2", "3", "32"]), (3.0, ["3", "2", "32"]), (12.0, ["32", "3", "2"])):
        assert [title for title, _, _ in recommend(replace(PLAIN, size=size), made).similar] == order


def test_a_recommendation_is_plain_data() -> None:
    advised = recommend(replace(PLAIN, graded=0.5), choice())
    data = json.loads(json.dumps(advised.to_json()))
    assert data["scheme"] == "grouptd"
    assert data["parameters"] == dict(advised.parameters)
    assert data["similar"][0] == ["near", "grouptd_relative", 0.5]
    assert data["cautions"] == list(advised.cautions)


def test_logs_outside_of_what_was_measured_are_named() -> None:
    assert recommend(PLAIN, choice()).cautions == ()
    [caution] = recommend(replace(PLAIN, graded=0.5), choice()).cautions
    assert "a score between 0 and 1 is 0.5; nothing was measured beyond 0 to 0" in caution


def test_states_that_hardly_recur_call_for_caution_as_in_the_two_settings_that_were_measured() -> None:
    rare = [one for one in shipped_choice().settings if one["features"]["repeated"] < RARELY]
    ahead = {one["regret"]["grpo"] > one["regret"]["grouptd_relative"] for one in rare}
    assert (len(rare), ahead) == (2, {True, False})
    advised = recommend(replace(PLAIN, repeated=0.04))
    assert "only 4% of the turns" in advised.cautions[0]
    assert "Caution: only 4%" in recommendation_text(advised, {}, "the keys are Markov")


def test_the_text_says_what_why_and_how_sure() -> None:
    advised = recommend(replace(PLAIN, graded=1.0), choice())
    head = recommendation_text(advised, {"td_lambda": 0.8}, "keys merge states")
    for part in (
        "Recommended scheme: grouptd",
        "--scheme grouptd",
        "--set td_lambda=0.8 LOG",
        "Keys merge states.",
        "Caution: ",
    ):
        assert part in head
    evidence = evidence_text(advised)
    for part in ("otherwise", "It was evaluated.", "near: grouptd_relative, 0.5"):
        assert part in evidence


def test_the_recommended_command_can_be_run_as_printed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl("LOG", [group(walk("s a g"), walk("s b", "failed", name="two"))])
    for options in ({}, {"td_lambda": 0.8}, {"key": "state"}):
        command = recommendation_text(recommend(PLAIN, choice()), options, "keys").splitlines()[1].split()
        assert main([*command[1:], "--out", "credit.jsonl", "--force"]) == 0


def test_shipped_rules_are_the_same_after_a_round_trip() -> None:
    made = choice()
    assert ShippedChoice.from_json(json.loads(json.dumps(made.to_json()))).to_json() == made.to_json()
    with pytest.raises(DataError, match="version"):
        ShippedChoice.from_json({"version": 0})


def test_the_package_ships_rules_with_their_evidence() -> None:
    shipped = shipped_choice()
    assert len({one["title"].partition(":")[0] for one in shipped.settings}) >= 3
    assert all(source["commit"] for source in shipped.sources.values())
    advised = recommend(log_features([group(walk("s a g"), walk("s b", "failed", name="two"))]))
    assert advised.scheme in credit.names()
    credit.make(advised.scheme, **advised.parameters)
