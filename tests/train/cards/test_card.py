"""Cards: complete for every scheme and true to it, and the committed page is what they make; what a scheme reads is found from its behaviour."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.train.cards.card import FIELDS, Card, fields_read, make_card, with_fresh_keys
from creditflow.train.cards.figures import shipped
from creditflow.train.cards.page import card_markdown, card_text, cards_page, overview
from creditflow.wrappers.credit.check import PROPERTIES
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.records.group import Group

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
    card = card_of(name)  # raises if the scheme breaks the contract or a property that it declares
    sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.M)[1:]}
    made = card_markdown(card).removeprefix("## ")
    assert sections[name].strip() == made.strip(), "creditflow schemes --all --out wrappers/credit --force"

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


def test_the_overview_of_the_committed_page_is_up_to_date() -> None:
    cards = [replace(card_of("grpo"), name=name) for name in credit.names()]
    page, made = (
        re.split(r"^## ", text, flags=re.M) for text in (PAGE.read_text("utf-8"), cards_page(cards, shipped()))
    )
    assert page[0] == made[0]
    assert [part.partition("\n")[0] for part in page[1:]] == list(credit.names())


def test_rtmc_credits_a_group_of_successes() -> None:
    refuted = {p.name: p.counterexample for p in card_of("rtmc").properties if p.result == "refuted"}
    assert "(success)" in refuted["stopping_time"]
    assert "failed" not in refuted["stopping_time"]
    assert any("all outcomes are equal" in line for line in card_of("rtmc").limitations)
    repaired = credit.check_credit(credit.make("rtmc", dead_groups="zero"))
    assert repaired.holds("stopping_time")


def test_what_follows_from_needs_and_properties() -> None:
    assert "A group with equal outcomes is dead: it gives no credit." in card_of("grpo").limitations
    assert any("value.critic cannot be scored" in line for line in card_of("mt_ppo").limitations)
    assert any("entities" in line for line in card_of("egrpo").limitations)
    assert "A group without a success or a reward still gets credit." in card_of("egrpo").limitations


def test_fresh_keys_remove_step_advantages_of_gigpo() -> None:
    assert any(
        line.startswith("If every state after the first has a distinct key") for line in card_of("gigpo").limitations
    )


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


@dataclass(frozen=True, kw_only=True)
class Silent(credit.Scheme):
    """Zero for every turn, whatever the group is."""

    name = "silent"

    def assign(self, group: Group) -> credit.Credit:
        return credit.Credit.of(group, outcome=np.zeros(len(group)))


@dataclass(frozen=True, kw_only=True)
class Actions(credit.Scheme):
    """One for every turn with the action a0."""

    name = "actions"

    def assign(self, group: Group) -> credit.Credit:
        step = np.array([turn.action == "a0" for turn in group.turns], np.float64)
        return credit.Credit.of(group, outcome=np.zeros(len(group)), step=step)


def test_a_scheme_that_reads_nothing_reads_nothing() -> None:
    assert fields_read(Silent()) == ()


def test_the_one_field_that_a_scheme_reads_is_found() -> None:
    assert fields_read(Actions()) == ("actions",)


@pytest.mark.parametrize(
    ("name", "read", "not_read"),
    [
        ("grpo", {"rewards of turns"}, {"state keys", "actions", "success flag"}),
        ("gigpo", {"rewards of turns", "state keys"}, {"actions"}),
        ("graphgpo", {"costs of transitions", "state keys", "success flag"}, {"thoughts"}),
        ("rtmc", {"actions", "state keys", "graded score"}, {"rewards of turns"}),
        ("egrpo", {"thoughts", "success flag"}, {"observations", "queries", "state keys"}),
        ("draco", {"numbers of tokens", "graded score"}, {"state keys"}),
    ],
)
def test_known_schemes(name: str, read: set[str], not_read: set[str]) -> None:
    found = set(fields_read(credit.make(name)))
    assert read <= found
    assert not found & not_read


def test_options_decide_what_is_read() -> None:
    assert "parsed" not in fields_read(credit.make("grpo"))
    assert "parsed" in fields_read(credit.make("grpo", invalid_penalty=0.1))
    assert "text keys" in fields_read(credit.make("gigpo", key="text"))


def test_every_field_is_read_by_some_scheme() -> None:
    options: tuple[credit.Scheme, ...] = (
        credit.make("gigpo", key="text"),
        credit.make("grpo", invalid_penalty=0.1),
        credit.make("rewardflow"),
        *(credit.make(name) for name in ("graphgpo", "grouptd", "rtmc", "gdcr", "stepsearch", "draco")),
    )
    found = {name for scheme in options for name in fields_read(scheme)}
    assert set(FIELDS) - found <= {"effective"}


def test_fresh_keys_repeat_only_in_the_first_state() -> None:
    group = with_fresh_keys(random_group(np.random.default_rng(0)))
    keys = [turn.state_key for m in group.trajectories for turn in m.turns[1:]]
    assert len(set(keys)) == len(keys)
    assert {m.turns[0].state_key for m in group.trajectories} == {"s0"}
