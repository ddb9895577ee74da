"""What an environment raises ends its own episode, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from creditflow.envs.errors import ConfigError, EpisodeError

__all__ = ["Failure", "environment_errors"]

OURS: tuple[type[Exception], ...] = (
    EpisodeError,
    ConfigError,
)  # calls out of order, wrong settings: a bug of the caller


@dataclass
class Failure:
    """What was raised; false if nothing was."""

    error: Exception | None = None

    def __bool__(self) -> bool:
        return self.error is not None

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@contextmanager
def environment_errors(passing: tuple[type[Exception], ...] = OURS) -> Iterator[Failure]:
    """Hold what an environment raises in the block, so that the caller can mark the episode and go on.

    Args:
        passing: errors that are raised all the same.
    """
    failure = Failure()
    try:
        yield failure
    except passing:
        raise
    except Exception as error:  # noqa: BLE001 - an environment may raise anything; it costs its own episode alone
        failure.error = error
