"""What other libraries raise, under our own names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from creditflow.envs.errors import ConfigError, CreditflowError, DataError

__all__ = ["loading", "naming"]


@contextmanager
def loading(what: str, kind: Callable[[str], CreditflowError] = DataError) -> Iterator[None]:
    """Around a call that opens a file with another library: whatever it raises becomes one named error.

    Such libraries raise much more than they document (tokenizers a bare ``Exception``, safetensors an error of its own,
    a model class whatever its code meets), and those written in Rust panic with an exception outside ``Exception``.
    Our own errors pass, and so do interruptions.

    Args:
        what: was to be opened and as what: "models/x: cannot be opened as a tokenizer".
        kind: makes the error from its message.

    Raises:
        CreditflowError: what ``kind`` makes.
    """
    try:
        yield
    except CreditflowError:
        raise
    except Exception as error:
        raise kind(f"{what}: {_said(error)}") from error
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":  # KeyboardInterrupt, SystemExit
            raise
        raise kind(f"{what}: {_said(error)}") from error


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Around what checks values that were read elsewhere: its errors name the place, if they do not yet.

    Args:
        place: file, folder or line; begins the message.

    Raises:
        ConfigError, DataError: as raised inside, of the same class.

    >>> with naming("corpus.jsonl"):
    ...     raise DataError("an id occurs twice")
    Traceback (most recent call last):
    ...
    creditflow.envs.errors.DataError: corpus.jsonl: an id occurs twice
    """
    try:
        yield
    except (ConfigError, DataError) as error:
        if str(place) in str(error):
            raise
        raise type(error)(f"{place}: {error}") from error


def _said(error: BaseException) -> str:
    """A short form of a message that may quote half the file."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
