"""Elements of Gymnasium spaces as text, and back: one text for equal actions, in every log.

A text is an action of any ``Text`` space with room for it, whatever its characters. Graphs and stacked sequences have no such text here: an environment with such actions is refused (``check_action_space``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import numpy as np
from gymnasium import Space, spaces

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.spaces import TextSpace

__all__ = ["MAX_LISTED", "action_text", "check_action_space", "listed_actions", "read_action", "shown_text"]

MAX_LISTED: Final = 256  # of a larger space no actions are listed
MAX_SHOWN: Final = 2_000  # characters of an observation in a prompt
_KINDS: Final = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}  # kinds of numbers that an array of each kind takes
# a string is never an element of these; Box would warn that it casts it before it said so
_NUMERIC: Final = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def check_action_space(space: Space[Any]) -> None:
    """Check that the actions of a space can be written as text.

    Raises:
        ConfigError: graphs or stacked sequences are among its parts.
    """
    if isinstance(space, spaces.Graph) or (isinstance(space, spaces.Sequence) and space.stack):
        raise ConfigError(
            f"actions of {_named(space)} cannot be written as text; give the environment another action space, with "
            "gymnasium.wrappers.TransformAction"
        )
    if isinstance(space, spaces.Sequence):
        check_action_space(space.feature_space)
    elif isinstance(space, spaces.Tuple | spaces.Dict | spaces.OneOf):
        for subspace in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            check_action_space(subspace)


def action_text(action: Any) -> str:
    """Return the text of an element that ``read_action`` returned: a text itself, anything else as JSON.

    >>> action_text(np.int64(3)), action_text({"b": np.array([0.5, -0.0]), "a": "go"}), action_text("go")
    ('3', '{"a":"go","b":[0.5,0.0]}', 'go')
    """
    if isinstance(action, str):
        return action
    return json.dumps(_plain(action), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def shown_text(observation: Any) -> str | None:
    """Return an observation as JSON, floats to four digits; None if it has more than ``MAX_SHOWN`` characters, as pictures have.

    >>> shown_text(np.int64(3)), shown_text({"at": np.array([0.123456, 2]), "held": ()}), shown_text(np.zeros((99, 99)))
    ('3', '{"at":[0.1235,2.0],"held":[]}', None)
    """
    if isinstance(observation, np.ndarray) and observation.size > MAX_SHOWN:
        return None
    text = json.dumps(_to_digits(_plain(observation)), sort_keys=True, separators=(",", ":"))
    return text if len(text) <= MAX_SHOWN else None


def _to_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _to_digits(item) for name, item in value.items()}
    return [_to_digits(item) for item in value] if isinstance(value, list) else value


def read_action(space: Space[Any], action: Any) -> Any:
    """Return the element of a space that an action, or its text, stands for.

    Args:
        space: the action space.
        action: an element (plain numbers and lists will do for arrays), or its text as ``action_text`` writes it.

    Raises:
        ValueError: it is none; the message says why.
    """
    numeric, text = isinstance(space, _NUMERIC), isinstance(space, spaces.Text)
    if isinstance(action, str) and not text and (numeric or not _contains(space, action)):
        try:
            action = json.loads(action)
        except (ValueError, RecursionError):
            raise ValueError(f"not an element of {_named(space)}, nor its JSON") from None
    return _element(space, action, "the action")


def listed_actions(space: Space[Any]) -> tuple[str, ...]:
    """Return the texts of all actions in a fixed order, of a ``TextSpace`` its samples; () for any other large or infinite space."""
    if isinstance(space, TextSpace):
        return tuple(text for text in space.samples if text)[:MAX_LISTED]
    elements = _elements(space)
    return () if elements is None else tuple(action_text(action) for action in elements)


def _element(space: Space[Any], value: Any, where: str) -> Any:
    """Return a value as an element of the space, or raise ValueError."""
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, list | tuple) or len(value) != len(space.spaces):
            raise ValueError(f"{where} must have {len(space.spaces)} parts")
        return tuple(_element(s, v, f"{where}[{i}]") for i, (s, v) in enumerate(zip(space.spaces, value, strict=True)))
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            raise ValueError(f"{where} must have the keys {', '.join(map(repr, sorted(space.spaces)))}")
        return {name: _element(subspace, value[name], f"{where}[{name!r}]") for name, subspace in space.spaces.items()}
    if isinstance(space, spaces.Sequence):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where} must be a list")
        return tuple(_element(space.feature_space, item, f"{where}[{i}]") for i, item in enumerate(value))
    if isinstance(space, spaces.OneOf):
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"{where} must have 2 parts, the number of a space and its element")
        number = _element(spaces.Discrete(len(space.spaces)), value[0], f"{where}[0]")
        return number, _element(space.spaces[number], value[1], f"{where}[1]")
    if isinstance(space, spaces.Discrete):
        if isinstance(value, np.ndarray) and value.shape == ():
            value = value[()]
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise ValueError(f"{where} must be an integer of {space}")
        value = np.int64(value) if -(2**63) <= value < 2**63 else value
    elif isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        value = _array(space, value, where)
    elif isinstance(
        space, spaces.Text
    ):  # by default its characters lack the space, so that no sentence would be an element
        if not isinstance(value, str) or not space.min_length <= len(value) <= space.max_length:
            raise ValueError(f"{where} must be a text of {space.min_length} to {space.max_length} characters")
        return value
    if not _contains(space, value):
        raise ValueError(f"{where} is not an element of {_named(space)}")
    return value


def _named(space: Space[Any]) -> str:
    """A space for a message; the text of one may have thousands of characters."""
    return short_repr(space, 120)


def _array(space: Space[Any], value: Any, where: str) -> np.ndarray[Any, Any]:
    dtype = np.dtype(space.dtype)
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{where} is not an array") from None
    if array.dtype.kind not in _KINDS.get(dtype.kind, dtype.kind) or array.shape != space.shape:
        raise ValueError(f"{where} must be an array of {dtype} of shape {space.shape}")
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, array):
        raise ValueError(f"{where} has a number that {dtype} cannot represent")
    return cast


def _contains(space: Space[Any], value: Any) -> bool:
    try:
        return bool(space.contains(value))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ):  # of a space that expects a certain type
        return False


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value + 0.0  # one zero, not two
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int) or value is None else repr(value)


def _elements(space: Space[Any]) -> list[Any] | None:
    """All elements of a small finite space; None for any other."""
    if isinstance(space, spaces.Discrete):
        return None if space.n > MAX_LISTED else [space.start + i for i in range(int(space.n))]
    if isinstance(space, spaces.MultiDiscrete):
        ranges = [range(int(a), int(a) + int(n)) for a, n in zip(space.start.ravel(), space.nvec.ravel(), strict=True)]
        return _arrays(space, ranges)
    if isinstance(space, spaces.MultiBinary):
        return _arrays(space, [range(2)] * int(np.prod(space.shape)))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        subspaces = list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)
        lists = [_elements(subspace) for subspace in subspaces]
        finite = [elements for elements in lists if elements is not None]
        if len(finite) < len(lists) or _count(finite) > MAX_LISTED:
            return None
        if isinstance(space, spaces.Dict):
            return [dict(zip(space.spaces, items, strict=True)) for items in product(*finite)]
        return list(product(*finite))
    return None


def _arrays(space: Space[Any], ranges: list[range]) -> list[Any] | None:
    if _count(ranges) > MAX_LISTED:
        return None
    return [np.array(numbers, space.dtype).reshape(space.shape) for numbers in product(*ranges)]


def _count(parts: list[Any]) -> int:
    total = 1
    for elements in parts:
        total *= len(elements)
        if total > MAX_LISTED:
            break
    return total
