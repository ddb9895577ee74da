"""Episodes of real questions over a small real Wikipedia."""

import pytest
from helpers.shared_data import shared_file

from creditflow.agents.scripted import ExpertAgent, RandomAgent
from creditflow.train.rollout import play_groups
from creditflow.wrappers.group_env import GroupEnv

QUESTIONS = 40


@pytest.mark.parametrize("name", [pytest.param("2wiki", marks=pytest.mark.slow), "musique"])
def test_real_samples_run_end_to_end(name: str) -> None:
    group = GroupEnv(
        "wikisearch",
        size=2,
        questions=str(shared_file(f"data/search/{name}.jsonl.gz")),
        corpus=str(shared_file("data/search/passages.jsonl.gz")),
        dialect="search_r1",
    )
    base = group.members[0].base
    tasks = [base.tasks.get(task_id) for task_id in base.tasks.task_ids()[:QUESTIONS]]
    assert base.oracle.exact
    played = {}
    for agent in (ExpertAgent(), RandomAgent()):
        groups = list(play_groups(group, agent, tasks))
        trajectories = [trajectory for g in groups for trajectory in g.trajectories]
        assert all(turn.valid for trajectory in trajectories for turn in trajectory.turns)
        played[agent.name] = sum(trajectory.success for trajectory in trajectories) / len(trajectories)
    assert played["expert"] > 0.5 > 0.05 > played["random"]
