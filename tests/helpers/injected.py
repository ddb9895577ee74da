"""An error at a chosen call, to interrupt what a test then resumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["InjectedError", "failing_at"]


class InjectedError(RuntimeError):
    """Injected."""


def failing_at(call: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does what another does, but raises ``InjectedError`` when it is called for the ``call``-th time."""
    calls = 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise InjectedError
        return real(*args, **kwargs)

    return failing
