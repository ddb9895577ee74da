"""The scenes of a group's turns, by the environment that its task id names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from creditflow.train.viewer.scenes.alfworld import alfworld_scene
from creditflow.train.viewer.scenes.lines import MAX_SCENE, Line
from creditflow.train.viewer.scenes.search import search_names, search_scene
from creditflow.train.viewer.scenes.webshop import webshop_scene
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["environment_of", "scene_maker"]

_PREFIX: Final = re.compile(r"([a-z]+)\d+:")


def environment_of(task_id: str) -> str:
    """Return the environment that a task id names, "" if none.

    >>> environment_of("webshop1:5bb720804e4a4d0b1dd84a9daa2c2607")
    'webshop'
    """
    match = _PREFIX.match(task_id)
    return match[1] if match else ""


def scene_maker(group: Group) -> Callable[[Turn], tuple[Line, ...]]:
    """Return the function from a turn to its scene; () stands for the plain text."""
    name = environment_of(group.task_id)
    if name == "webshop":
        options = _option_names(group.task.get("options"))
        return _bounded(lambda turn: webshop_scene(turn.observation, turn.action, options))
    if name == "alfworld":
        return _bounded(lambda turn: alfworld_scene(turn.observation, turn.action))
    if name == "wikisearch" or any(turn.queries for turn in group.turns):
        names = search_names(group.task, sorted({name for turn in group.turns for name in turn.entities}))
        return _bounded(lambda turn: search_scene(turn.observation, names, turn.queries))
    return lambda _: ()


def _option_names(options: Any) -> tuple[str, ...]:
    """Names of the goal's options in a payload, from anywhere."""
    pairs = options if isinstance(options, (list, tuple)) else ()
    return tuple(
        pair[0] for pair in pairs[:20] if isinstance(pair, (list, tuple)) and pair and isinstance(pair[0], str)
    )


def _bounded(scene: Callable[[Turn], tuple[Line, ...]]) -> Callable[[Turn], tuple[Line, ...]]:
    return lambda turn: scene(turn) if 0 < len(turn.observation) <= MAX_SCENE else ()
