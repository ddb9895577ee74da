"""The options of ``reset``, which name a task by id, by payload, or by both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error

__all__ = ["RESET_OPTIONS", "NamedTask", "read_reset_options"]

RESET_OPTIONS: Final = ("task_id", "task")


class NamedTask(NamedTuple):
    """The task that the options of ``reset`` name.

    Attributes:
        task_id: id of the task; None if not given.
        payload: content of the task; None if not given.
    """

    task_id: str | None = None
    payload: Any = None


def read_reset_options(options: Any) -> NamedTask:
    """Return the task that the options of ``reset`` name.

    Raises:
        ConfigError: an unknown option, or a value of the wrong type.

    >>> read_reset_options({"task_id": "sokoban1:0a"})
    NamedTask(task_id='sokoban1:0a', payload=None)
    """
    if options is None:
        return NamedTask()
    if not isinstance(options, Mapping):
        raise ConfigError(f"options must be a mapping such as {{'task_id': …}}, got {type(options).__name__}")
    for name in options:
        if name not in RESET_OPTIONS:
            raise unknown_name_error("option of reset", str(name), RESET_OPTIONS)
    task_id = options.get("task_id")
    if task_id is not None and not isinstance(task_id, str):
        raise ConfigError(
            f"options['task_id'] must be a string such as info['task_id'], got {type(task_id).__name__}: {short_repr(task_id)}"
        )
    return NamedTask(task_id, options.get("task"))
