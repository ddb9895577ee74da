"""Critics of the annotation sources, and what an undiscounted shaping by any critic does to the expected gradient: nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import chain, policy, simulate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.annotation_sources import FittedCritic, one_hot, open_annotation_source, reads_earlier
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.selection import select_methods
from creditflow.wrappers import credit

MDP, POLICY = chain(), policy()
FEATURES = one_hot([MDP], [np.array([[0, 0], [1, 0], [-1, 2]])])
beliefs = arrays(float, (MDP.horizon + 1, MDP.size), elements=st.floats(0.01, 0.99))


def played(size: int, seed: int = 0) -> ArrayGroup:
    return simulate(MDP, POLICY[None], size, np.random.default_rng(seed))[0]


def every_path() -> list[tuple[float, ArrayGroup]]:
    """Each trajectory that the policy can take, with its probability, as a group of one."""
    found = {}
    for choice in product(range(2), repeat=MDP.horizon):
        states, actions, chance = [MDP.start], [], 1.0
        for action in choice:
            if states[-1] >= MDP.size:
                break
            chance *= POLICY[states[-1], action]
            actions.append(action)
            states.append(int(MDP.next_states[states[-1], action, 0]))
        found[tuple(actions)] = (chance, states)
    assert sum(chance for chance, _ in found.values()) == pytest.approx(1.0)

    def group_of(states: list[int], actions: tuple[int, ...]) -> ArrayGroup:
        left, right, chosen = (np.array(x, np.int32) for x in (states[:-1], states[1:], actions))
        return ArrayGroup(MDP, left, right, chosen, np.array([len(actions)]))

    return [(chance, group_of(states, actions)) for actions, (chance, states) in found.items()]


def expected_gradient(scheme: credit.Scheme, belief: np.ndarray) -> np.ndarray:
    """E Σ_t Ã_t ∇ log π(a_t | s_t) by enumeration, (S, A) logits; f is ``belief`` before the end and the outcome at the end."""
    total = np.zeros(POLICY.shape)
    for chance, group in every_path():
        before = belief[group.left, group.number]
        after = np.append(before[1:], float(group.arrays.success[0]))
        given_ = scheme.assign(group.annotated({"value.pica": before, "value.pica.next": after}))
        for state, action, advantage in zip(group.number, group.chosen, given_.flat_advantages, strict=True):
            total[state, action] += chance * advantage
            total[state] -= chance * advantage * POLICY[state]
    return total


@pytest.mark.parametrize("discount", [1.0, 0.9])
@given(belief=beliefs)
def test_the_shaping_leaves_the_expected_gradient_as_it_is_whatever_the_critic_believes(discount, belief) -> None:
    # at λ = 1, Ã_t = γ^k (outcome + log f(T)) − log f(t−1): the outcome, and a baseline of the state, which has no expected gradient
    scheme = credit.make("pica", penalty=0.0, log_floor=-3.0, discount=discount)
    found = expected_gradient(scheme, belief)
    assert found == pytest.approx(expected_gradient(scheme, np.full_like(belief, 0.5)), abs=1e-9)


def test_undiscounted_it_is_the_gradient_of_success_times_a_constant() -> None:
    scheme = credit.make("pica", penalty=0.0, log_floor=-3.0)
    found = expected_gradient(scheme, np.full((MDP.horizon + 1, MDP.size), 0.5))
    success = expected_gradient(
        credit.make("pica", penalty=0.0, step_weight=0.0), np.full((MDP.horizon + 1, MDP.size), 0.5)
    )
    assert found == pytest.approx(4.0 * success, abs=1e-9)  # success is worth 1 + 3 more than failure


def test_only_a_shorter_trace_lets_the_critic_matter() -> None:
    scheme = credit.make("pica", penalty=0.0, log_floor=-3.0, gae_lambda=0.0)
    belief = np.full((MDP.horizon + 1, MDP.size), 0.5)
    other = belief.copy()
    other[:, 1] = 0.9
    assert np.abs(expected_gradient(scheme, belief) - expected_gradient(scheme, other)).max() > 1e-3


def test_the_advantage_is_the_outcome_minus_the_log_of_the_belief_before_the_turn() -> None:
    group, rng = played(6), np.random.default_rng(1)
    belief = rng.uniform(0.05, 0.95, (MDP.horizon + 1, MDP.size))
    before = belief[group.left, group.number]
    success = group.arrays.success[group.arrays.trajectory].astype(float)
    after = np.where(group.arrays.last, success, np.append(before[1:], 0.0))
    scheme = credit.make("pica", penalty=0.0, log_floor=-3.0)
    found = scheme.assign(group.annotated({"value.pica": before, "value.pica.next": after})).flat_advantages
    assert found == pytest.approx(success - 3.0 * (1.0 - success) - np.log(before))


def test_a_critic_learns_the_values_of_the_states_that_it_sees() -> None:
    critic = FittedCritic(FEATURES, MDP.horizon)
    before, _ = critic.predict(played(4))
    assert before == pytest.approx(0.5, abs=0.0)
    for seed in range(40):
        critic.add(played(32, seed))
        critic.predict(played(4))
    group = played(64, 99)
    before, after = critic.predict(group)
    exact = ExactEvaluator(MDP, POLICY).exact.value[group.left, group.number]
    assert np.abs(before - exact).max() < 0.1
    inner = ~group.arrays.last
    assert np.array_equal(after[inner], before[np.flatnonzero(inner) + 1])
    assert np.array_equal(after[~inner], group.arrays.success.astype(float))


def test_a_critic_is_not_fitted_to_the_group_that_it_annotates() -> None:
    opened = open_annotation_source("pica[linear]", MDP.horizon, "state", FEATURES)
    opened.update(played(16, 1))
    group = played(8, 2)
    first = opened.annotate(group).annotation("value.pica")
    assert np.array_equal(opened.annotate(group).annotation("value.pica"), first)
    opened.update(group)
    assert not np.array_equal(opened.annotate(group).annotation("value.pica"), first)
    assert reads_earlier("shuffled(pica[linear])")


def test_a_suite_without_features_refuses_critics_by_name() -> None:
    with pytest.raises(ConfigError, match=r"pica\[linear\]: a critic needs features"):
        open_annotation_source("pica[linear]", 3, "state")
    with pytest.raises(ConfigError, match="needs features"):
        select_methods(["pica[linear]"], [played(4)], horizon=3, exact=True)


def test_methods_with_exact_values_are_controls_of_a_suite_that_knows_them() -> None:
    log = [played(8)]
    found = select_methods(["pica[linear]", "pica[exact]"], log, horizon=3, exact=True, features=FEATURES)
    assert found.schemes == ("pica[linear]",)
    assert "pica[exact]" in found.controls
    assert "exact values" in select_methods(["pica[exact]"], log, horizon=3, exact=False).undefined["pica[exact]"]
