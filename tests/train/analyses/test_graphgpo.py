"""Classes of turns, on logs small enough to draw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.episodes.builders import group, walk

from creditflow.train.analyses.finding import NotDefined
from creditflow.train.analyses.graphgpo import CLASSES, analyse


def counts(found, outcome):
    """Number of turns in each class that occurs."""
    row = found.numbers["graph"][outcome]
    return {name: round(row[name] * row["turns"]) for name in CLASSES if row[name]}


def test_turns_are_classified_by_their_change_of_distance():
    # s - a - g is the shortest path; b is as far from g as s, x is a dead end
    g = group(
        walk("s a g"),
        walk("s b a s a g", name="wanders"),
        walk("s s x x", "failed", invalid=[0]),
    )
    found = analyse([g])
    # "wanders": s→b detour (both 2 away), b→a and a→g, s→a shortest, a→s regress
    assert counts(found, "successful") == {"shortest": 5, "detour": 1, "regress": 1}
    assert counts(found, "failed") == {"invalid": 1, "lost": 1, "out of reach": 1}
    assert found.numbers["graph"]["all"]["turns"] == 10
    assert found.numbers["useful_in_failed"] == 0.0
    assert found.numbers["not_useful_in_successful"] == pytest.approx(2 / 7)


def test_shortest_paths_are_those_of_least_cost():
    g = group(walk("s a g", costs=[5.0, 1.0]), walk("s b a g", costs=[1.0, 1.0, 1.0], name="cheap"))
    assert counts(analyse([g]), "successful") == {"shortest": 4, "detour": 1}


def test_failed_rollouts_may_have_useful_turns():
    found = analyse([group(walk("s a g"), walk("s a x", "failed"))])
    assert counts(found, "failed") == {"shortest": 1, "lost": 1}
    assert found.numbers["useful_in_failed"] == 0.5


def test_groups_without_a_success_are_left_out_and_counted():
    found = analyse([group(walk("s a g")), group(walk("s x x", "failed"))])
    assert (found.numbers["groups"], found.numbers["groups_left_out"], found.numbers["turns_left_out"]) == (1, 1, 2)


def test_a_log_without_a_success_is_not_defined():
    with pytest.raises(NotDefined, match="no rollout succeeded"):
        analyse([group(walk("s x", "failed"))])


def test_recorded_oracle_distances_give_a_second_table():
    one = walk("s a g")
    far = [(3.0, 2.0), (2.0, -1.0)]
    turns = tuple(
        replace(turn, values={"distance.oracle": before, "distance.oracle.next": after})
        for turn, (before, after) in zip(one.turns, far, strict=True)
    )
    found = analyse([group(replace(one, turns=turns))])
    assert found.numbers["oracle"]["successful"]["shortest"] == 0.5
    assert found.numbers["oracle"]["successful"]["lost"] == 0.5
    assert len(found.tables) == 2
