"""GroupTD divided by success, with progress and the merge test: worked examples and exact properties."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.check import check_credit
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.credit.states.grouptd import VARIANTS, GroupTD
from creditflow.wrappers.trajectory import Group, StopReason

NAMES = ["grouptd_divided", "grouptd_relative", "grouptd_relative_no_test"]
RELATIVE = VARIANTS["grouptd_relative"]
PARTS = {
    **VARIANTS,
    "grouptd_divided": {**VARIANTS["grouptd_base"], "divide_by_success": True},
    "grouptd_relative_no_test": {**RELATIVE, "merge_test": 0.0},
}
SEEDS = st.integers(0, 10**6)


def base(**changes):
    """The scheme as first defined, without the parts that are for shared parameters, and with these changes."""
    return GroupTD(**{**VARIANTS["grouptd_base"], **changes})


def scheme_of(name, **changes):
    return credit.make("grouptd", **PARTS[name], **changes)


def graded(rng, *, forked=0):
    """A random group with graded outcomes and, on request, branches."""
    group = random_group(rng)
    members = [replace(m, score=1.0 if m.success else float(rng.choice([0, 0.25, 0.5]))) for m in group.trajectories]
    stored = whole = Group(tuple(members))
    for number in range(forked):
        branch, full = (g.trajectories[-1] for g in random_fork(rng, whole))
        stored = Group((*stored.trajectories, replace(branch, trajectory_id=f"fork {number}")))
        whole = Group((*whole.trajectories, replace(full, trajectory_id=f"fork {number}")))
    return stored


# Three rollouts, H = 2: two take action "a" from s to m, one takes "b". One of the first two reaches the goal from m, the
# others are truncated in p. By hand, with κ = 1, γ = .5, β = 2, ω = 3:
#   ρ = (1 + 1)/(3 + 2) = .4;  d(m) = 1, d(s) = 2, none from p;  γ^d = .5, .25, 0
#   V_1(m) = (1 · .4 · .5 + 1 + 0 + 0)/(1 + 3) = .3;   V_2(s) = (1 · .4 · .25 + 3 · .3)/(1 + 3) = .25
#   δ: s → m .05;  m → goal 1 − .3 = .7;  m → p, last turn −.3
#   progress: β w = 2 · 3/(3 + 3) = 1 in both states;  s → m .25;  m → goal .5;  m → p −.5
#   entries of m: by (s, a) δ = {.7, −.3}, mean .2;  by (s, b) δ = {−.3};  mean of all .1/3
#     F = [2 (.2 − .1/3)² + (−.3 − .1/3)²]/1 : [.5² + .5²]/1 = (1/18 + 1/9) : .5 = 1/3
SETTINGS: dict[str, Any] = {
    "prior_weight": 1.0, "discount": 0.5, "td_lambda": 0.5, "divide_by_success": True, "progress_weight": 2.0,
    "progress_count": 3.0,
}  # fmt: skip
EXAMPLE = Group(
    (
        walk("s m goal", name="w0", actions=["a", "x"]),
        walk("s m p", "env_limit", name="w1", actions=["a", "x"]),
        walk("s m p", "env_limit", name="w2", actions=["b", "x"]),
    )
)


def test_worked_example():
    c = base(**SETTINGS).assign(EXAMPLE)
    np.testing.assert_allclose(c.flat_step_rewards, [0.375, 2.25, 0.375, -1.25, 0.375, -1.25], rtol=1e-14)
    # (.05 + .5 · .7)/.4 + .25 and .7/.4 + .5; (.05 − .5 · .3)/.4 + .25 and −.3/.4 − .5
    expected = [1.25, 2.25, 0.0, -1.25, 0.0, -1.25]
    np.testing.assert_allclose(c.flat_advantages, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(("threshold", "first"), [(0.34, [1.25, 0.0]), (0.33, [2.125, -0.375]), (1 / 3, [1.25, 0.0])])
def test_worked_example_of_the_merge_test(threshold, first):
    c = base(**SETTINGS, merge_test=threshold).assign(EXAMPLE)
    keys = c.diagnostics["node_keys"]
    np.testing.assert_allclose(c.diagnostics["entry_f"], [1 / 3 if key == "m" else 0.0 for key in keys], rtol=1e-8)
    # with λ(m) = 1: (.05 + .7)/.4 + .25 and (.05 − .3)/.4 + .25
    np.testing.assert_allclose(c.flat_advantages[[0, 2]], first, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(c.flat_advantages[[1, 3]], [2.25, -1.25], rtol=1e-14)


# -- properties ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_variants_have_their_checked_properties(name):
    scheme = scheme_of(name)
    expected = GroupTD.properties | ({"telescoping"} if name == "grouptd_divided" else set())
    assert scheme.checked_properties == expected
    assert check_credit(scheme, draws=25).declared == expected


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS, forked=st.integers(0, 3))
def test_neither_the_order_of_rollouts_nor_that_of_groups_matters(name, seed, forked):
    rng = np.random.default_rng(seed)
    groups = [graded(rng, forked=forked) for _ in range(3)]
    orders = [rng.permutation(len(group)) for group in groups]
    shuffled = [Group(tuple(g.trajectories[i] for i in order)) for g, order in zip(groups, orders, strict=True)]
    before = scheme_of(name).assign_batch(groups)
    after = scheme_of(name).assign_batch(shuffled[::-1])[::-1]
    for old, new, order in zip(before, after, orders, strict=True):
        for place, i in enumerate(order):
            np.testing.assert_allclose(new.advantages[place], old.advantages[i], rtol=1e-9, atol=1e-12)


@given(seed=SEEDS)
def test_division_by_success_divides_the_base_credit(seed):
    group = graded(np.random.default_rng(seed))
    rho = (group.arrays.score.sum() + 1) / (len(group) + 2)
    base, divided = (scheme_of(name).assign(group).flat_advantages for name in ("grouptd_base", "grouptd_divided"))
    np.testing.assert_allclose(divided, base / rho, rtol=1e-12)


def test_the_first_turn_of_a_branch_enters_its_key_from_its_ancestor():
    parent = walk("s m p", "env_limit", name="w1", actions=["a", "x"])
    branch = replace(walk("m goal", name="w0", actions=["x"]), parent="w1", fork_turn=1)
    other = walk("s m p", "env_limit", name="w2", actions=["b", "x"])
    scheme = base(**SETTINGS, merge_test=4.0)
    stored = scheme.assign(Group((parent, branch, other)))
    keys = stored.diagnostics["node_keys"]
    # V_1(m) is that of the worked example (the transition s → m counts once less, but not in m), and so is F
    assert stored.diagnostics["entry_f"][keys.index("m")] == pytest.approx(1 / 3)


def test_one_turn_episodes():
    # ρ = .5, V(s) = (3 · .45 + 1)/5 = .47; progress of the success 2 · 8/10 · .1
    group = Group((walk("s goal", name="a"), walk("s p", "failed", name="b")))
    got = scheme_of("grouptd_relative").assign(group).flat_advantages
    np.testing.assert_allclose(got, [0.53 / 0.5 + 0.16, -0.47 / 0.5 - 1.6 * 0.9], rtol=1e-12)


def test_a_failure_has_no_progress_and_a_truncation_that_of_its_state():
    options: dict[str, Any] = {
        "prior": "none",
        "td_lambda": 0.0,
        "progress_weight": 1.0,
        "progress_count": 1e9,
        "discount": 0.5,
    }
    ends: dict[StopReason, float] = {"failed": -0.25, "env_limit": 0.25}
    for end, change in ends.items():
        group = Group((walk("s m goal", name="a"), walk("s m", end, name="b")))
        with_it = base(**options).assign(group).flat_step_rewards
        without = base(**{**options, "progress_weight": 0.0}).assign(group).flat_step_rewards
        np.testing.assert_allclose(with_it - without, [0.25, 0.5, change], atol=1e-8)


def test_the_merge_test_finds_a_key_that_merges_two_states():
    # after "left" the key x leads to success in three of four cases, after "right" in none of four
    ends: list[StopReason] = ["success" if i < 3 else "env_limit" for i in range(8)]
    members = [
        walk(f"{'ab'[i >= 4]} x {'goal' if end == 'success' else 'p'}", end, name=f"{i}", actions=["go", "on"])
        for i, end in enumerate(ends)
    ]
    found = base(merge_test=4.0).assign(Group(tuple(members)))
    f = dict(zip(found.diagnostics["node_keys"], found.diagnostics["entry_f"].tolist(), strict=True))
    # means .75 and 0 around .375: 8 · .375² / 1 = 1.125; within (3/4 · 1/4 · 4)/6 = .125
    assert f["x"] == pytest.approx(9.0)
    assert [key for key, value in f.items() if value] == ["x"]


@given(seed=SEEDS)
def test_rounding_does_not_fail_the_merge_test(seed):
    # all that follow a key are equal up to rounding, whatever the pair
    rng = np.random.default_rng(seed)
    scores = np.repeat(float(rng.random()), 6).tolist()
    members = [
        replace(walk(f"s{i % 2} x y p", "failed", name=f"{i}", actions=["go", "on", "on"]), score=score)
        for i, score in enumerate(scores)
    ]
    assert not base(merge_test=0.01).assign(Group(tuple(members))).diagnostics["entry_f"].any()


# -- parameters ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrong",
    [
        {"progress_count": 0.0}, {"progress_weight": -1.0}, {"merge_test": -0.5},
        {"divide_by_success": True, "outcome": "return"}, {"prior": "pooled"},
    ],
)  # fmt: skip
def test_invalid_parameters_are_rejected(wrong):
    with pytest.raises(ConfigError):
        credit.make("grouptd", **wrong)
