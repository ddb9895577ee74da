"""The n-gram model writes what it has seen, with the episode's own randomness."""

from __future__ import annotations

from creditflow.agents.scripted import NoisyExpert, RandomAgent
from creditflow.envs.tasks import load_panel
from creditflow.train.credit_set.turns import NgramAgent
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv


def played(env, agent, number, seed=0):
    row = load_panel(env.members[0].base.env_name, "standard-v1").rows[number]
    return play_group(env, agent, env.tasks.get(row.task_id), seed=seed)


def test_actions_are_deterministic_mostly_valid_and_made_of_words_that_were_read():
    env = GroupEnv("alfworld", size=2, panel="standard-v1:all", max_steps=12)
    agent = NgramAgent([played(env, NoisyExpert(0.2), number) for number in range(6)])
    one, again, other = (played(env, agent, 40, seed) for seed in (0, 0, 1))
    actions = [turn.action for turn in one.turns]
    assert actions == [turn.action for turn in again.turns]
    assert actions != [turn.action for turn in other.turns]
    assert 0.3 < sum(turn.valid for turn in one.turns) / len(one.turns) < 1.0


def test_an_untrained_model_copies_or_ends():
    env = GroupEnv("sokoban", size=2, panel="standard-v1:all")
    group = played(env, NgramAgent([played(env, RandomAgent(), 3)]), 0)
    assert {turn.action for turn in group.turns if turn.valid} <= {"up", "down", "left", "right"}
