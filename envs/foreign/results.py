"""What ``reset`` and ``step`` of a foreign environment return, read strictly: Gymnasium does not check it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from creditflow.envs.errors import DataError, short_repr

__all__ = ["StepResult", "read_reset", "read_step", "truth_value"]


class StepResult(NamedTuple):
    """A step's results, with plain types.

    Attributes:
        observation: as the environment returned it.
        reward: finite.
        terminated, truncated: the two ends. An end that ``info["TimeLimit.truncated"]`` calls a limit is a truncation.
        info: a copy.
    """

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def read_reset(result: Any, env: str) -> tuple[Any, dict[str, Any]]:
    """Return observation and info of ``reset``.

    Args:
        result: what it returned.
        env: name of the environment, for messages.

    Raises:
        DataError: it is no pair of an observation and a mapping.
    """
    observation, info = _parts(result, "reset", ("observation", "info"), env)
    return observation, _info(info, env)


def read_step(result: Any, env: str) -> StepResult:
    """Return the results of ``step``.

    Args:
        result: what it returned.
        env: name of the environment, for messages.

    Raises:
        DataError: another number of parts, a reward that is no finite number, an end that is no truth value, or an info
            that is no mapping.
    """
    names = ("observation", "reward", "terminated", "truncated", "info")
    observation, reward, terminated, truncated, info = _parts(result, "step", names, env)
    number = _number(reward)
    if number is None:
        raise DataError(f"{env}: a reward must be a finite number, got {short_repr(reward)}")
    over, cut = truth_value(terminated), truth_value(truncated)
    if over is None or cut is None:
        name, value = ("terminated", terminated) if over is None else ("truncated", truncated)
        raise DataError(f"{env}: {name} must be True or False, got {short_repr(value)}")
    read = _info(info, env)
    if over and truth_value(read.get("TimeLimit.truncated")):  # how gym before 0.26 and SB3 tell a limit from an end
        over, cut = False, True
    return StepResult(observation, number, over, cut, read)


def truth_value(value: Any) -> bool | None:
    """Return True or False of what equals one of them, or is an array of one such number; None of anything else.

    >>> [truth_value(value) for value in (True, np.False_, 1.0, np.array([0]), "False", None, 2)]
    [True, False, True, False, None, None, None]
    """
    plain = value.item() if isinstance(value, np.ndarray | np.generic) and np.size(value) == 1 else value
    return bool(plain) if isinstance(plain, int | float) and plain in (0, 1) else None


def _number(value: Any) -> float | None:
    """A finite number, also of an array with one; None of anything else."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        return None
    if array.size != 1 or array.dtype.kind not in "biuf":
        return None
    number = float(array.item())
    return number if math.isfinite(number) else None


def _parts(result: Any, method: str, names: tuple[str, ...], env: str) -> tuple[Any, ...]:
    if not isinstance(result, tuple) or len(result) != len(names):
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise DataError(
            f"{env}: {method} must return ({', '.join(names)}), got {got}; an environment of gym before 0.26 needs a "
            "wrapper that converts it"
        )
    return result


def _info(info: Any, env: str) -> dict[str, Any]:
    if not isinstance(info, Mapping):
        raise DataError(f"{env}: info must be a mapping, got {short_repr(info)}")
    return dict(info)
