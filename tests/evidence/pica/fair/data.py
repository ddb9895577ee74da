"""Questions, policies' rollouts and continuations of the fair test, in worlds of the embedded encyclopedia.

The questions ask for a chain of two or three relations; six turns leave room for one to three wrong ones. Worlds that are trained on and
worlds that are tested on share no fact and no question. Their names are made of the same syllables; the few that recur by chance (one in ten of works, one in twenty
of people) stand for other entities. Relations and wordings are the same, because a model that starts from random weights cannot
know the words of a relation that it was not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent, View
from creditflow.envs.core import AgentEnv
from creditflow.envs.registration import bare_env
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.world.encyclopedia import load_encyclopedia
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Continuations", "chains", "env_options", "rollouts", "stated_names"]

ARTICLES: Final = 1500
TURNS: Final = 6
MOST_STEPS: Final = 3


def env_options(seed: int, questions: int) -> dict[str, Any]:
    """Arguments of ``creditflow/WikiSearch-v0``; the outcome is exact match, 0 or 1."""
    world = {"articles": ARTICLES, "questions": questions, "seed": seed}
    return {"world": world, "top_k": 1, "max_steps": TURNS, "metric": "em"}


def chains(seed: int, questions: int) -> list[Task]:
    """The tasks of a world whose question is a chain of at most three relations, in order."""
    source = bare_env("wikisearch", env_options(seed, questions)).tasks
    tasks = [source.get(task_id) for task_id in source.task_ids()]
    found = [(task, Question.from_json(task.content)) for task in tasks]
    return [task for task, question in found if question.kind == "bridge" and len(question.steps) <= MOST_STEPS]


def rollouts(seed: int, questions: int, tasks: Sequence[Task], agent: Agent, episodes: int) -> list[Group]:
    """A group of ``episodes`` for each task."""
    env = GroupEnv("wikisearch", size=episodes, **env_options(seed, questions))
    return [play_group(env, agent, task, seed=seed) for task in tasks]


def stated_names(seed: int) -> dict[str, frozenset[str]]:
    """By title the names, in lower case, to which an article of the world states a relation that questions ask for."""
    found: dict[str, set[str]] = {}
    for article in load_encyclopedia(seed, ARTICLES).articles:
        names = found.setdefault(article.passages[0].title, set())
        names.update(text.lower() for facts in article.facts for fact in facts for text in (fact.object, fact.written))
    return {title: frozenset(names) for title, names in found.items()}


class Continuations:
    """Plays K continuations from a state in lock step, so that a language model chooses their actions in one batch.

    Args:
        options: arguments of the environment.
        agent: the policy whose values are estimated.
        count: K.
    """

    def __init__(self, options: dict[str, Any], agent: Agent, count: int) -> None:
        self.agent, self.count = agent, count
        self._envs: list[AgentEnv[Any, Any, Any]] = [bare_env("wikisearch", options) for _ in range(count)]

    def after(self, snapshot: str, turns: Sequence[Turn], rng: np.random.Generator) -> NDArray[np.float64]:
        """Outcomes, float64 (K,), 0 or 1; of a state where the episode is over, K times its own."""
        running: dict[int, tuple[Any, dict[str, Any], list[Turn]]] = {}
        outcome = np.zeros(self.count)
        for k, env in enumerate(self._envs):
            observation, info = env.set_state(snapshot)
            if env.is_over:
                return np.full(self.count, float(info["success"]))
            running[k] = observation, info, list(turns)
        generators = rng.spawn(self.count)
        while running:
            views = [View(o, info, tuple(past), self._envs[k], generators[k]) for k, (o, info, past) in running.items()]
            for k, decision in zip(list(running), self.agent.act(views), strict=True):
                observation, info, past = running[k]
                following, _, terminated, truncated, new = self._envs[k].step(decision.action)
                past.append(Turn(info["state_key"], str(decision.action), new["state_key"], observation=observation))
                running[k] = following, new, past
                if terminated or truncated:
                    outcome[k] = float(new["success"])
                    del running[k]
        return outcome
