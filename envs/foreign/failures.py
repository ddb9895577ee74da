"""Failures inside a foreign environment keep their type and get a note, by which commands do not take them for our own."""

from __future__ import annotations

from typing import Final

__all__ = ["failed_environment", "note_failure"]

_NOTE: Final = "raised in the foreign environment "


def note_failure(error: Exception, env: str, method: str) -> None:
    """Add a note to an error that a foreign environment raised.

    Args:
        error: what it raised.
        env: name of the environment.
        method: what was called: "step", "reset", or "its constructor".
    """
    error.add_note(f"{_NOTE}{env!r}, {method}")


def failed_environment(error: BaseException) -> str:
    """Return the environment and the method that raised an error; "" if the error has no note of ``note_failure``.

    >>> error = KeyError("x")
    >>> note_failure(error, "FrozenLake-v1", "step")
    >>> failed_environment(error), failed_environment(ValueError())
    ("environment 'FrozenLake-v1', step", '')
    """
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_NOTE)]
    return f"environment {notes[0].removeprefix(_NOTE)}" if notes else ""
