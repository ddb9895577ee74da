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


def gradients(agent, group, scored):
    """(1/G) Σ_i Σ_t c_it ∇ log π(a_it | s_it), by state."""
    found: dict[str, np.ndarray] = {}
    for turn, weight in zip(group.turns, scored.flat_advantages / len(group), strict=True):
        probabilities = agent.probabilities(turn.state_key)
        onehot = np.array([action == turn.action for action in probabilities], float)
        found.setdefault(turn.state_key, np.zeros(len(onehot)))
        found[turn.state_key] += weight * (onehot - np.array(list(probabilities.values())))
    return found


def test_a_step_raises_credited_actions_and_lowers_the_rest():
    agent = TabularAgent(step_size=0.02)
    group = play(agent)
    scored = credit.make("gigpo").assign(group)
    before = {turn.state_key: agent.probabilities(turn.state_key) for turn in group.turns}
    expected = gradients(agent, group, scored)
    agent.update([group], [scored])
    sizes = list[float]()  # of the step, from every pair of actions of a state
    for key, gradient in expected.items():
        moved = np.log(list(agent.probabilities(key).values())) - np.log(list(before[key].values()))
        differences = np.diff(gradient)
        sizes += (np.diff(moved)[np.abs(differences) > 1e-6] / differences[np.abs(differences) > 1e-6]).tolist()
    assert sizes
    assert min(sizes) > 0.0
    assert sizes == pytest.approx([sizes[0]] * len(sizes), rel=1e-6)


def test_adam_takes_the_steps_of_its_formula():
    agent, rate = TabularAgent(step="adam", step_size=0.1), 0.1
    group = play(agent)
    scored = credit.make("gigpo").assign(group)
    mean: dict[str, np.ndarray] = {}
    square: dict[str, np.ndarray] = {}
    for update in range(1, 4):
        before = {turn.state_key: np.log(list(agent.probabilities(turn.state_key).values())) for turn in group.turns}
        found = gradients(agent, group, scored)
        agent.update([group], [scored])
        for key, gradient in found.items():
            mean[key] = 0.9 * mean.get(key, 0.0) + 0.1 * gradient
            square[key] = 0.999 * square.get(key, 0.0) + 0.001 * gradient**2
            step = rate * mean[key] / (1.0 - 0.9**update) / (np.sqrt(square[key] / (1.0 - 0.999**update)) + 1e-8)
            powers = np.exp(before[key] + step)
            assert list(agent.probabilities(key).values()) == pytest.approx((powers / powers.sum()).tolist())


def test_adam_counts_the_updates_of_each_state():
    """The first step of a state moves every action by the rate, whenever it comes."""
    agent = TabularAgent(step="adam", step_size=0.1)
    group = play(agent, LEVEL)
    scored = credit.make("gigpo").assign(group)
    agent.update([group], [scored])
    seen = {turn.state_key for turn in group.turns}
    for seed in range(1, 50):
        later = play(agent, LEVEL, seed=seed)
        new = {turn.state_key for turn in later.turns} - seen
        if new:
            break
    assert new
    credits_ = credit.make("gigpo").assign(later)
    found = gradients(agent, later, credits_)
    before = {key: np.log(list(agent.probabilities(key).values())) for key in new}
    agent.update([later], [credits_])
    for key in new:
        powers = np.exp(before[key] + 0.1 * np.sign(np.round(found[key], 12)))
        assert list(agent.probabilities(key).values()) == pytest.approx((powers / powers.sum()).tolist(), rel=1e-4)


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
