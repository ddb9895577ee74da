"""A small fictional encyclopedia with a few questions, in milliseconds."""

from typing import Any

import creditflow
from creditflow.envs.wikisearch.env import WikiSearchEnv

__all__ = ["WORLD", "small_env"]

WORLD = {"articles": 400, "questions": 16, "seed": 3}


def small_env(**options: Any) -> WikiSearchEnv:
    """An environment over this world, unless the options name another source."""
    env = creditflow.make("wikisearch", **{"world": WORLD, **options}).unwrapped
    assert isinstance(env, WikiSearchEnv)
    return env
