"""The last observation may be empty: the empty text is a state like any other in every scheme over text keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.strategies import groups
from hypothesis import given, settings

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.analyses.audit import audit
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group


def reads_texts(name):
    try:
        return not credit.make(name, key="text").requires
    except ConfigError:
        return False


SCHEMES = [name for name in credit.names() if reads_texts(name)]


def shown(group: Group, ends: str, middle: str) -> Group:
    """The group with ``ends`` as the text after every last turn, and ``middle`` as the text of state s1."""

    def text(key: str) -> str:
        return middle if key == "text of s1" else key

    members = []
    for m in group.trajectories:
        turns = tuple(replace(turn, text_key=text(turn.text_key)) for turn in m.turns)
        members.append(replace(m, turns=turns, final_text_key=ends))
    return Group(tuple(members), group.task)


def test_there_are_schemes_that_read_texts():
    assert {"gigpo", "graphgpo", "rewardflow", "grouptd"} <= set(SCHEMES)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("semantics", ["paper", "release"])
@given(group=groups(min_turns=1))
def test_the_empty_text_gives_the_credit_of_any_other(name, semantics, group):
    try:
        scheme = credit.make(name, key="text", semantics=semantics)
    except ConfigError:
        return  # no such preset
    for middle in ("text of s1", ""):
        empty, named = shown(group, "", middle), shown(group, "nothing", middle or "nothing")
        try:
            wanted = scheme.assign(named).advantages
        except CreditError:
            continue
        for a, b in zip(scheme.assign(empty).advantages, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@settings(max_examples=8)
@given(group=groups(min_turns=1))
def test_graphs_and_audits_take_empty_texts(group):
    empty, named = shown(group, "", ""), shown(group, "nothing", "nothing")
    assert (
        StateGraph.from_group(empty, key="text").statistics() == StateGraph.from_group(named, key="text").statistics()
    )
    assert repr(audit([empty])) == repr(audit([named]))  # some of its numbers may be nan


@given(group=groups(min_turns=1))
def test_a_log_without_texts_is_rejected(group):
    members = tuple(
        replace(m, turns=tuple(replace(t, text_key="") for t in m.turns), final_text_key="") for m in group.trajectories
    )
    with pytest.raises(TrajectoryError, match="without text_key"):
        Group(members).states("text")
