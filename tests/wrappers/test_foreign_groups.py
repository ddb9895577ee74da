"""Groups of foreign environments: equal starts, merged states, logs that every scheme and command reads."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.toy_text import CLIFF, NOISY, TAXI

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.foreign.actions import listed_actions
from creditflow.train.cli import main
from creditflow.wrappers import (
    ForeignEnv,
    Group,
    GroupEnv,
    InvalidActions,
    Recorder,
    StateGraph,
    credit,
    read_groups,
    write_jsonl,
)

RULES = {CLIFF: "terminated", NOISY: "positive_reward", TAXI: "positive_reward", "Blackjack-v1": "positive_reward"}


def played(name: str, *, size: int = 5, seed: int = 0, actions: int = 0, **arguments) -> Group:
    """A group of random rollouts, of at most 40 turns each."""
    group = GroupEnv(
        lambda: gym.make(name, max_episode_steps=40), size=size, success=RULES[name], policy="random", **arguments
    )
    group.reset(seed=seed)
    rngs = [np.random.default_rng([actions, i]) for i in range(size)]
    listed = listed_actions(group.members[0].action_space)
    while group.active:
        group.step({i: listed[rngs[i].integers(len(listed))] for i in group.active})
    return group.group()


@pytest.mark.parametrize("name", RULES)
def test_members_start_equally_and_a_group_is_repeated_by_its_seeds(name):
    group = played(name)
    starts = {t.turns[0].state_key for t in group.trajectories}
    assert len(starts) == 1
    assert {t.task_id for t in group.trajectories} == {group.task_id}
    assert group.task["seed"] == 0
    assert [t.turns for t in played(name).trajectories] == [t.turns for t in group.trajectories]


def test_noise_is_each_members_own_and_the_first_is_the_plain_episode():
    group = GroupEnv(lambda: gym.make(NOISY), size=4, success="positive_reward")
    group.reset(seed=3)
    for _ in range(12):
        group.step(dict.fromkeys(group.active, 1))
    paths = [tuple(turn.next_state_key for turn in member.turns) for member in group.members]
    assert len(set(paths)) == 4, "equal actions, and yet equal noise"
    bare = gym.make(NOISY)
    bare.reset(seed=3)
    assert [f"int:{bare.step(1)[0]}" for _ in range(12)] == list(paths[0])


@pytest.mark.parametrize("name", RULES)
def test_every_scheme_without_needs_scores_the_group_and_its_log(name, tmp_path):
    group = played(name)
    write_jsonl(tmp_path / "log.jsonl", [group])
    [again] = read_groups(tmp_path / "log.jsonl")
    assert again.trajectories == group.trajectories
    for scheme in credit.names(given=()):
        first, second = (credit.make(scheme).assign(one) for one in (group, again))
        assert np.array_equal(first.flat_advantages, second.flat_advantages)


def test_the_state_graph_merges_equal_keys_across_trajectories():
    group = played(CLIFF, size=6)
    graph = StateGraph.from_group(group)
    visited = {turn.state_key for turn in group.turns} | {t.final_state_key for t in group.trajectories}
    assert sorted(graph.keys) == sorted(visited), "each cell of the grid is one node, whoever visits it"
    assert len(visited) <= 48
    assert [graph.keys[i] for i in graph.source] == [turn.state_key for turn in group.turns]
    assert [graph.keys[i] for i in graph.target] == [turn.next_state_key for turn in group.turns]
    assert set(graph.actions) == {"0", "1", "2", "3"}


@pytest.mark.parametrize("policy", ["keep", "penalise", "retry", "terminate"])
def test_invalid_actions_of_an_environment_of_others(policy):
    env = Recorder(InvalidActions(gym.make(CLIFF), policy, success="terminated", retries=1))
    env.reset(seed=0)
    *_, reward, terminated, _, info = env.step(7)
    assert env.turns[0].action == "7"
    assert not env.turns[0].valid
    assert env.turns[0].reward == 0.0
    assert (reward, terminated) == (-0.1 if policy == "penalise" else 0.0, policy == "terminate")
    if policy == "terminate":
        assert env.trajectory.stop_reason == "format"
    else:
        assert info["elapsed_steps"] == (0 if policy == "retry" else 1)
        env.step(0)
        env.stop("token_limit")
        assert [turn.valid for turn in env.trajectory.turns] == [False, True]


def test_stop_reasons_are_those_of_the_environment():
    lake = {"is_slippery": False}
    for actions, reason in (([2, 2, 1, 1, 1, 2], "success"), ([1, 2], "failed"), ([0] * 9, "env_limit")):
        env = Recorder(gym.make("FrozenLake-v1", max_episode_steps=9, **lake), success="positive_reward")
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        assert env.trajectory.stop_reason == reason
        assert env.trajectory.success == (reason == "success")


def test_who_names_states_and_success_is_asked_once():
    with pytest.raises(ConfigError, match="does not define success"):
        Recorder(gym.make(CLIFF))
    with pytest.raises(ConfigError, match="SokobanEnv defines both"):
        GroupEnv("sokoban", size=2, success="terminated")
    with pytest.raises(ConfigError, match="innermost wrapper"):
        Recorder(InvalidActions(gym.make(CLIFF), success="terminated"), success="terminated")
    inner = ForeignEnv(gym.make(CLIFF), success="terminated", max_steps=5)
    assert Recorder(InvalidActions(inner)).base is inner
    assert isinstance(Recorder(inner).unwrapped, AgentEnv)


def test_what_needs_an_oracle_says_that_there_is_none():
    env = Recorder(gym.make(CLIFF), success="terminated", oracle=True)
    with pytest.raises(ConfigError, match="has no oracle"):
        env.reset(seed=0)
    with pytest.raises(EpisodeError):
        _ = env.trajectory


def test_commands_play_and_read_an_environment_of_others(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    play = ["rollout", "--env", "Blackjack-v1", "--env-set", "success=positive_reward", "--env-set", "natural=true",
            "--limit", "3", "--group-size", "6", "--out", str(log)]  # fmt: skip
    assert main(play) == 0
    groups = read_groups(log)
    assert [len(group) for group in groups] == [6, 6, 6]
    for command in (
        ["credit", "--scheme", "gigpo", str(log), "--out", str(tmp_path / "credit.jsonl")],
        ["audit", str(log), "--out", str(tmp_path / "audit.txt")],
        ["view", str(log), "--out", str(tmp_path / "view.html")],
    ):
        assert main(command) == 0, capsys.readouterr().err
    first = log.read_bytes()
    assert main([*play[:-1], str(tmp_path / "workers.jsonl"), "--workers", "2"]) == 0
    assert (tmp_path / "workers.jsonl").read_bytes() == first
    capsys.readouterr()
    assert main([*play[:7], "--limit", "1", "--out", str(tmp_path / "x.jsonl"), "--agent", "expert"]) == 2
    assert "has no oracle" in capsys.readouterr().err
    assert main(["rollout", "--env", "FrozenLake-v1", "--limit", "1", "--out", str(tmp_path / "x.jsonl")]) == 2
    assert "--env-set success=terminated" in capsys.readouterr().err
