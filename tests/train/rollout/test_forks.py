"""Forks estimate exact values, replay through the recorded states, and refuse a single continuation."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.worlds.gridworlds import register_grids
from helpers.worlds.tabulated import noisy_expert

import creditflow
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.exact.grid_layouts import grid_mdp
from creditflow.train.rollout import play_group
from creditflow.train.rollout.forks import fork_values
from creditflow.wrappers import Recorder
from creditflow.wrappers.group_env import GroupEnv, member_seed
from creditflow.wrappers.trajectory import Group

register_grids()

NOISE = 0.6


def played(name):
    env: Any = GroupEnv(name, size=1)
    tasks = env.tasks
    group = play_group(env, NoisyExpert(NOISE), tasks.get(tasks.task_ids()[1]), seed=5)
    evaluator = ExactEvaluator(mdp := grid_mdp(env.members[0].base.layout, 20), noisy_expert(mdp, NOISE))
    return group, evaluator


@pytest.mark.parametrize("name", ["grid-pits", "grid-slip"])
def test_forks_estimate_exact_values(name):
    group, evaluator = played(name)
    member = group.trajectories[0]
    forks = fork_values(
        GroupEnv(name, size=150).members,
        NoisyExpert(NOISE),
        member,
        np.random.default_rng(0),
        turns=[0, len(member.turns) - 1],
        seed=member_seed(member.seed, member.group_id, member.replica),
    )
    at = evaluator.index_turns(Group((member,)))
    for t in (0, len(member.turns) - 1):
        value = evaluator.exact.value[at.left[t], at.state[t]]
        assert forks.before[t].mean() == pytest.approx(value, abs=0.16)
    if name == "grid-pits":
        after = evaluator.exact.action_value[at.left[0], at.state[0], at.action[0]]
        assert forks.after[0].mean() == pytest.approx(after, abs=0.16)
    assert (forks.after[-1] == member.score).all()
    assert np.isnan(forks.before[1]).all()


def test_a_replay_through_other_states_is_rejected():
    group, _ = played("grid-pits")
    member = group.trajectories[0]
    other = replace(member.turns[0], action="up" if member.turns[0].action != "up" else "left")
    altered = replace(member, turns=(other, *member.turns[1:]))
    with pytest.raises(DataError, match="its replay is in"):
        fork_values(GroupEnv("grid-pits", size=2).members, NoisyExpert(NOISE), altered, np.random.default_rng(0))


def test_a_single_continuation_is_rejected():
    group, _ = played("grid-pits")
    with pytest.raises(ConfigError, match="at least two"):
        fork_values(
            GroupEnv("grid-pits", size=1).members, NoisyExpert(NOISE), group.trajectories[0], np.random.default_rng(0)
        )


def test_an_action_written_otherwise_is_replayed_and_is_no_alternative_to_itself():
    level = "######\n#@$ .#\n######"
    env = Recorder(creditflow.make("sokoban", level=level))
    env.reset(seed=0)
    env.step("Right")
    env.step("RIGHT")
    members = [Recorder(creditflow.make("sokoban", level=level)) for _ in range(2)]
    forks = fork_values(
        members, NoisyExpert(NOISE), env.trajectory, np.random.default_rng(0), seed=0, alternatives=True
    )
    assert [len(others) for others in forks.alternatives] == [3, 3]
