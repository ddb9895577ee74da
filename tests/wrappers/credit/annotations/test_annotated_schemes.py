"""``prm``, ``igpo``: annotations become credit; the error about a missing one names the command."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from helpers.episodes.annotated import with_annotations
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.wrappers.credit import CreditError


@pytest.mark.parametrize(
    ("name", "missing", "writer"),
    [("prm", "judge.score", "judge:URL#MODEL"), ("igpo", "logp.answer.mean", "likelihood:DIR")],
)
def test_a_missing_annotation_names_the_turn_and_the_command_that_writes_it(
    name: str, missing: str, writer: str
) -> None:
    full = with_annotations(walk("s a g"), judge__score=[0.0, 0.0], logp__answer__mean=[0.0] * 3)
    broken = replace(full.turns[1], values={k: v for k, v in full.turns[1].values.items() if k != missing})
    g = group(full, replace(full, turns=(full.turns[0], broken), trajectory_id="second"))
    with pytest.raises(CreditError, match=rf"'{missing}', which .*'second', turn 1 does not have; .*--with {writer} "):
        credit.make(name).assign(g)


@pytest.mark.parametrize("name", ["ppo_gae", "mt_ppo", "prm", "igpo"])
def test_explain_names_the_annotations(name: str) -> None:
    text = credit.describe(name)
    assert "Annotations needed: " + ", ".join(credit.make(name).needs) in text
    assert name not in credit.names(given=())
    assert name in credit.names(given=credit.make(name).needs)


def test_next_values_are_those_of_the_next_turn() -> None:
    # the builder above writes ".next" as the next turn's number, as annotators do
    turns = with_annotations(walk("s a b g"), value__x=[1.0, 2.0, 3.0, 4.0]).turns
    assert all(a.values["value.x.next"] == b.values["value.x"] for a, b in pairwise(turns))
