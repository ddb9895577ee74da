"""The grid worlds keep the contract of environments, and agree with their tables."""

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import bare
from helpers.worlds.gridworlds import grid_tasks

from creditflow.agents.scripted import RandomAgent
from creditflow.train.bench.exact.grid_layouts import KINDS, grid_mdp
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv

PUBLISHED = [
    "grid-open1:ab71b02620c90115f769952921e46451",
    "grid-pits1:da4a15f7e90efec3d8d4efc28aee1fd0",
    "grid-alias1:1f1305e8954ca4a2aa8eb29328b7936c",
    "grid-slip1:46ff8e1cfd8d479daa6911efa38cc329",
]


def test_task_ids_are_pinned():
    assert [grid_tasks(kind, 0, 1).task_ids()[0] for kind in KINDS] == PUBLISHED


@pytest.mark.parametrize("kind", ["pits", "slip"])
def test_observed_frequencies_match_the_transition_probabilities(kind):
    env = bare(f"grid-{kind}")
    env.reset(seed=1)
    mdp = grid_mdp(env.layout, 20)
    counts = np.zeros((4, len(mdp.keys)))
    rng = np.random.default_rng(0)
    for i in range(1600):
        env.reset(seed=int(rng.integers(2**31)), options={"task": dict(env.task.content)})
        info = env.step(mdp.actions[i % 4])[4]
        counts[i % 4, mdp.index[info["state_key"]]] += 1
    expected = np.zeros_like(counts)
    for action in range(4):
        np.add.at(expected[action], mdp.next_states[mdp.start, action], mdp.transition_probs[mdp.start, action])
    np.testing.assert_allclose(counts / 400, expected, atol=0.06)


def test_members_of_a_group_have_different_random_streams():
    env = GroupEnv("grid-slip", size=16)
    task = env.tasks.get(env.tasks.task_ids()[0])
    env.reset(task_id=task.task_id, seed=0, group_id="g")
    for _ in range(4):
        env.step(dict.fromkeys(env.active, "up"))
    assert len({tuple(t.next_state_key for t in member.turns) for member in env.members}) > 1


def test_the_random_streams_of_a_group_are_a_function_of_seed_and_group():
    def played(seed):
        env = GroupEnv("grid-slip", size=4)
        task = env.tasks.get(env.tasks.task_ids()[0])
        return play_group(env, RandomAgent(), task, seed=seed)

    assert played(3).trajectories == played(3).trajectories
    assert played(3).trajectories != played(4).trajectories


def test_aliased_cells_share_a_text_key_but_no_state_key():
    env = bare("grid-alias")
    env.reset(seed=0)
    mdp = grid_mdp(env.layout, 20)
    assert len(set(mdp.keys)) == len(mdp.keys)
    assert len(set(mdp.text_keys)) == len(mdp.text_keys) - 6
