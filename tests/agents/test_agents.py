"""Scripted agents and the softmax table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from creditflow.agents import ExpertAgent, NoisyExpert, RandomAgent, TabularAgent, make_agent
from creditflow.envs.errors import ConfigError
from creditflow.train.rollout.play import episode_rng, play_group
from creditflow.wrappers import GroupEnv, credit

LEVEL = "#######\n#  .  #\n#  $  #\n#  @  #\n#######"
LINE = "#######\n#@ $ .#\n#######"  # three moves to the right


def play(agent, level=LINE, size=8, iteration=0, seed=0, **kwargs):
    env = GroupEnv("sokoban", size=size, level=level, max_steps=12, **kwargs)
    return play_group(env, agent, env.tasks.sample(np.random.default_rng(0)), iteration=iteration, seed=seed)


def test_the_expert_takes_a_shortest_path():
    assert [len(t.turns) for t in play(ExpertAgent(), size=2).trajectories] == [3, 3]


def test_a_noiseless_noisy_expert_is_optimal_and_a_noisy_one_is_not():
    assert {len(t.turns) for t in play(NoisyExpert(0.0)).trajectories} == {3}
    assert {len(t.turns) for t in play(NoisyExpert(0.9)).trajectories} != {3}


def test_an_episode_depends_on_its_seed_and_replica_only():
    alone, many = play(RandomAgent(), size=1), play(RandomAgent(), size=5)
    assert alone.trajectories[0] == many.trajectories[0]
    assert many.trajectories[0].turns != many.trajectories[1].turns
    assert play(RandomAgent(), seed=1).trajectories[0].turns != many.trajectories[0].turns


def test_episode_randomness_is_pinned():
    assert int(episode_rng(0, 1, "sokoban1:00", 2).bit_generator.random_raw()) == 14063881904564584293


def test_a_tabular_policy_starts_uniform_and_optimal_prob_favours_optimal_actions():
    agent, guided = TabularAgent(), TabularAgent(optimal_prob=0.7)
    group = play(agent)
    play(guided)
    key = group.turns[0].state_key
    assert agent.probabilities(key) == pytest.approx(dict.fromkeys(("up", "down", "left", "right"), 0.25))
    probabilities = guided.probabilities(key)
    assert probabilities["right"] == pytest.approx(0.7)


@pytest.mark.parametrize("scheme", credit.names(given=()))
def test_the_tabular_policy_learns_from_every_scheme(scheme):
    agent, made = TabularAgent(step_size=0.05), credit.make(scheme)
    success = []
    for iteration in range(40):
        group = play(agent, iteration=iteration)
        success.append(np.mean([t.success for t in group.trajectories]))
        agent.update([group], [made.assign(group)])
    assert success[0] < 0.6
    assert np.mean(success[-5:]) > 0.9


def test_an_update_moves_by_exactly_the_requested_kl():
    agent = TabularAgent(step="kl", step_size=0.02, optimal_prob=0.5)
    group = play(agent)
    assert agent.update([group], [credit.make("gigpo").assign(group)]) == pytest.approx(0.02, rel=1e-3)


def test_scaling_all_advantages_changes_nothing():
    tables = []
    for weight in (1.0, 50.0):
        agent = TabularAgent(optimal_prob=0.5)
        group = play(agent)
        scheme = credit.make("graphgpo", episode_weight=weight, step_weight=weight)
        agent.update([group], [scheme.assign(group)])
        tables.append(agent.probabilities(group.turns[0].state_key))
    assert tables[0] == pytest.approx(tables[1], rel=1e-6)


def test_the_gradient_raises_credited_actions_and_lowers_the_rest():
    agent = TabularAgent(step="rms", step_size=0.1)
    group = play(agent)
    scored = credit.make("gigpo").assign(group)
    before = {turn.state_key: agent.probabilities(turn.state_key) for turn in group.turns}
    expected: dict[str, np.ndarray] = {}
    weights = scored.flat_advantages / len(group)
    weights = weights / np.sqrt(np.mean(weights**2))
    for turn, weight in zip(group.turns, weights, strict=True):
        probabilities = before[turn.state_key]
        onehot = np.array([action == turn.action for action in probabilities], float)
        expected.setdefault(turn.state_key, np.zeros(4))
        expected[turn.state_key] += weight * (onehot - np.array(list(probabilities.values())))
    agent.update([group], [scored])
    for key, gradient in expected.items():
        logits = np.log(list(before[key].values())) + 0.1 * gradient
        probabilities = np.exp(logits) / np.exp(logits).sum()
        assert list(agent.probabilities(key).values()) == pytest.approx(probabilities.tolist())


def test_a_group_without_credit_changes_nothing():
    agent = TabularAgent()
    group = play(agent, level="########\n#@ $   #\n#     .#\n########", size=2)
    assert agent.update([group], [credit.make("grpo").assign(group)]) == 0.0


def test_agents_are_made_by_name():
    noisy, tabular = make_agent("noisy:0.25"), make_agent("tabular:0.5")
    assert isinstance(noisy, NoisyExpert)
    assert noisy.noise == 0.25
    assert isinstance(tabular, TabularAgent)
    assert tabular.optimal_prob == 0.5
    for spec, message in (
        ("expret", "did you mean 'expert'"),
        ("random:3", "takes no argument"),
        ("noisy:x", "a number"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_agent(spec)
    wrong_step: Any = "lr"
    for wrong in (
        lambda: NoisyExpert(2.0),
        lambda: TabularAgent(step_size=0.0),
        lambda: TabularAgent(optimal_prob=1.0),
        lambda: TabularAgent(step=wrong_step),
    ):
        with pytest.raises(ConfigError):
            wrong()
