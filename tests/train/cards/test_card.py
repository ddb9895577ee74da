"""Cards: complete for every scheme, true to the scheme, and the committed page is what they make."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache

import pytest
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.train.cards.card import Card, make_card
from creditflow.train.cards.figures import shipped
from creditflow.train.cards.page import card_markdown, card_text, cards_page, overview
from creditflow.wrappers.credit.check import PROPERTIES
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS

PAGE = ROOT / "wrappers" / "credit" / "SCHEMES.md"
every_name = pytest.mark.parametrize("name", credit.names())


@lru_cache(maxsize=64)
def card_of(name: str) -> Card:
    return make_card(name)


@every_name
def test_every_scheme_says_what_it_was_checked_against_and_when_it_fails(name: str) -> None:
    own = vars(lookup(name))
    assert own.get("verification"), "a card needs the class attribute verification"
    assert str(own.get("limitations", "")).endswith("."), (
        "a card needs the class attribute limitations, whole sentences"
    )


@every_name
def test_the_committed_page_has_the_card_that_the_code_makes(name: str) -> None:
    sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.M)[1:]}
    made = card_markdown(card_of(name)).removeprefix("## ")
    assert sections[name].strip() == made.strip(), "creditflow schemes --all --out wrappers/credit --force"


def test_the_overview_of_the_committed_page_is_up_to_date() -> None:
    cards = [card_of(name) for name in credit.names()]
    assert PAGE.read_text("utf-8") == cards_page(cards, shipped())


@every_name
def test_a_card_has_every_property_with_a_counterexample_where_it_is_refuted(name: str) -> None:
    card = card_of(name)
    assert [p.name for p in card.properties] == list(PROPERTIES)
    assert {p.name for p in card.properties if p.result == "declared"} == credit.make(name).checked_properties
    assert all(bool(p.counterexample) == (p.result == "refuted") for p in card.properties)
    shown = card_text(card)
    assert all(p.counterexample in shown for p in card.properties)
    assert all(line in shown for line in card.limitations)


@every_name
def test_a_card_is_json(name: str) -> None:
    data = json.loads(json.dumps(card_of(name).to_json(), allow_nan=False))
    assert data["name"] == name
    assert data["properties"][0]["name"] == "permutation"


def test_rtmc_credits_a_group_of_successes() -> None:
    refuted = {p.name: p.counterexample for p in card_of("rtmc").properties if p.result == "refuted"}
    assert "(success)" in refuted["stopping_time"]
    assert "failed" not in refuted["stopping_time"]
    assert any("all outcomes are equal" in line for line in card_of("rtmc").limitations)
    repaired = credit.check_credit(credit.make("rtmc", dead_groups="zero"))
    assert repaired.holds("stopping_time")


def test_what_follows_from_needs_and_properties() -> None:
    assert "A group with equal outcomes is dead." in card_of("grpo").limitations
    assert any("value.critic cannot be scored" in line for line in card_of("mt_ppo").limitations)
    assert any("entities" in line for line in card_of("egrpo").limitations)
    assert "A group without a success or a reward still gets credit." in card_of("egrpo").limitations


def test_fresh_keys_remove_step_advantages_of_gigpo() -> None:
    assert any(line.startswith("With fresh state keys ") for line in card_of("gigpo").limitations)


def test_the_cost_can_be_measured_now() -> None:
    card = make_card("rloo", measure_cost=True)
    assert math.isfinite(card.cost)
    assert card.cost > 0.0
    assert card.cost_ratio > 0.0


def test_the_overview_names_every_scheme_and_both_controls() -> None:
    first = [row[0] for row in overview(shipped())[1:]]
    assert [name for name in first if name in credit.names()] == list(credit.names())
    assert first[-2:] == ["exact advantage", "discounted outcome, no states"]


def test_settings_that_equal_the_defaults_have_the_name_of_the_scheme() -> None:
    assert credit.make("grouptd", **VARIANTS["grouptd_relative"]) == credit.make("grouptd")
    assert "grouptd_relative" not in shipped().measured
    assert "language models" in shipped().measured["grouptd"]
