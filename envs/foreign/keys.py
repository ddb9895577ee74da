"""State keys from content: equal content gives equal keys, on every machine and in every process.

Accepted are the values of which observations are made: integers, booleans, texts, bytes, None, NumPy arrays of integers,
booleans or texts, and lists, tuples, sets and mappings of these. An array's key is that of its bytes, shape and dtype. A
NumPy scalar is its number; a list is the tuple of its items. Floats are refused: two visits of one state rarely have equal
floats, so the keys of a group would all differ, and nothing would say so. ``Rounded`` rounds them on request.
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
    "int": int, "text": str, "bytes": bytes, "array": np.ndarray, "mapping": Mapping, "list": (list, tuple), "set": (set, frozenset)
}  # fmt: skip
_LARGEST: Final = 2.0**62  # a rounded number must fit int64


def content_key(value: Any, where: str = "the state") -> str:
    """Return the key of a value: printable, at most 64 characters.

    Args:
        value: content, as the module says.
        where: name of the value in messages.

    Raises:
        ConfigError: the content has a float, or an object of another type; the message names its place.

    >>> content_key(36), content_key("north"), content_key({"room": 3}) == content_key({"room": np.int64(3)})
    ('int:36', 'text:north', True)
    """
    encoded = b"".join(_encoded(value, where, 0))
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or plain is None:
        return str(plain).lower()
    kind = next(name for name, types in _KINDS.items() if isinstance(plain, types))
    readable = plain if kind == "text" else ""
    if kind == "int" and abs(plain) < 10**SHOWN:
        readable = str(int(plain))
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
    if value is None:
        yield b"n"
    elif isinstance(value, bool):
        yield b"b1" if value else b"b0"
    elif isinstance(value, int):
        yield _part(b"i", hex(int(value)).encode())
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


def _encoded_array(array: np.ndarray[Any, Any], where: str, depth: int) -> Iterable[bytes]:
    if array.dtype.kind not in "biuSU" or isinstance(array, np.ma.MaskedArray):
        raise _refused(where, array)
    yield _part(b"a", array.dtype.kind.encode() + b"x".join(str(n).encode() for n in array.shape))
    if array.dtype.kind in "SU":  # the width of a text array is not content
        for item in array.ravel().tolist():
            yield from _encoded(item, where, depth)
    else:
        yield _part(str(array.dtype.itemsize).encode(), array.astype(array.dtype.newbyteorder("<")).tobytes())


def _part(tag: bytes, content: bytes) -> bytes:
    return tag + b"%d:" % len(content) + content


def _refused(where: str, value: Any) -> ConfigError:
    array = isinstance(value, np.ndarray)
    if isinstance(value, float | complex) or (array and value.dtype.kind in "fc"):
        what = f"an array of {value.dtype}" if array else short_repr(value)
        return ConfigError(
            f"{where} is {what}: states are compared for equality, and floats of one state are rarely equal. Give "
            "state_key=, a function (observation, info) -> the part of the state that identifies it, or round: "
            "state_key='rounded:2', or Rounded(2) of creditflow.wrappers"
        )
    what = f"an array of {value.dtype}" if array else f"{type(value).__name__}: {short_repr(value)}"
    return ConfigError(
        f"{where} is {what}, which has no content to compare; give state_key=, a function (observation, info) -> "
        "integers, texts, arrays of integers, and lists and mappings of these"
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
