"""Validation of paths that users give as arguments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["checked_path"]


def checked_path(name: str, value: Any) -> Path:
    """Return the path in an argument.

    Args:
        name: name of the argument, for the message.
        value: a string or a ``PathLike``.

    Raises:
        ConfigError: another type, or a string that cannot be a file name.
    """
    try:
        path = Path(value)
        os.fsencode(path)
    except (TypeError, UnicodeEncodeError) as error:
        raise ConfigError(f"{name} must be the path of a file or folder, got {short_repr(value)}") from error
    if not str(value) or "\0" in str(path):
        raise ConfigError(f"{name} must be the path of a file or folder, got {short_repr(value)}")
    return path
