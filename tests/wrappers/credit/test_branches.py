"""A branch's own turns get the credit that they get in the full episode with its prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.wikisearch.grading.rewards import REWARDS
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.episode_rewards import transcript_of
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

SEEDS = st.integers(0, 10**6)
SEMANTICS: tuple[credit.Semantics, ...] = ("paper", "release")
# its values are means over turns, in which a shared turn counts once: see the test of mean backups below
POOLED_REWARDS = {"grouptd"}
EVERY: list[tuple[str, credit.Semantics, Mapping[str, Any]]] = [
    (name, semantics, {})
    for name in credit.names()
    for semantics in SEMANTICS
    if semantics in lookup(name).presets and name not in POOLED_REWARDS
]
# settings in which memory along an episode matters
SETTINGS: list[tuple[str, credit.Semantics, Mapping[str, Any]]] = [
    ("pica", "release", {"penalty_start_turn": 1}),
    ("pica", "paper", {"rewarded_turns": "searches", "penalty_start_turn": 1}),
    ("pica", "paper", {"baseline": "group", "penalty_start_turn": 2}),
    ("pica", "paper", {"baseline": "critic", "discount": 0.9, "gae_lambda": 0.7}),
    ("pica", "paper", {"final": "outcome", "unanswered": "minus_one"}),
    ("stepsearch", "paper", {"discount": 0.0}),
    ("gdcr", "paper", {"observations": "entities"}),
    ("egrpo", "paper", {"scope": "trajectory"}),
    ("rewardflow", "release", {"pruning": "alfworld"}),
    ("grpo", "paper", {"stats_over": "first_turns", "invalid_penalty": 0.1}),
]
# these compare a turn only with turns of the same episode, or of the same number
NOT_POOLED: list[tuple[str, credit.Semantics, Mapping[str, Any]]] = [
    *(case for case in SETTINGS if case[0] != "rewardflow"),
    # these count a branch as a full episode in their statistics too
    *((name, "paper", {}) for name in ("hgpo", "g2po", "steppo", "beacon")),
    ("hgpo", "release", {"key": "state"}),
    *((name, "paper", {}) for name in ("grpo", "rloo", "mt_grpo", "gdcr", "sapo", "egrpo", "stepsearch", "pica")),
    *((name, "paper", {"whitening": False, "invalid_penalty": 0.2}) for name in ("mt_ppo", "ppo_gae")),
]


def forks(scheme: credit.Scheme, seed: int, *, forked: int) -> tuple[Group, Group]:
    """A random group with branches, possibly of branches, and the same trajectories as full episodes."""
    rng = np.random.default_rng(seed)
    group = random_group(rng, dense=True, values=scheme.needs, token_values=scheme.requires_tokens)
    if rng.random() < 0.3:
        malformed = {i for i, m in enumerate(group.trajectories) if m.stop_reason == "failed"}
        members = [replace(m, stop_reason="format") if i in malformed else m for i, m in enumerate(group.trajectories)]
        group = replace(group, trajectories=tuple(members))
    stored = whole = group
    for number in range(forked):
        branched, full = random_fork(rng, whole)
        last = replace(branched.trajectories[-1], trajectory_id=f"fork {number}")
        stored = replace(stored, trajectories=(*stored.trajectories, last))
        full_last = replace(full.trajectories[-1], trajectory_id=f"fork {number}")
        whole = replace(whole, trajectories=(*whole.trajectories, full_last))
    return stored, whole


def own_turns(group: Group, flat: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return flat[group.episode_index.own]


def names(cases: list[Any]) -> list[str]:
    return ["-".join([name, semantics, *map(str, options)]) for name, semantics, options in cases]


@pytest.mark.parametrize(("name", "semantics", "options"), [*EVERY, *SETTINGS], ids=names([*EVERY, *SETTINGS]))
@settings(max_examples=25)
@given(seed=SEEDS)
def test_a_branchs_own_turns_have_the_step_rewards_of_the_full_episode(name, semantics, options, seed):
    scheme = credit.make(name, semantics=semantics, **options)
    stored, whole = forks(scheme, seed, forked=3)
    expected = own_turns(stored, scheme.assign(whole).flat_step_rewards)
    np.testing.assert_allclose(scheme.assign(stored).flat_step_rewards, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "semantics", "options"), NOT_POOLED, ids=names(NOT_POOLED))
@settings(max_examples=25)
@given(seed=SEEDS)
def test_a_branchs_own_turns_have_the_advantages_of_the_full_episode(name, semantics, options, seed):
    scheme = credit.make(name, semantics=semantics, **options)
    stored, whole = forks(scheme, seed, forked=1)
    got, expected = scheme.assign(stored), scheme.assign(whole)
    turns = own_turns(stored, expected.flat_advantages)
    # the statistics of stepsearch count a shared turn once, so those of the other trajectories differ
    begin = len(turns) - len(stored.trajectories[-1].turns) if name == "stepsearch" else 0
    np.testing.assert_allclose(got.flat_advantages[begin:], turns[begin:], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(got.outcome_advantages, expected.outcome_advantages, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", credit.names())
@settings(max_examples=25)
@given(seed=SEEDS)
def test_a_branch_at_the_first_turn_equals_an_independent_trajectory(name, seed):
    scheme = credit.make(name)
    group = random_group(np.random.default_rng(seed), values=scheme.needs, token_values=scheme.requires_tokens)
    first, *others = group.trajectories
    branches = (replace(m, parent=first.trajectory_id, fork_turn=0) for m in others)
    got = scheme.assign(Group((first, *branches), group.task))
    np.testing.assert_array_equal(got.flat_advantages, scheme.assign(group).flat_advantages)


LENGTHS = st.integers(0, 4)
ENDS = st.sampled_from(["success", "failed", "env_limit"])


@given(shared=LENGTHS, lengths=st.tuples(LENGTHS, LENGTHS), ends=st.tuples(ENDS, ENDS), td_lambda=st.floats(0, 1))
def test_mean_backups_of_a_branch_are_those_of_the_full_episode(shared, lengths, ends, td_lambda):
    trunk = [f"s{t}" for t in range(shared + 1)]
    parent, other = (
        walk([*trunk, *(f"{name}{t}" for t in range(length + 1))], end, name=name)
        for name, length, end in zip("ab", lengths, ends, strict=True)
    )
    branch = replace(other, turns=other.turns[shared:], parent="a", fork_turn=shared)
    stored, whole = Group((parent, branch)), Group((parent, other))
    for options in ({"prior": "none"}, {"prior_weight": 0.0}):
        scheme = credit.make("grouptd", **{**VARIANTS["grouptd_base"], "td_lambda": td_lambda, **options})
        expected = own_turns(stored, scheme.assign(whole).flat_advantages)
        np.testing.assert_allclose(scheme.assign(stored).flat_advantages, expected, atol=1e-12)


# -- worked examples ------------------------------------------------------------------------------------------------------
TASK = {
    "supporting": ["nile", "rhine"],
    "documents": {
        "nile": {"title": "Nile", "text": "The Nile flows through Egypt to the sea"},
        "rhine": {"title": "Rhine", "text": "The Rhine flows through Germany"},
        "other": {"title": "Violin", "text": "A violin concerto in minor"},
    },
    "search_keys": [["river in egypt"]],
}
GAINS = credit.make("stepsearch", key_weight=0.0, step_weight=1.0)


def searching(name: str, found: list[tuple[str, ...]], **fields: Any) -> Trajectory:
    first = max(fields.get("fork_turn", 0), 0)
    turns = [Turn(f"{t}", "search", f"{t + 1}", doc_ids=ids) for t, ids in enumerate(found, first)]
    return Trajectory(name, "g", "task", tuple(turns), False, 0.0, "failed", turns[-1].next_state_key, **fields)


def test_a_passage_that_the_parent_found_before_the_fork_is_not_found_again():
    parent = searching("parent", [("nile",), ("rhine",)])
    branch = searching("branch", [("nile",), ("rhine",)], parent="parent", fork_turn=1)
    scored = GAINS.assign(Group((parent, branch), TASK))
    assert scored.diagnostics["redundancy"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert scored.step_rewards[1][0] == -1.0
    np.testing.assert_allclose(scored.step_rewards[1][1], scored.step_rewards[0][1])


def test_a_branchs_turns_are_compared_with_the_others_turns_of_their_own_number():
    parent = searching("parent", [("nile",), ("rhine",)])
    branch = searching("branch", [("other",)], parent="parent", fork_turn=1)
    compared = GAINS.assign(Group((parent, branch), TASK)).diagnostics["step_advantage"]
    assert compared[0] == 0.0  # no other trajectory has a first turn
    np.testing.assert_allclose(compared[1], -compared[2])


@pytest.mark.parametrize("name", ["pica", "stepsearch"])
def test_a_format_error_is_not_an_answer_in_any_released_reward(name):
    values = {"value.pica": 0.5, "value.pica.next": 0.6}
    turn = Turn("0", "search", "1", doc_ids=("nile",), queries=("nile",), values=values)
    after = replace(turn, state_key="1", next_state_key="2", values={"value.pica": 0.6, "value.pica.next": 0.7})
    ends: tuple[StopReason, ...] = ("failed", "format", "env_limit")
    members = [Trajectory(end, "g", "task", (turn, after), False, 0.0, end, "2") for end in ends]
    scored = credit.make(name, semantics="release").assign(Group(tuple(members), TASK))
    answered, malformed, truncated = scored.step_rewards
    assert answered.any()
    assert not malformed.any()
    assert not truncated.any()
    assert scored.outcome_advantages[1] == scored.outcome_advantages[2] < scored.outcome_advantages[0]


def test_a_reward_of_the_transcript_reads_a_branch_from_its_first_turn():
    task = {"text": "Longest river?", "answers": ["Nile"]}
    search = Turn("a", "s", "b", response="<think>hm</think><search>rivers</search>")
    answer = Turn(
        "b", "a", "c", response="<think>so</think><answer>Nile</answer>",
        observation="\n\n<information>Nile.</information>\n\n",
    )  # fmt: skip
    whole = Trajectory("whole", "g", "t", (search, answer), True, 1.0, "success", "c")
    branch = replace(whole, trajectory_id="branch", turns=(answer,), parent="whole", fork_turn=1)
    group = Group((whole, branch), task)
    assert transcript_of(group, 1) == transcript_of(group, 0)
    assert REWARDS["search_r1_format"](transcript_of(group, 1)) == 1.0


def test_branches_of_branches_are_assembled_at_any_depth():
    members = [Trajectory("0", "g", "t", (Turn("s0", "a", "s1"),), False, 0.0, "failed", "s1")]
    for n in range(1, 1500):
        turns = (Turn(f"s{n}", "a", f"s{n + 1}"),)
        end = f"s{n + 1}"
        members.append(Trajectory(f"{n}", "g", "t", turns, False, 0.0, "failed", end, parent=f"{n - 1}", fork_turn=n))
    group = Group(tuple(reversed(members)))
    assert len(group.episodes[0]) == 1500
    assert [turn.state_key for turn in group.episodes[0]] == [f"s{n}" for n in range(1500)]
