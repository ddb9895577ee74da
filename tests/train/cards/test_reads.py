"""What a scheme reads is found from its behaviour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from creditflow import credit
from creditflow.train.cards.card import FIELDS, fields_read, with_fresh_keys
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group


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
