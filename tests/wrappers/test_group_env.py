"""GroupEnv: G members on one task, stepped until each has ended."""

from __future__ import annotations

import gymnasium as gym
import pytest

from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.wrappers import GroupEnv

LEVEL = "######\n#@$ .#\n######"


def test_members_play_one_task_however_it_is_named():
    env = GroupEnv("sokoban", size=3)
    by_seed = {info["task_id"] for _, info in env.reset(seed=5)}
    assert len(by_seed) == 1
    (task_id,) = by_seed
    assert {info["task_id"] for _, info in env.reset(task_id=task_id)} == by_seed
    content = env.members[0].base.task.content
    assert {info["task_id"] for _, info in env.reset(task=content)} == by_seed


def test_a_group_names_the_tasks_that_its_members_play():
    env = GroupEnv("sokoban", size=2)
    task_id = env.tasks.task_ids()[3]
    env.reset(task_id=task_id)
    assert [member.base.task for member in env.members] == [env.tasks.get(task_id)] * 2


def test_a_group_of_a_foreign_environment_names_its_seeds():
    env = GroupEnv(lambda: gym.make("FrozenLake-v1"), size=2, success="positive_reward")
    [(_, info), _] = env.reset(seed=3)
    assert env.tasks.get(info["task_id"]) == env.members[1].base.task


def test_members_play_one_task_of_an_endless_source():
    env = GroupEnv("sokoban", size=3, generator={"height": 6, "width": 6, "boxes": 1, "min_length": 3, "max_length": 9})
    assert len({info["task_id"] for _, info in env.reset(seed=1)}) == 1


def test_only_running_members_may_be_stepped():
    env = GroupEnv("sokoban", size=2, level=LEVEL)
    env.reset(seed=0)
    env.step({0: "right"})
    env.step({0: "right", 1: "left"})
    assert env.active == (1,)
    with pytest.raises(EpisodeError, match=r"members \[0\] are not running"):
        env.step({0: "left", 1: "left"})
    with pytest.raises(EpisodeError, match="still running"):
        env.group()
    env.step({1: "right"})
    env.step({1: "right"})
    group = env.group()
    assert [t.stop_reason for t in group.trajectories] == ["success", "success"]
    assert [len(t.turns) for t in group.trajectories] == [2, 3]


def test_nothing_runs_after_a_member_could_not_start(monkeypatch):
    group = GroupEnv("sokoban", size=2, level="#####\n#@$.#\n#####")
    group.reset(seed=0)
    assert list(group.active) == [0, 1]

    def failing(**_options):
        raise OSError("no task files")

    monkeypatch.setattr(group.members[1], "reset", failing)
    with pytest.raises(OSError, match="no task files"):
        group.reset(seed=0)
    assert list(group.active) == []
    with pytest.raises(EpisodeError, match="not running"):
        group.step({0: "right"})


def test_group_ids_name_the_trajectories():
    env = GroupEnv("sokoban", size=2, level=LEVEL, max_steps=1)
    env.reset(seed=0, group_id="it7")
    env.step({0: "left", 1: "left"})
    assert [t.trajectory_id for t in env.group().trajectories] == ["it7/0", "it7/1"]
    assert [t.replica for t in env.group().trajectories] == [0, 1]


def test_wrong_arguments_are_rejected():
    with pytest.raises(ConfigError, match="at least one"):
        GroupEnv("sokoban", size=0)
    with pytest.raises(ConfigError, match="did you mean 'sokoban'"):
        GroupEnv("sokobn", size=1)
