"""How many validation tasks were trained on: tasks of two logs or panels compared by their content.

Names of tasks do not tell. Several trainers shuffle the goals of WebShop with a seed per worker before they split them, so that
a goal is a validation task for one worker and a training task for another. These workers also sample the price limits, so a goal
of WebShop with another limit is the same task here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.tasks import load_panel
from creditflow.envs.webshop.goals.tasks import LIMIT, content_wish, is_goal_content
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["Overlap", "overlap", "task_names"]

_OURS: Final = re.compile(r"[a-z]+\d+:[0-9a-f]{32}")  # an id that is a digest of the content
_PANEL: Final = re.compile(r"(?P<env>[a-z]+)/(?P<panel>[\w-]+):(?P<split>\w+)")
_WISH: Final = {"asin", "wish"}  # a row that lists a goal of WebShop has these keys


class Overlap(NamedTuple):
    """Different validation tasks, and how many of them were trained on."""

    trained_on: int
    validation: int

    def __str__(self) -> str:
        return f"{self.trained_on} of your {self.validation} validation tasks were trained on"


def overlap(train: str, validation: str) -> Overlap:
    """Compare the tasks of two sources; see ``task_names``."""
    trained_on = set[str]().union(*task_names(train).values())
    validated = task_names(validation)
    return Overlap(sum(not names.isdisjoint(trained_on) for names in validated.values()), len(validated))


def task_names(source: str) -> dict[str, set[str]]:
    """The different tasks of a log (a file) or of an embedded panel ("ENV/PANEL:SPLIT", as in "webshop/standard-v1:valid").

    Returns:
        By task all names that follow from its content: tasks with a name in common are the same.

    Raises:
        ConfigError: neither a file nor a panel.
        DataError: it has no tasks.
    """
    named = _PANEL.fullmatch(source)
    tasks: list[list[str]]
    if named and not Path(source).exists():
        rows = load_panel(named["env"], named["panel"]).rows
        tasks = [_names(row.task_id, row.locator, "") for row in rows if row.split == named["split"]]
    elif Path(source).is_file():
        tasks = [_names(group.task_id, group.task, _first_text(group)) for group in read_groups(source)]
    else:
        raise ConfigError(f"expected a log, or a panel such as webshop/standard-v1:valid; got {short_repr(source)}")
    if not tasks:
        raise DataError(f"{source} has no tasks")
    names_of: dict[str, set[str]] = {}
    for first, *further in tasks:
        names_of.setdefault(first, {first}).update(further)
    return names_of


def _names(task_id: str, task: Mapping[str, Any], text: str) -> list[str]:
    """The names of a task: a goal's product and wish, the id where it is a digest, else a digest of what the task says."""
    names = []
    if task.keys() >= _WISH:
        names.append(f"{task['asin']} {task['wish']}")
    elif is_goal_content(task):
        names.append(f"{task['asin']} {content_wish(task)}")
    if _OURS.fullmatch(task_id):
        return [*names, task_id]
    said = json.dumps(task, sort_keys=True, default=str) if task else text or task_id
    return [*names, blake2b(LIMIT.sub("", said).encode("utf-8", "replace"), digest_size=16).hexdigest()]


def _first_text(group: Group) -> str:
    """The first observation that the log has."""
    return next((turn.observation for turn in group.turns if turn.observation), "")
