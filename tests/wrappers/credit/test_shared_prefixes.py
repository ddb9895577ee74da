"""Turns that several trajectories share are trained on once, with the credit of all of them."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from helpers.episodes.builders import walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit.branches import share_prefixes
from creditflow.wrappers.credit.bridge import assign_groups
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.credit.registry import assigned
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_log, write_jsonl


def forked(seed: int, forks: int) -> Group:
    """A random group with branches of its trajectories and of their branches."""
    rng = np.random.default_rng(seed)
    stored = whole = random_group(rng)
    for number in range(forks):
        branch, full = (group.trajectories[-1] for group in random_fork(rng, whole))
        stored = replace(stored, trajectories=(*stored.trajectories, replace(branch, trajectory_id=f"fork {number}")))
        whole = replace(whole, trajectories=(*whole.trajectories, replace(full, trajectory_id=f"fork {number}")))
    # a branch repeats turns of another trajectory: every stored turn becomes an object of its own
    members = tuple(replace(one, turns=tuple(map(replace, one.turns))) for one in stored.trajectories)
    return replace(stored, trajectories=members)


@given(seed=st.integers(0, 10**6), forks=st.integers(0, 4))
def test_the_sum_has_the_policy_gradient_of_rows_that_repeat_their_prefix(seed: int, forks: int) -> None:
    group = forked(seed, forks)
    rng = np.random.default_rng(seed)
    scored = credit.make("grpo").assign(group)
    scored = replace(scored, flat_step_advantages=rng.normal(size=len(group.turns)))
    own = [turn for one in group.trajectories for turn in one.turns]
    score = {id(turn): rng.normal() for turn in own}  # ∇ log π of a turn, in one direction
    step = dict(zip(map(id, own), scored.flat_step_advantages, strict=True))
    expected = sum(
        score[id(turn)] * (outcome + step[id(turn)])
        for outcome, episode in zip(scored.outcome_advantages, group.episodes, strict=True)
        for turn in episode
    )
    stored = share_prefixes(group, scored, "sum").flat_advantages
    got = sum(score[id(turn)] * advantage for turn, advantage in zip(own, stored, strict=True))
    assert got == pytest.approx(expected, abs=1e-9)


@given(seed=st.integers(0, 10**6), forks=st.integers(0, 4))
def test_the_sum_is_the_mean_times_the_number_of_trajectories_that_share_a_turn(seed: int, forks: int) -> None:
    group = forked(seed, forks)
    scored = credit.make("grpo").assign(group)
    passes = [id(turn) for episode in group.episodes for turn in episode]
    times = [passes.count(id(turn)) for one in group.trajectories for turn in one.turns]
    mean, total = (share_prefixes(group, scored, combine).flat_advantages for combine in ("mean", "sum"))
    np.testing.assert_allclose(total, np.array(times) * mean, atol=1e-12)


@given(seed=st.integers(0, 10**6), forks=st.integers(1, 4), combine=st.sampled_from(["mean", "sum"]))
def test_the_credit_of_turns_that_are_not_shared_is_unchanged_to_the_bit(
    seed: int, forks: int, combine: Literal["mean", "sum"]
) -> None:
    group = forked(seed, forks)
    scored = credit.make("grpo").assign(group)
    scored = replace(scored, flat_step_advantages=np.random.default_rng(seed).normal(size=len(group.turns)))
    passes = [id(turn) for episode in group.episodes for turn in episode]
    alone = np.array([passes.count(id(turn)) == 1 for one in group.trajectories for turn in one.turns])
    shared = share_prefixes(group, scored, combine)
    np.testing.assert_array_equal(shared.flat_step_advantages[alone], scored.flat_step_advantages[alone])


def test_known_sums() -> None:
    root = walk("s a b g", name="root")
    first = walk("a c x", "failed", name="first", parent="root", fork_turn=1)
    second = walk("c y", "failed", name="second", parent="first", fork_turn=2)
    group = Group((root, first, second, walk("s z", "failed", name="alone")))
    scored = credit.make("grpo").assign(group)
    a = scored.outcome_advantages
    shared = share_prefixes(group, scored, "sum").advantages
    np.testing.assert_allclose(shared[0], [a[0] + a[1] + a[2], a[0], a[0]])
    np.testing.assert_allclose(shared[1], [a[1] + a[2], a[1]])
    np.testing.assert_allclose(shared[2], [a[2]])
    np.testing.assert_allclose(shared[3], [a[3]])


@given(seed=st.integers(0, 10**6), forks=st.integers(1, 4))
def test_the_number_of_a_shared_turn_does_not_depend_on_the_trajectory_that_stores_it(seed: int, forks: int) -> None:
    group = forked(seed, forks)
    *others, last = group.trajectories
    [at] = [i for i, one in enumerate(others) if one.trajectory_id == last.parent]
    parent, before, fork = others[at], int(group.first_turns[at]), last.fork_turn
    if any(one.parent == parent.trajectory_id for one in others) or fork < before:
        return  # others branch from it, or the fork is in the turns of its own ancestor
    # the branch stores the shared turns, and its parent becomes a branch of it
    kept = parent.turns[: fork - before]
    storing = replace(last, turns=(*kept, *last.turns), parent=parent.parent, fork_turn=parent.fork_turn, tokens=None)
    cut = replace(parent, turns=parent.turns[fork - before :], parent=last.trajectory_id, fork_turn=fork, tokens=None)
    again = replace(group, trajectories=(*others[:at], cut, *others[at + 1 :], storing))
    for name in ("grpo", "rloo"):
        [one], [two] = (assigned(credit.make(name), [each]) for each in (group, again))
        got = dict(zip(map(id, group.turns), one.flat_advantages.tolist(), strict=True))
        assert [got[id(turn)] for turn in again.turns] == pytest.approx(two.flat_advantages.tolist(), abs=1e-12)


@pytest.mark.parametrize("name", credit.names())
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_groups_of_plain_chains_have_the_same_numbers_to_the_bit(name: str, seed: int) -> None:
    scheme = credit.make(name)
    rng = np.random.default_rng(seed)
    group = random_group(rng, values=scheme.needs, token_values=scheme.requires_tokens)
    [expected], [got] = scheme.assign_batch([group]), assigned(scheme, [group])
    for field in ("flat_advantages", "flat_step_advantages", "outcome_advantages", "flat_loss_mask"):
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field))
    assert got.step_terms.keys() == expected.step_terms.keys()


@given(seed=st.integers(0, 10**6), forks=st.integers(0, 4))
def test_explanations_and_the_bridge_have_the_number_of_the_shared_turn(seed: int, forks: int) -> None:
    group = forked(seed, forks)
    [expected] = assigned(credit.make("gigpo"), [group])
    [bridged] = assign_groups([group], credit.make("gigpo"))
    np.testing.assert_array_equal(bridged.flat_advantages, expected.flat_advantages)
    for i, member in enumerate(group.trajectories):
        for t in range(len(member.turns)):
            why = credit.explain(group, "gigpo", i, t)
            assert why.advantage == expected.advantages[i][t]
            assert sum(term.value for term in why.terms) == pytest.approx(why.advantage, abs=1e-9)


@given(seed=st.integers(0, 10**6), forks=st.integers(0, 4))
def test_trees_are_written_read_and_written_byte_by_byte(seed: int, forks: int) -> None:
    first, second = io.StringIO(), io.StringIO()
    write_jsonl(first, [forked(seed, forks)])
    write_jsonl(second, read_log(io.StringIO(first.getvalue())))
    assert first.getvalue() == second.getvalue()
