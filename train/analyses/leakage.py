"""How many validation tasks were trained on: tasks of two logs or panels compared by their content.

Names of tasks do not tell. Several trainers shuffle the goals of WebShop with a seed per worker before they split them, so that
a goal is a validation task for one worker and a training task for another.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.tasks import load_panel
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["Overlap", "overlap", "task_contents"]

_OURS: Final = re.compile(r"[a-z]+\d+:[0-9a-f]{32}")  # an id that is a digest of the content
_PANEL: Final = re.compile(r"(?P<env>[a-z]+)/(?P<panel>[\w-]+):(?P<split>\w+)")


class Overlap(NamedTuple):
    """Different validation tasks, and how many of them were trained on."""

    trained_on: int
    validation: int

    def __str__(self) -> str:
        return f"{self.trained_on} of your {self.validation} validation tasks were trained on"


def overlap(train: str, validation: str) -> Overlap:
    """Compare the tasks of two sources; see ``task_contents``."""
    validated = task_contents(validation)
    return Overlap(len(validated & task_contents(train)), len(validated))


def task_contents(source: str) -> set[str]:
    """Digests of the tasks of a log (a file) or of an embedded panel ("ENV/PANEL:SPLIT", as in "webshop/standard-v1:valid").

    Raises:
        ConfigError: neither a file nor a panel.
        DataError: it has no tasks.
    """
    named = _PANEL.fullmatch(source)
    if named and not Path(source).exists():
        rows = load_panel(named["env"], named["panel"]).rows
        contents = {row.task_id for row in rows if row.split == named["split"]}
    elif Path(source).is_file():
        contents = {_content(group) for group in read_groups(source)}
    else:
        raise ConfigError(f"give a log, or a panel as in webshop/standard-v1:valid; got {short_repr(source)}")
    if not contents:
        raise DataError(f"{source} has no tasks")
    return contents


def _content(group: Group) -> str:
    """The task's id where it is a digest of the content; else a digest of what the task says, or of the first observation."""
    if _OURS.fullmatch(group.task_id):
        return group.task_id
    first = next((turn.observation for turn in group.turns if turn.observation), "")
    text = json.dumps(group.task, sort_keys=True, default=str) if group.task else first or group.task_id
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
