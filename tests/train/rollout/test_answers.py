"""Exact match and F1 of recorded answers, in every format of calls."""

from __future__ import annotations

import pytest

from creditflow.agents.scripted import ExpertAgent, RandomAgent
from creditflow.envs.wikisearch.actions import Call, Tool
from creditflow.envs.wikisearch.protocol.dialects import DIALECTS, dialect
from creditflow.train.rollout import play_group
from creditflow.train.rollout.evaluation import answer_scores, dialect_of
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn


def episode(name: str, *turns: tuple[Tool, str, bool]) -> Group:
    """A group of one episode whose turns are (tool, argument, valid)."""
    made = [Turn("s", dialect(name).write(Call(tool, (text,))), "s", admissible=valid) for tool, text, valid in turns]
    member = Trajectory("t", "g", "task", tuple(made), False, 0.0, "failed", "s")
    return Group((member,), {"answers": ["The Nile", "Nile River"], "text": "Which river?"})


@pytest.mark.parametrize("name", DIALECTS)
def test_the_last_valid_answer_is_graded(name: str) -> None:
    form = dialect(name)
    right = episode(name, ("search", "river", True), ("answer", "the nile!", True))
    assert answer_scores(right, 0, form) == {"em": 1.0, "f1": 1.0}
    assert answer_scores(episode(name, ("answer", "Nile Delta River", True)), 0, form) == {
        "em": 0.0,
        "f1": pytest.approx(0.8),
    }
    for none in (episode(name), episode(name, ("search", "Nile", True)), episode(name, ("answer", "Nile", False))):
        assert answer_scores(none, 0, form) == {"em": 0.0, "f1": 0.0}


@pytest.mark.parametrize("name", DIALECTS)
def test_exact_match_is_the_environments_success(name: str) -> None:
    env = GroupEnv("wikisearch", size=4, dialect=name, panel="standard-v1:test")
    base = env.members[0].base
    form = dialect_of(base)
    assert form is not None
    for agent in (ExpertAgent(), RandomAgent()):
        group = play_group(env, agent, base.tasks.get(base.tasks.task_ids()[3]))
        found = [answer_scores(group, index, form)["em"] for index in range(4)]
        assert found == [float(member.success) for member in group.trajectories]


def test_only_search_has_a_format_of_calls() -> None:
    assert dialect_of(GroupEnv("sokoban", size=1).members[0].base) is None
