"""Exceptions of other libraries, converted to our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from creditflow.envs.errors import ConfigError, CreditflowError, DataError

__all__ = ["loading", "naming", "summary"]


@contextmanager
def loading(what: str, kind: Callable[[str], CreditflowError] = DataError) -> Iterator[None]:
    """Convert any exception of a library that opens a file into one of our errors.

    Libraries raise more than they document (tokenizers a bare ``Exception``, safetensors an error of its own, a model
    class anything), and those written in Rust panic with an exception outside ``Exception``. Our own errors and
    interruptions pass unchanged.

    Args:
        what: beginning of the message: "models/x: cannot be opened as a tokenizer".
        kind: error class, or a function from a message to an error.

    Raises:
        CreditflowError: of ``kind``.
    """
    try:
        yield
    except CreditflowError:
        raise
    except Exception as error:
        raise kind(f"{what}: {summary(error)}") from error
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":  # KeyboardInterrupt, SystemExit
            raise
        raise kind(f"{what}: {summary(error)}") from error


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Prepend a file, folder or line to the messages of errors that do not name it yet.

    Args:
        place: file, folder or line.

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


def summary(error: BaseException) -> str:
    """Return the type and a short form of the message, which may quote much of a file.

    >>> summary(KeyError("x")), summary(MemoryError())
    ("KeyError: 'x'", 'MemoryError')
    """
    try:
        text = " ".join(str(error).split())
    except Exception as failure:  # noqa: BLE001 - a plug-in's own __str__ may raise anything
        text = f"its message cannot be shown, because {type(failure).__name__} was raised"
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
