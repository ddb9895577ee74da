"""A small fictional encyclopedia with a few questions, in milliseconds."""

from typing import Any

import creditflow
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.questions import Question

__all__ = ["WORLD", "questions", "search", "small_env"]

WORLD = {"articles": 400, "questions": 16, "seed": 3}


def small_env(**options: Any) -> WikiSearchEnv:
    """An environment over this world, unless the options name another source."""
    env = creditflow.make("wikisearch", **{"world": WORLD, **options}).unwrapped
    assert isinstance(env, WikiSearchEnv)
    return env


def questions(env: WikiSearchEnv) -> list[Question]:
    """The questions of an environment."""
    return [Question.from_json(env.tasks.get(name).content) for name in env.tasks.task_ids()]


def search(env: WikiSearchEnv, query: str = "") -> dict[str, Any]:
    """The info of a search, for the question itself by default."""
    return env.step(f"search: {query or env.episode.question.text}")[4]
