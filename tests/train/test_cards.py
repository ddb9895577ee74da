"""Cards: complete for every scheme and true to it; the committed table is what the code and the study make."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest
from evidence.settings.tables import figures
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.train.cards import Card, card_text, make_card, markdown_page, overview
from creditflow.wrappers.credit.check import PROPERTIES
from creditflow.wrappers.credit.registry import lookup

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
def test_a_card_has_every_property_and_shows_all_of_it(name: str) -> None:
    card = card_of(name)  # raises if the scheme breaks the contract or a property that it declares
    scheme = credit.make(name)
    assert scheme.checked_properties == scheme.properties
    assert [p.name for p in card.properties] == list(PROPERTIES)
    assert {p.name for p in card.properties if p.result == "declared"} == scheme.properties
    assert all(bool(p.counterexample) == (p.result == "refuted") for p in card.properties)
    shown = card_text(card)
    assert all(p.counterexample in shown for p in card.properties)
    assert all(line in shown for line in card.limitations)
    data = json.loads(json.dumps(card.to_json(), allow_nan=False))
    assert data["name"] == name
    assert data["properties"][0]["name"] == "permutation"


def test_the_committed_table_is_up_to_date_and_short() -> None:
    assert PAGE.read_text("utf-8") == markdown_page(), "creditflow schemes --markdown > wrappers/credit/SCHEMES.md"
    assert len(PAGE.read_bytes()) < 8_000
    assert [row[0] for row in overview()[1:]] == list(credit.names())


@every_name
def test_a_scheme_can_be_checked_against_a_paper_that_was_read_or_its_code(name: str) -> None:
    source = lookup(name).source
    unread = any(word in source for word in ("the abstract", "secondary sources", "notes on the paper"))
    assert not unread or "Released code" in source


def test_the_results_are_those_of_the_study_of_settings() -> None:
    stored = (ROOT / "assets" / "schemes" / "figures.json").read_text("utf-8")
    assert stored == figures(ROOT / "tests" / "evidence" / "settings" / "results.jsonl")


def test_what_follows_from_needs_and_properties() -> None:
    assert "A group with equal outcomes is dead: it gives no credit." in card_of("grpo").limitations
    assert any("value.critic cannot be scored" in line for line in card_of("mt_ppo").limitations)
    assert any("entities" in line for line in card_of("egrpo").limitations)
    assert "A group without a success or a reward still gets credit." in card_of("egrpo").limitations
