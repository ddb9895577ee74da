"""State keys from content: equal content gives equal keys, on every machine and in every process.

Accepted are the values of which observations are made: numbers, booleans, texts, bytes, None, NumPy arrays, and lists,
tuples, sets and mappings of these. A number is its value: 2, np.int8(2) and 2.0 are one number, −0.0 is 0.0, and every NaN is
the same. An array is its shape and its items, whatever its dtype, byte order and layout in memory; a masked item has no value.
A list is the tuple of its items.

Floats are compared exactly, so two visits of one state often have different keys; what learns from states warns where none
recurs, and ``Rounded`` rounds them on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["Rounded", "StateKey", "content_key"]

StateKey = Callable[[Any, Mapping[str, Any]], Any]

MAX_DEPTH: Final = 32  # of nested containers
SHOWN: Final = 48  # characters of a number or text that are shown in its key; of longer ones the digest is
_KINDS: Final[Mapping[str, Any]] = {
    "int": int,
    "float": float,
    "text": str,
    "bytes": bytes,
    "array": np.ndarray,
    "mapping": Mapping,
    "list": (list, tuple),
    "set": (set, frozenset),
}
_LARGEST: Final = 2.0**63  # whole numbers below it fit int64


def content_key(value: Any, where: str = "the state") -> str:
    """Return the key of a value: printable, at most 64 characters.

    Args:
        value: content, as the module says.
        where: name of the value in messages.

    Raises:
        ConfigError: the content has an object of another type; the message names its place.

    >>> content_key(36), content_key("north"), content_key({"room": 3}) == content_key({"room": np.float64(3)})
    ('int:36', 'text:north', True)
    """
    encoded = b"".join(_encoded(value, where, 0))
    plain = _number(value.item() if isinstance(value, np.generic) else value)
    if isinstance(plain, bool) or plain is None:
        return str(plain).lower()
    kind = next(name for name, types in _KINDS.items() if isinstance(plain, types))
    readable = plain if kind == "text" else ""
    if kind == "int" and abs(plain) < 10**SHOWN:
        readable = str(int(plain))
    elif kind == "float":
        readable = repr(plain)
    if 0 < len(readable) <= SHOWN and readable.isprintable():
        return f"{kind}:{readable}"
    return f"{kind}#{blake2b(encoded, digest_size=16).hexdigest()}"


def _encoded(value: Any, where: str, depth: int) -> Iterable[bytes]:
    """Yield an encoding from which the content could be read back, so that different content differs."""
    if depth > MAX_DEPTH:
        raise ConfigError(
            f"{where}: nested deeper than {MAX_DEPTH} levels; pass state_key=, a function that returns a smaller value"
        )
    if isinstance(value, np.generic):
        value = value.item()
    value = _number(value)
    if value is None:
        yield b"n"
    elif isinstance(value, bool):
        yield b"b1" if value else b"b0"
    elif isinstance(value, int):
        yield _part(b"i", hex(int(value)).encode())
    elif isinstance(value, float):
        yield _part(b"f", value.hex().encode())
    elif isinstance(value, str):
        yield _part(b"s", value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, bytes):
        yield _part(b"y", value)
    elif isinstance(value, np.ndarray):
        yield from _encoded_array(value, where, depth)
    elif isinstance(value, Mapping):
        keys = {b"".join(_encoded(key, f"a key of {where}", depth + 1)): key for key in value}
        yield b"d%d:" % len(keys)
        for code, key in sorted(keys.items(), key=lambda item: item[0]):
            yield code
            yield from _encoded(value[key], f"{where}[{short_repr(key)}]", depth + 1)
    elif isinstance(value, list | tuple):
        yield b"l%d:" % len(value)
        for i, item in enumerate(value):
            yield from _encoded(item, f"{where}[{i}]", depth + 1)
    elif isinstance(value, set | frozenset):
        codes = sorted(b"".join(_encoded(item, f"an item of {where}", depth + 1)) for item in value)
        yield b"e%d:" % len(codes)
        yield from codes
    else:
        raise _refused(where, value)


def _number(value: Any) -> Any:
    """A float that is a whole number as that integer; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _encoded_array(array: np.ndarray[Any, Any], where: str, depth: int) -> Iterable[bytes]:
    mask = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    if mask is not None and mask.any():
        yield _part(b"m", np.packbits(mask).tobytes())
        array = np.where(mask, np.zeros((), array.dtype), np.asarray(array))
    array = _without_object_dtype(np.asarray(array))
    kind = array.dtype.kind
    yield _part(b"a", b"x".join(str(n).encode() for n in array.shape))
    if kind == "b":
        yield _part(b"b", np.packbits(array).tobytes())
    elif kind in "iuf" and (numbers := _plain_numbers(array)) is not None:
        yield _part(numbers.dtype.kind.encode(), numbers.tobytes())
    elif kind in "iufOSU":  # the width of a text is not content, and an object has its own
        for i, item in enumerate(array.ravel().tolist()):
            yield from _encoded(item, f"{where}[{i}]", depth + 1)
    else:
        raise _refused(where, array)


def _without_object_dtype(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of Python's own numbers, or of its truth values, as an array of theirs."""
    items = array.ravel().tolist() if array.dtype.kind == "O" else []
    if items and (all(type(item) is bool for item in items) or all(type(item) in (int, float) for item in items)):
        numbers = np.array(items).reshape(array.shape)
        return numbers if numbers.dtype.kind in "biuf" else array
    return array


def _plain_numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Numbers as int64 where all are whole, else as float64 with one zero and one NaN; None where that would round."""
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # a NaN of single precision
            floats = array.astype("<f8")
        if array.dtype.itemsize > 8 and not np.array_equal(floats.astype(array.dtype), array, equal_nan=True):
            return None
        if not (floats == np.floor(floats)).all() or np.isinf(floats).any():
            return np.where(np.isnan(floats), np.nan, floats + 0.0)
        return floats.astype("<i8") if (np.abs(floats) < _LARGEST).all() else None
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        return None
    return array.astype("<i8")


def _part(tag: bytes, content: bytes) -> bytes:
    return tag + b"%d:" % len(content) + content


def _refused(where: str, value: Any) -> ConfigError:
    what = (
        f"an array of {value.dtype}"
        if isinstance(value, np.ndarray)
        else f"{type(value).__name__}: {short_repr(value)}"
    )
    return ConfigError(
        f"{where} is {what}, which has no content to compare; give state_key=, a function (observation, info) -> "
        "numbers, texts, arrays, and lists and mappings of these"
    )


@dataclass(frozen=True)
class Rounded:
    """A state key for observations with floats: each is rounded to a number of decimals.

    Two floats that are nearly equal may still be rounded apart, and states that differ by less may be merged.

    Args:
        decimals: number of decimals, from 0 to 12.

    >>> Rounded(1)({"x": np.array([0.26, -0.04])}, {})
    {'x': array([3, 0])}
    """

    decimals: int

    def __post_init__(self) -> None:
        if type(self.decimals) is not int or not 0 <= self.decimals <= 12:
            raise ConfigError(f"decimals of Rounded must be an integer from 0 to 12, got {short_repr(self.decimals)}")

    def __call__(self, observation: Any, _info: Mapping[str, Any]) -> Any:
        """Return the observation with every float as an integer, in units of the last decimal.

        Raises:
            ConfigError: a float is not finite, or too large.
        """
        return self._rounded(observation, "the observation", 0)

    def _rounded(self, value: Any, where: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ConfigError(f"{where}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            return {key: self._rounded(item, f"{where}[{short_repr(key)}]", depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return tuple(self._rounded(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value))
        if isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            with np.errstate(over="ignore"):  # what is too large is refused below
                units = np.rint(np.asarray(value, np.float64) * 10.0**self.decimals)
            if not (np.abs(units) < _LARGEST).all():
                raise ConfigError(f"{where} has a float that is not finite, or too large for {self.decimals} decimals")
            return np.asarray(units, np.int64) if isinstance(value, np.ndarray) else int(units)
        return value
