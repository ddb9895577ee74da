"""Repeated states of known groups, and sub-groups enumerated."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from evidence.papers import NotDefinedError, expected_unique, repeated_states
from helpers.episodes.builders import group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.wrappers.credit.random_group import random_fork, random_group


def test_unique_states_of_two_rollouts_are_the_mean_over_all_pairs():
    g = group(walk("s a g"), walk("s b g"), walk("s a b g"))
    rows = repeated_states([g]).numbers["by_size"]
    assert [row["rollouts"] for row in rows] == [1, 2, 3]
    assert [row["states"] for row in rows] == pytest.approx([7 / 3, 3.0, 3.0])
    assert [row["turns"] for row in rows] == pytest.approx([7 / 3, 14 / 3, 7.0])
    # edges: s→a twice; a→g, s→b, b→g twice, a→b
    assert rows[-1]["transitions"] == 5.0


@given(st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=6))
def test_expected_unique_is_the_average_over_all_sub_groups(rollouts):
    size = len(rollouts)
    visits = np.array([sum(x in seen for seen in rollouts) for x in sorted(set().union(*rollouts))])
    got = expected_unique(visits, size)
    for g in range(1, size + 1):
        every = [len(set().union(*chosen)) for chosen in combinations(rollouts, g)]
        assert got[g - 1] == pytest.approx(np.mean(every))


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["state", "text"]))
def test_a_branch_has_visited_what_its_prefix_did(seed, key):
    rng = np.random.default_rng(seed)
    stored, full = random_fork(rng, random_group(rng))
    rows, expanded = (repeated_states([group], key=key).numbers["by_size"] for group in (stored, full))
    for name in ("states", "transitions"):
        assert [row[name] for row in rows] == pytest.approx([row[name] for row in expanded])
    index = stored.episode_index
    episodes = [set(index.stored[index.episode == i].tolist()) for i in range(len(stored))]
    for row in rows:  # a shared turn was played once
        every = [len(set().union(*chosen)) for chosen in combinations(episodes, row["rollouts"])]
        assert row["turns"] == pytest.approx(np.mean(every))


def test_groups_of_unequal_size_get_a_note():
    found = repeated_states([group(walk("s a g")), group(walk("s a g"), walk("s b g"))])
    assert [row["groups"] for row in found.numbers["by_size"]] == [2, 1]
    assert any("differ in size" in note for note in found.notes)


def test_a_log_without_turns_is_refused():
    with pytest.raises(NotDefinedError, match="turns"):
        repeated_states([group(walk("s", "env_error"))])
