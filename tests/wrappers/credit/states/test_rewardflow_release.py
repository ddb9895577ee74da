"""RewardFlow's released propagation: its fixed point, and the options that repair its flaws."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import released
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.states.rewardflow import _propagated
from creditflow.wrappers.trajectory import Group


@settings(max_examples=80)
@given(
    n=st.integers(2, 7),
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14),
    seeds=st.lists(st.sampled_from([-1.0, -0.1, 0.0, 0.0, 0.9, 1.0, 10.0]), min_size=7, max_size=7),
    discount=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
def test_released_propagation_equals_a_thousand_sweeps(n, edges, seeds, discount):
    pairs = sorted({(a % n, b % n) for a, b in edges if a % n != b % n})
    assume(pairs)
    inside = sorted({node for pair in pairs for node in pair})
    value = {node: seeds[node] for node in inside}
    for _ in range(1000):
        swept = {s: max([value[s], *(discount * value[b] for a, b in pairs if a == s)]) for s in inside}
        if swept == value:
            break
        value = swept
    ours = _propagated(n, {node: seeds[node] for node in inside}, [i * n + j for i, j in pairs], discount)
    np.testing.assert_allclose(ours, [value.get(node, 0.0) for node in range(n)], rtol=1e-12, atol=1e-12)


def test_released_propagation_depends_on_the_longest_episode_of_the_batch():
    # alone, the last turn of the success is the last of a longest episode and gets the raw reward 10; beside a longer episode of
    # another task its value is 10 − 9
    short = group(walk("s a g", reward=10.0))
    other = Group(tuple(walk([f"o{t}" for t in range(9)], "failed") for _ in range(1)))
    alone, beside = (released("rewardflow").assign_batch(batch)[0] for batch in ([short], [short, other]))
    assert alone.flat_step_rewards[-1] == 10.0
    assert beside.flat_step_rewards[-1] == pytest.approx(1.0)


def test_success_propagation_does_not_depend_on_the_rest_of_the_batch():
    short = group(walk("s a g", reward=10.0))
    other = Group((walk([f"o{t}" for t in range(9)], "failed"),))
    scheme = released("rewardflow", propagation="success_hops")
    alone, beside = (scheme.assign_batch(batch)[0] for batch in ([short], [short, other]))
    assert alone.flat_advantages.tolist() == beside.flat_advantages.tolist()


def same_last_text():
    """Both ends have one text (Search: the empty text), and the failure was recorded first."""
    padding = walk([f"p{t}" for t in range(9)], "failed", name="longest")
    return group(walk(["s", "a", ""], "failed"), walk(["s", "b", ""], name="won", reward=10.0), padding)


def test_released_propagation_ignores_a_success_after_a_failure_with_the_same_text():
    rewards = released("rewardflow").assign(same_last_text()).step_rewards
    assert rewards[1].tolist() == [0.0, 0.0]


def test_success_propagation_separates_terminal_nodes():
    rewards = released("rewardflow", propagation="success_hops").assign(same_last_text()).step_rewards
    np.testing.assert_allclose(rewards[1], [0.9 - 0.81, 1.0 - 0.9])
    np.testing.assert_allclose(rewards[0], [-0.81, 0.0])


def look_and_act(**options):
    """From s: act and succeed; or look (invalid), then act. "n" is the text "nothing happens"."""
    g = group(walk("s a g"), walk("s n s a g", invalid=[0, 1], name="looked"), walk("s x", "failed"))
    return credit.make("rewardflow", discount=0.5, **options).assign(g)


def test_pruned_turns_get_the_difference_of_their_states():
    # R(s) = 1/4, R(n) = 0
    c = look_and_act()
    assert c.step_rewards[1].tolist() == [-1 / 4, 1 / 4, 1 / 4, 1 / 2]


def test_pruned_turns_can_get_zero_reward():
    c = look_and_act(pruned_turns="zero")
    assert c.step_rewards[1].tolist() == [0.0, 0.0, 1 / 4, 1 / 2]


def test_excluded_pruned_turns_do_not_affect_the_comparison():
    c = look_and_act(pruned_turns="exclude")
    clean = group(walk("s a g"), walk("s a g", name="looked"), walk("s x", "failed"))
    expected = credit.make("rewardflow", discount=0.5).assign(clean)
    assert c.step_advantages[1][:2].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(c.step_advantages[1][2:], expected.step_advantages[1])
    np.testing.assert_allclose(c.step_advantages[0], expected.step_advantages[0])


def test_released_propagation_can_prune_invalid_transitions_too():
    # the invalid s→b must not be a shortcut: V(s) = 10 γ³ instead of 10 γ²
    padding = walk([f"p{t}" for t in range(9)], "failed", name="longest")
    g = group(walk("s a b g", reward=10.0), walk("s b", "env_limit", invalid=[0]), padding)
    value = {
        pruning: dict(zip(c.diagnostics["node_keys"], c.diagnostics["node_value"], strict=True))["s"]
        for pruning in ("self_loops", "invalid")
        for c in [released("rewardflow", pruning=pruning, discount=0.5).assign(g)]
    }
    assert value == {"self_loops": 2.5, "invalid": 1.25}


def test_bridging_without_the_released_propagation_is_rejected():
    with pytest.raises(ConfigError, match="first_seen_rewards"):
        credit.make("rewardflow", pruning="alfworld")
