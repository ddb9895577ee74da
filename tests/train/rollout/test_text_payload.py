"""Groups contain the texts of retrieved documents, for the schemes that read them."""

from __future__ import annotations

import numpy as np

from creditflow.agents.scripted import ExpertAgent
from creditflow.train.rollout import play_group
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv, payload

WORLD = {"articles": 400, "questions": 3, "seed": 3}


def test_a_group_of_search_episodes_contains_documents_and_one_of_sokoban_does_not() -> None:
    env = GroupEnv("wikisearch", size=2, world=WORLD)
    source = env.tasks
    group = play_group(env, ExpertAgent(), source.get(source.task_ids()[0]))
    read = {name for trajectory in group.trajectories for turn in trajectory.turns for name in turn.doc_ids}
    assert read <= set(group.task["documents"])
    assert not credit.make("stepsearch").undefined_on(group)
    sokoban = GroupEnv("sokoban", size=1)
    task = sokoban.tasks.sample(np.random.default_rng(0))
    play_group(sokoban, ExpertAgent(), task)
    assert "documents" not in payload(task, [sokoban.members[0].base])
