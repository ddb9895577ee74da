"""GroupTD: its exact properties, each as a rule."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.credit.check import check_credit
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.credit.states.grouptd import VARIANTS, GroupTD
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

SETTINGS = [{}, {"prior_weight": 0.0}, {"prior": "none"}, {"form": "stationary"}]


def base(**changes):
    """The scheme as first defined, without the parts that are for shared parameters, and with these changes."""
    return GroupTD(**{**VARIANTS["grouptd_base"], **changes})


def walk(name, path, reason="env_limit", score=None, actions=None):
    """A trajectory from a string of one-letter states; the default action names its result."""
    actions = actions or path[1:]
    turns = tuple(Turn(a, act, b) for a, b, act in zip(path, path[1:], actions, strict=False))
    success = reason == "success"
    return Trajectory(name, "g", "t", turns, success, float(success) if score is None else score, reason, path[-1])


def group_of(*walks):
    return Group(tuple(walk(f"w{i}", *args) if isinstance(args, tuple) else walk(f"w{i}", args) for i, args in enumerate(walks)))  # fmt: skip


def graded(rng):
    """A random group with graded outcomes."""
    group = random_group(rng)
    return Group(
        tuple(replace(m, score=1.0 if m.success else float(rng.choice([0.0, 0.25, 0.5]))) for m in group.trajectories)
    )


def total(scheme, group):
    return np.array([r.sum() for r in scheme.assign(group).step_rewards])


def start_value(scheme, group):
    c = scheme.assign(group).diagnostics
    return c["values"][group.arrays.state[0]]


def test_the_default_is_the_relative_form():
    assert GroupTD() == GroupTD(**VARIANTS["grouptd_relative"])
    assert credit.make("grouptd") == credit.make("grouptd", **VARIANTS["grouptd_relative"])
    assert base() != GroupTD()


def test_worked_example():
    # a -> b -> goal; a -> b -> (truncated). H = 2, G = 2, ρ = 2/4. d(a) = 2, d(b) = 1.
    group = group_of(("abg", "success"), "abc")
    c = base(prior_weight=1.0, discount=0.5, td_lambda=0.5).assign(group)
    phi_a, phi_b, v_c = 0.125, 0.25, 0.0
    v1_b = (phi_b + 1.0 + v_c) / 3  # the transition at the limit leads to c with no turns left
    v2_a = (phi_a + 2 * v1_b) / 3
    last = 1.0 - v1_b, 0.0 - v1_b
    first = v1_b - v2_a
    expected = [first + 0.5 * last[0], last[0], first + 0.5 * last[1], last[1]]
    np.testing.assert_allclose(c.flat_advantages, expected, rtol=1e-14)


@pytest.mark.parametrize("settings", SETTINGS)
@given(seed=st.integers(0, 10**6))
def test_with_lambda_zero_credit_telescopes_to_outcome_minus_value_of_the_start(settings, seed):
    group = graded(np.random.default_rng(seed))
    scheme = base(td_lambda=0.0, **settings)
    expected = group.arrays.score - start_value(scheme, group)
    np.testing.assert_allclose(total(scheme, group), expected, atol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_stationary_value_of_the_start_is_the_mean_outcome_by_conservation_of_flow(seed):
    group = graded(np.random.default_rng(seed))
    scheme = base(form="stationary", prior="none", td_lambda=0.0)
    assert start_value(scheme, group) == pytest.approx(group.arrays.score.mean(), abs=1e-12)


@given(seed=st.integers(0, 10**6))
def test_stationary_form_gives_zero_credit_when_all_succeed(seed):
    group = random_group(np.random.default_rng(seed), outcome=1.0)
    got = base(form="stationary", prior_weight=0.0).assign(group).flat_advantages
    np.testing.assert_allclose(got, 0.0, atol=1e-12)


@pytest.mark.parametrize("settings", SETTINGS)
@given(seed=st.integers(0, 10**6), prior_weight=st.floats(0, 50), td_lambda=st.floats(0, 1))
def test_all_fail_groups_give_exactly_zero(settings, seed, prior_weight, td_lambda):
    group = random_group(np.random.default_rng(seed), outcome=0.0)
    scheme = base(**{"prior_weight": prior_weight, **settings}, td_lambda=td_lambda)
    assert (scheme.assign(group).flat_advantages == 0.0).all()


MOVES = {"a": "bc", "b": "ag", "c": "ca"}  # actions 0 and 1; g is the goal


def exact_values(horizon):
    """V_h of the uniform policy on MOVES, by the Bellman equation."""
    values = [dict.fromkeys("abc", 0.0) | {"g": 1.0}]
    for _ in range(horizon):
        last = values[-1]
        values.append({s: 0.5 * (last[m[0]] + last[m[1]]) for s, m in MOVES.items()} | {"g": 1.0})
    return values


def test_equals_exact_values_when_counts_are_the_true_kernel():
    horizon = 7
    walks = []
    for choices in itertools.product((0, 1), repeat=horizon):  # every action sequence once: the uniform policy
        path = "a"
        for choice in choices:
            if path[-1] == "g":
                break
            path += MOVES[path[-1]][choice]
        walks.append((path, "success" if path[-1] == "g" else "env_limit"))
    group = group_of(*walks)
    for settings in ({"prior_weight": 0.0}, {"prior": "none"}):
        c = base(td_lambda=0.0, **settings).assign(group)
        exact = exact_values(horizon)
        index = {k: i for i, k in enumerate(c.diagnostics["node_keys"])}
        states = np.array([index[state] for state in "abc"])
        for h, row in enumerate(exact):
            found = base(td_lambda=0.0, **settings).values(group, states, np.full(3, h))
            assert found.tolist() == pytest.approx([row[state] for state in "abc"], abs=1e-12)
        flat = iter(c.flat_advantages)
        for path, reason in walks:
            for t, (now, after) in enumerate(itertools.pairwise(path)):
                h = horizon - t
                end = t == len(path) - 2
                follow = float(reason == "success") if end else exact[h - 1][after]
                assert next(flat) == pytest.approx(follow - exact[h][now], abs=1e-12)


def test_a_key_that_merges_two_states_is_named_in_the_diagnostics():
    # key x merges two states: "go" leads to success from one and not from the other
    group = Group((walk("w0", "axg", "success", actions=["left", "go"]), walk("w1", "bxy", actions=["right", "go"])))
    diagnostics = base().assign(group).diagnostics
    conflicted = zip(diagnostics["node_keys"], diagnostics["conflicted"], strict=True)
    assert {key for key, several in conflicted if several} == {"x"}


def test_two_results_of_one_action_conflict_even_if_their_key_is_equal():
    group = group_of(("ab", "success"), ("ab", "failed"))
    assert base().assign(group).diagnostics["conflicted"].tolist() == [True, False]


def test_truncation_is_not_a_terminal_node():
    group = group_of("ab", "abc")
    assert not base().assign(group).diagnostics["conflicted"].any()


def test_an_explicit_horizon_counts_turns_left_from_the_limit():
    group = group_of(("ab", "success"), "aca")
    scheme = base(horizon=10, prior_weight=0.0)
    # V_h(a) = (1 + V_{h−2}(a)) / 2: five tries in ten turns
    assert scheme.values(group, group.arrays.state[:1], np.array([10])).tolist() == [1 - 0.5**5]
    with pytest.raises(CreditError, match="2 turns, more than horizon=1"):
        base(horizon=1).assign(group)


def test_branches_count_their_turns_from_the_fork():
    parent = walk("p", "abcd")
    branch = Trajectory("q", "g", "t", (Turn("c", "x", "e"),), False, 0.0, "env_limit", "e", parent="p", fork_turn=2)
    group = Group((parent, branch))
    assert group.first_turns.tolist() == [0, 2]
    # H is 3, and one turn is left at the fork, as for the parent
    credited = base(prior_weight=0.0, td_lambda=0.0).assign(group)
    fork = base(prior_weight=0.0).values(group, group.arrays.state[2:3], np.array([1]))
    assert credited.advantages[1][0] == credited.flat_step_rewards[3] == -fork[0]


def test_the_penalty_is_subtracted_from_the_final_advantage():
    group = group_of(("abg", "success"), "abc")
    first = group.trajectories[1]
    turns = (replace(first.turns[0], parsed=False), *first.turns[1:])
    invalid = Group((group.trajectories[0], replace(first, turns=turns)))
    plain, penalised = (base(invalid_penalty=0.1).assign(g).flat_advantages for g in (group, invalid))
    np.testing.assert_allclose(plain - penalised, [0, 0, 0.1, 0], atol=1e-15)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_a_scheme_with_its_checked_properties(name):
    check_credit(credit.make("grouptd", **VARIANTS[name]), draws=20)
