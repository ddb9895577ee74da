"""Exact values, gradients and tables compared with independently known results."""

import itertools

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import bare, chain, policy
from helpers.worlds.tabulated import noisy_expert, tabulate

from creditflow.agents.base import View
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import OracleLimitError
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.train.bench.exact.grid_layouts import generate_layout, grid_mdp
from creditflow.train.bench.exact.tasks import sokoban_mdp
from creditflow.train.bench.exact.values import evaluate, policy_gradient, softmax, state_occupancy, success, visitation

LEVEL = "#######\n#@ $ .#\n#  $  #\n#   . #\n#######"


def test_success_of_a_chain_is_the_product_of_its_probabilities():
    pi = policy()
    assert success(chain(), pi) == pytest.approx(pi[0, 0] * pi[1, 0])
    assert success(chain(horizon=1), pi) == 0.0


def test_advantages_of_a_chain():
    pi, exact = policy(), evaluate(chain(), policy())
    assert exact.action_value[3, 0].tolist() == pytest.approx([pi[1, 0], 0.0])
    assert exact.advantage[2, 1].tolist() == pytest.approx([1 - pi[1, 0], -pi[1, 0]])
    assert exact.advantage[1, 0].tolist() == pytest.approx([0.0, 0.0])  # one turn left is too few


def random_task(kind, seed):
    mdp = grid_mdp(generate_layout(kind, np.random.Generator(np.random.PCG64(seed))), 12)
    return mdp, np.random.default_rng(seed).normal(size=(mdp.size, 4))


@pytest.mark.parametrize("kind", ["open", "pits", "slip"])
def test_gradient_equals_finite_differences_of_exact_success(kind):
    mdp, logits = random_task(kind, 3)
    step, numeric = 1e-6, np.zeros_like(logits)
    for s, a in itertools.product(*map(range, logits.shape)):
        bump = np.zeros_like(logits)
        bump[s, a] = step
        numeric[s, a] = (success(mdp, softmax(logits + bump)) - success(mdp, softmax(logits - bump))) / (2 * step)
    np.testing.assert_allclose(policy_gradient(mdp, softmax(logits)), numeric, atol=1e-9)


@pytest.mark.parametrize("kind", ["open", "slip"])
def test_success_of_many_policies_equals_the_value_of_each(kind):
    mdp, logits = random_task(kind, 5)
    policies = softmax(np.stack([logits, 2.0 * logits, 0.0 * logits]))
    expected = np.array([float(evaluate(mdp, pi).value[mdp.horizon, mdp.start]) for pi in policies])
    np.testing.assert_allclose(success(mdp, policies), expected, atol=1e-14)


def test_state_occupancy_is_the_probability_of_acting():
    pi = policy()
    occupied = state_occupancy(chain(), pi)
    np.testing.assert_allclose(occupied[3], [1, 0, 0])
    np.testing.assert_allclose(occupied[2], [0, pi[0, 0], pi[0, 1]])
    np.testing.assert_allclose(occupied[1], [0, 0, pi[0, 1] + pi[0, 0] * pi[1, 1]])
    assert visitation(chain(), pi).sum() == pytest.approx(1.0)


def test_tables_through_the_rules_equal_tables_through_snapshots():
    env = bare("sokoban", level=LEVEL, max_steps=9)
    env.reset(seed=0)
    slow, fast = tabulate(env), sokoban_mdp(parse_level(LEVEL), 9)
    assert (slow.keys, slow.actions) == (fast.keys, fast.actions)
    np.testing.assert_array_equal(slow.next_states, fast.next_states)


@pytest.mark.parametrize("kind", ["open", "pits", "alias"])
def test_tables_of_a_layout_equal_tables_through_snapshots(kind):
    env = bare(f"grid-{kind}")
    env.reset(seed=4)
    slow, fast = tabulate(env), grid_mdp(env.layout, 20)
    assert slow.size == fast.size
    assert sorted(zip(slow.keys, slow.text_keys, strict=True)) == sorted(zip(fast.keys, fast.text_keys, strict=True))
    order = [fast.index[key] for key in slow.keys]
    np.testing.assert_array_equal(
        np.array(order)[slow.next_states[:, :, 0]], fast.next_states[order[: slow.size], :, 0]
    )


def test_exact_distances_equal_the_environments_oracle():
    env = bare("sokoban", level=LEVEL, max_steps=30)
    env.reset(seed=0)
    mdp = sokoban_mdp(parse_level(LEVEL), 30)
    snapshot = env.get_state()
    assert mdp.distance[0] == env.oracle.distance(snapshot)
    best = tuple(sorted(a for a, good in zip(mdp.actions, mdp.optimal[0], strict=True) if good))
    assert best == env.oracle.optimal_actions(snapshot)


def test_more_states_than_the_cap_are_rejected():
    with pytest.raises(OracleLimitError, match="more than 10 states"):
        sokoban_mdp(parse_level(LEVEL), 30, cap=10)


def test_the_noisy_expert_as_a_table_acts_like_the_agent():
    env = bare("sokoban", level=LEVEL)
    observation, info = env.reset(seed=0)
    mdp = sokoban_mdp(parse_level(LEVEL), 30)
    table = noisy_expert(mdp, 0.4)[mdp.start]
    rng = np.random.default_rng(0)
    agent = NoisyExpert(0.4)
    view = View(observation, info, (), env, rng)
    drawn = [agent.act([view])[0].action for _ in range(4000)]
    counts = np.array([drawn.count(action) for action in mdp.actions]) / len(drawn)
    np.testing.assert_allclose(counts, table, atol=0.03)
