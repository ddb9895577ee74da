"""The exception tree. Every error says what was expected, what came, and how to mend it.

CreditflowError
├── ConfigError (ValueError)         a wrong name, parameter or option; suggests the near one
├── DataError (ValueError)           a file or record that does not follow its format; names file and line
│   ├── LevelError                   a malformed game level
│   └── TrajectoryError              a malformed or inconsistent trajectory log
├── UnknownTaskError (KeyError)      a task id that the environment's task source does not hold
├── EpisodeError (RuntimeError)      step before reset, or after the end of the episode
├── OracleLimitError (RuntimeError)  the exact oracle would need more memory than its cap
└── MissingExtraError (ImportError)  an optional component is not installed; names the install command
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "CreditflowError",
    "DataError",
    "EpisodeError",
    "LevelError",
    "MissingExtraError",
    "OracleLimitError",
    "TrajectoryError",
    "UnknownTaskError",
    "check_name",
    "shown",
    "unknown_name",
]


class CreditflowError(Exception):
    """Base of every error that creditflow raises on purpose."""


class ConfigError(CreditflowError, ValueError):
    """A wrong name, parameter or option."""


class DataError(CreditflowError, ValueError):
    """A file or record that does not follow its format."""


class LevelError(DataError):
    """A malformed game level."""


class TrajectoryError(DataError):
    """A malformed or inconsistent trajectory, group or log."""


class UnknownTaskError(CreditflowError, KeyError):
    """A task id that the environment's task source does not hold."""

    def __str__(self) -> str:  # KeyError would show the repr of its argument
        return str(self.args[0]) if self.args else ""


class EpisodeError(CreditflowError, RuntimeError):
    """``step`` before ``reset``, or after the end of the episode."""


class OracleLimitError(CreditflowError, RuntimeError):
    """The exact oracle would need more memory than its cap."""


class MissingExtraError(CreditflowError, ImportError):
    """An optional component is not installed."""

    def __init__(self, component: str, extra: str) -> None:
        """Names the missing ``component`` and the ``extra`` that brings it."""
        super().__init__(f"{component} is not installed; install it with: pip install 'creditflow[{extra}]'")


def shown(value: object, most: int = 60) -> str:
    """A value as a message may quote it: short, and whatever its ``repr`` does.

    >>> shown("a" * 100, most=8)
    "'aaaaaa…"
    >>> shown(-(10**5000))
    'int (too long to show)'
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a message about a bad value must not fail on that value
        return f"{type(value).__name__} (too long to show)"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def check_name(kind: str, value: object, known: Iterable[str]) -> None:
    """Refuse what is not one of the known names, whatever its type.

    Raises:
        ConfigError: with the nearest known name.
    """
    options = list(known)
    if not isinstance(value, str) or value not in options:
        raise unknown_name(kind, value, options)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not known, or is no text at all, with the nearest known one.

    >>> print(unknown_name("scheme", "grp0", ["grpo", "rloo"]))
    unknown scheme 'grp0'; did you mean 'grpo'? Known: grpo, rloo
    """
    options = sorted(known)
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.5) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ConfigError(f"unknown {kind} {shown(name, 200)}{hint} Known: {', '.join(options)}")
