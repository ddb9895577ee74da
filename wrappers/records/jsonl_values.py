"""Type checks of JSON values: each function takes any value and returns it as its type, or raises ``TypeError``.

The message names the expected type ("a string"); the caller adds the field and the line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from creditflow.wrappers.records.trajectory import NO_PROVENANCE, NO_VALUES

__all__ = [
    "bool_list",
    "boolean",
    "int32_list",
    "integer",
    "key",
    "logprobs",
    "number",
    "prompts",
    "string",
    "string_map",
    "strings",
    "token_values",
    "values",
]


def string(value: Any) -> str:
    """A string."""
    if type(value) is not str:
        raise TypeError("a string")
    return value


def key(value: Any) -> str:
    """A string that recurs and is therefore interned."""
    if type(value) is not str:
        raise TypeError("a string")
    return sys.intern(value)


def boolean(value: Any) -> bool:
    """A boolean."""
    if type(value) is not bool:
        raise TypeError("true or false")
    return value


def integer(value: Any) -> int:
    """A 64-bit integer."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError("a 64-bit integer")
    return value


def number(value: Any) -> float:
    """A finite number."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) not in (int, float):
        raise TypeError("a finite number")
    try:
        converted = float(value)
    except OverflowError:  # JSON integers are unbounded
        raise TypeError("a finite number") from None
    if not math.isfinite(converted):
        raise TypeError("a finite number")
    return converted


def strings(value: Any) -> tuple[str, ...]:
    """A list of strings, as a tuple."""
    if type(value) is not list or not all(type(item) is str for item in value):
        raise TypeError("a list of strings")
    return tuple(value)


def values(value: Any) -> Mapping[str, float]:
    """An object of finite numbers, with interned names."""
    if type(value) is not dict:
        raise TypeError("an object of numbers")
    return {sys.intern(name): number(item) for name, item in value.items()} or NO_VALUES


def string_map(value: Any) -> Mapping[str, str]:
    """An object of strings, all interned."""
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise TypeError("an object of strings")
    return {sys.intern(name): sys.intern(item) for name, item in value.items()} or NO_PROVENANCE


def int32_list(value: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A list of 32-bit integers, as int32."""
    if type(value) is not list or not all(type(item) is int and -(2**31) <= item < 2**31 for item in value):
        raise TypeError("a list of 32-bit integers")
    return np.array(value, np.int32)


def bool_list(value: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A list of 0 and 1, as bool."""
    if type(value) is not list or not all(type(item) is int and item in (0, 1) for item in value):
        raise TypeError("a list of 0 and 1")
    return np.array(value, np.bool_)


def logprobs(value: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A list of float32 numbers."""
    numbers = np.array([number(item) for item in value] if type(value) is list else [np.inf], np.float64)
    if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise TypeError("a list of 32-bit numbers")
    return numbers.astype(np.float32)


def prompts(value: Any) -> tuple[np.ndarray[Any, np.dtype[np.int32]], ...]:
    """A list of lists of 32-bit integers."""
    if type(value) is not list:
        raise TypeError("a list of lists of 32-bit integers")
    return tuple(int32_list(prompt) for prompt in value)


def token_values(value: Any) -> Mapping[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """An object of lists of float32 numbers."""
    if type(value) is not dict:
        raise TypeError("an object of lists of 32-bit numbers")
    return {sys.intern(name): logprobs(numbers) for name, numbers in value.items()}
