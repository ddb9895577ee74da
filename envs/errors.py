"""The exception tree. Every message states what was expected, what was received, and how to fix it.

CreditflowError
├── ConfigError (ValueError)         a wrong name, parameter or option; suggests the nearest name
├── DataError (ValueError)           a file or record that violates its format; names file and line
│   ├── LevelError                   a malformed Sokoban level
│   └── TrajectoryError              a malformed or inconsistent trajectory log
├── UnknownTaskError (KeyError)      a task id that the environment's task source does not have
├── EpisodeError (RuntimeError)      step before reset, or after the end of the episode
├── OracleLimitError (RuntimeError)  the oracle would exceed its limit of memory or of expanded states
├── ServiceError (ConnectionError)   a search engine, judge or model server cannot be reached, fails, or returns malformed data
└── MissingExtraError (ModuleNotFoundError)  an optional component is not installed; names the install command
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = [
    "ConfigError",
    "CreditflowError",
    "DataError",
    "EpisodeError",
    "LevelError",
    "MissingExtraError",
    "OracleLimitError",
    "ServiceError",
    "TrajectoryError",
    "UnknownTaskError",
    "check_name",
    "install_command",
    "printable",
    "short_repr",
    "unknown_name_error",
]


MAX_MESSAGE: Final = 4_000  # characters; inputs that a message quotes may have millions


class CreditflowError(Exception):
    """Base of every error that creditflow raises on purpose.

    A message of more than ``MAX_MESSAGE`` characters loses its middle: the file and line are at its start, and the
    cause is often at its end.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(_shortened(arg) if isinstance(arg, str) else arg for arg in args))


def _shortened(message: str) -> str:
    """Return a message without its middle if it is too long.

    >>> len(_shortened("x" * 10**6))
    4000
    """
    if len(message) <= MAX_MESSAGE:
        return message
    mark = f" […{len(message):,} characters in all…] "
    end = MAX_MESSAGE // 3
    return message[: MAX_MESSAGE - end - len(mark)] + mark + message[-end:]


class ConfigError(CreditflowError, ValueError):
    """A wrong name, parameter or option."""


class DataError(CreditflowError, ValueError):
    """A file or record that violates its format."""


class LevelError(DataError):
    """A malformed Sokoban level."""


class TrajectoryError(DataError):
    """A malformed or inconsistent trajectory, group or log."""


class UnknownTaskError(CreditflowError, KeyError):
    """A task id that the environment's task source does not have."""

    def __str__(self) -> str:  # KeyError would show the repr of its argument
        return str(self.args[0]) if self.args else ""


class EpisodeError(CreditflowError, RuntimeError):
    """``step`` before ``reset``, or after the end of the episode."""


class OracleLimitError(CreditflowError, RuntimeError):
    """The oracle would exceed its limit of memory (Sokoban) or of expanded states (ALFWorld)."""


class ServiceError(CreditflowError, ConnectionError):
    """A search engine, LLM judge or model server cannot be reached in time, fails, or returns malformed data."""


class MissingExtraError(CreditflowError, ModuleNotFoundError):
    """An optional component is not installed."""

    def __init__(self, component: str, extra: str) -> None:
        """Name the missing ``component`` and the ``extra`` that installs it."""
        small = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
        hint = f" (without a GPU first: {small}, which saves gigabytes of CUDA)" if component == "torch" else ""
        super().__init__(f"{component} is not installed; install it with: {install_command(extra)}{hint}")


def install_command(extra: str, lines: Sequence[str] | None = None, root: Path | None = None) -> str:
    r"""Return the shell command that installs an extra for this copy of the package, which is on no index.

    Args:
        extra: its name; "" for the package itself.
        lines: ``Requires-Dist`` of the package; default those of the installed one.
        root: folder of the checkout; default the one that runs, if it is one.

    >>> install_command("x", ['a>=1; extra == "x"', 'b; python_version < "3.13" and extra == "x"', "c"], Path("/none"))
    'pip install \'a>=1\' \'b; python_version < "3.13"\''
    """
    root = Path(__file__).resolve().parents[1] if root is None else root
    wanted = f"[{extra}]" if extra else ""
    if (root / "pyproject.toml").is_file():
        return f"pip install -e '{'.' if root == Path.cwd() else root}{wanted}'"
    from importlib import metadata  # imports email and zipfile: only when something is missing

    named = dict.fromkeys(required(extra, lines if lines is not None else metadata.requires("creditflow") or ()))
    return "pip install " + " ".join(f"'{one}'" for one in named)


def required(extra: str, lines: Sequence[str]) -> Iterator[str]:
    """The requirements of an extra, without its own marker, and those of the extras in it; of "" those of the package."""
    for line in lines:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        condition, found, _ = marker.replace("'", '"').partition(f'extra == "{extra}"')
        if bool(found) != bool(extra) or (not found and "extra ==" in marker):
            continue
        if inner := re.match(r"creditflow\[([\w, -]+)\]", requirement):
            for name in inner[1].split(","):
                yield from required(name.strip(), lines)
            continue
        rest = condition.removesuffix(" and ").strip() if found else marker
        yield f"{requirement}; {rest}" if rest else requirement


def require_modules(component: str, extra: str, *modules: str) -> None:
    """Import the modules of an optional component, before any work that needs them is done.

    Raises:
        MissingExtraError: one of them cannot be imported.
    """
    try:
        for name in modules:
            import_module(name)
    except ImportError as error:
        raise MissingExtraError(component, extra) from error


def short_repr(value: object, limit: int = 60) -> str:
    """Return ``repr(value)`` for an error message: at most ``limit`` characters, and never an exception.

    >>> short_repr("a" * 100, limit=8)
    "'aaaaaa…"
    >>> short_repr(-(10**5000))
    'int (too long to show)'
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an error message about a bad value must not raise because of that value
        return f"{type(value).__name__} (too long to show)"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def printable(text: str) -> str:
    r"""Make the text of a log, a file name or an id safe for a terminal: control characters become escapes.

    >>> printable("go\x1b[2J north")
    'go\\x1b[2J north'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def check_name(kind: str, value: object, known: Iterable[str]) -> None:
    """Check that a value of any type is one of the known names.

    Raises:
        ConfigError: not a known name; the message suggests the nearest one.
    """
    options = list(known)
    if not isinstance(value, str) or value not in options:
        raise unknown_name_error(kind, value, options)


def unknown_name_error(kind: str, name: object, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown name (or a value that is not a string), which suggests the nearest known name.

    >>> print(unknown_name_error("scheme", "grp0", ["grpo", "rloo"]))
    unknown scheme 'grp0'; did you mean 'grpo'? Known: grpo, rloo
    """
    options = sorted(known)
    matches = difflib.get_close_matches(name, options, n=1, cutoff=0.5) if isinstance(name, str) else []
    hint = f"; did you mean {matches[0]!r}?" if matches else "."
    return ConfigError(f"unknown {kind} {short_repr(name, 200)}{hint} Known: {', '.join(options)}")
