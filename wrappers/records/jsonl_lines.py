"""Encode a trajectory as one line of a log, and decode it: format 1.

Nothing is executed; every value of a line is type-checked and the depth is limited. The decoders are our own, over ``json``:
msgspec and orjson reject lone surrogates, which models write, and suggest no near field name.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np

from creditflow.envs.errors import DataError, TrajectoryError, short_repr, unknown_name_error
from creditflow.envs.reading.json_text import decode_json
from creditflow.envs.reading.limits import MAX_LINE, Limits
from creditflow.envs.reading.plain_data import check_plain
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import NO_PROVENANCE, NO_VALUES, Trajectory, Turn

__all__ = ["FORMAT_VERSION", "LONG_TEXTS", "decode_line", "encode_line", "int32_list"]

FORMAT_VERSION = 1
PAYLOAD_LIMITS = Limits(depth=32)  # records themselves have depth 4

KEY_FIELDS = frozenset({"state_key", "next_state_key", "action", "text_key", "action_key", "invalid_reason"})
LONG_TEXTS = frozenset({"observation", "thought", "response"})


# ---- each takes any value and returns it as its type, or raises TypeError with the expected type; the caller adds field and line ----


def string(value: Any) -> str:
    """A string."""
    if type(value) is not str:
        raise TypeError("a string")
    return value


def recurring_string(value: Any) -> str:
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


def numbers_by_name(value: Any) -> Mapping[str, float]:
    """An object of finite numbers, with interned names."""
    if type(value) is not dict:
        raise TypeError("an object of numbers")
    return {sys.intern(name): number(item) for name, item in value.items()} or NO_VALUES


def strings_by_name(value: Any) -> Mapping[str, str]:
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


# ---- a line ----


def _tokens(value: Any) -> Tokens | None:
    return None if value is None else Tokens(**_decode(value, "tokens", _TOKENS, _TOKENS_REQUIRED, ()))


_BY_ANNOTATION: dict[str, Callable[[Any], Any]] = {
    "str": string,
    "StopReason": string,
    "bool": boolean,
    "int": integer,
    "float": number,
    "tuple[str, ...]": strings,
    "Mapping[str, float]": numbers_by_name,
    "Mapping[str, str]": strings_by_name,
    "Tokens | None": _tokens,
}


def _decoders(kind: type) -> dict[str, Callable[[Any], Any]]:
    return {
        f.name: recurring_string if f.name in KEY_FIELDS else _BY_ANNOTATION[str(f.type)]
        for f in fields(kind)
        if f.name != "turns"
    }


_TURN, _TRAJECTORY = _decoders(Turn), _decoders(Trajectory)
_TOKENS: dict[str, Callable[[Any], Any]] = {
    "ids": int32_list,
    "mask": bool_list,
    "logprobs": logprobs,
    "turn_offsets": int32_list,
    "prompts": prompts,
    "policy_version": string,
    "values": token_values,
}
_TOKENS_REQUIRED = {"ids", "mask", "logprobs", "turn_offsets"}


def _defaults(kind: type) -> dict[str, Any]:
    """Return the default of each field; MISSING if it has none."""
    return {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(kind)}


_TURN_DEFAULTS, _TRAJECTORY_DEFAULTS = _defaults(Turn), _defaults(Trajectory)
_TURN_REQUIRED = {name for name, default in _TURN_DEFAULTS.items() if default is MISSING}
_TRAJECTORY_REQUIRED = {name for name, default in _TRAJECTORY_DEFAULTS.items() if default is MISSING} - {"turns"}


def _decode(
    data: Any, subject: str, decoders: Mapping[str, Callable[[Any], Any]], required: Set[str], skip: Collection[str]
) -> dict[str, Any]:
    if type(data) is not dict:
        raise TrajectoryError(f"{subject}: expected an object, got {type(data).__name__}")
    out: dict[str, Any] = {}
    for name, value in data.items():
        decode = decoders.get(name)
        if decode is None:
            raise TrajectoryError(f"{subject}: {unknown_name_error('field', name[:60], decoders)}")
        if skip and name in skip:
            continue
        try:
            out[name] = decode(value)
        except TypeError as error:
            raise TrajectoryError(f"{subject}: {name} must be {error}, got {short_repr(value)}") from None
    if not required <= out.keys():
        raise TrajectoryError(f"{subject}: missing {', '.join(sorted(required - out.keys()))}")
    return out


def _check_payload(task: Any) -> Mapping[str, Any] | None:
    """Return a task's payload, checked: an object within ``PAYLOAD_LIMITS``."""
    if task is None:
        return None
    if type(task) is not dict:
        raise TrajectoryError(f"task must be an object, got {short_repr(task)}")
    try:
        check_plain(task, PAYLOAD_LIMITS, "task")
    except DataError as error:
        raise TrajectoryError(str(error)) from None
    return task


def decode_line(line: str, skip: Collection[str]) -> tuple[Trajectory, Mapping[str, Any] | None]:
    """Decode a trajectory, and the task's payload if the line has one.

    Args:
        line: JSON text.
        skip: long texts of turns to leave out.

    Raises:
        TrajectoryError: the line is malformed.
    """
    try:
        data = decode_json(line)
    except ValueError as error:
        raise TrajectoryError(f"not JSON: {error}") from None
    if type(data) is not dict:
        raise TrajectoryError(f"expected an object, got {type(data).__name__}")
    version = data.pop("format_version", None)
    if version != FORMAT_VERSION or type(version) is not int:
        raise TrajectoryError(
            f"format_version is {short_repr(version)}, expected {FORMAT_VERSION}. Is this a creditflow log? Convert other logs with `creditflow data import`"
        )
    task, turns = _check_payload(data.pop("task", None)), data.pop("turns", None)
    if type(turns) is not list:
        raise TrajectoryError(f"turns must be a list, got {short_repr(turns)}")
    decoded = tuple(Turn(**_decode(turn, f"turn {t}", _TURN, _TURN_REQUIRED, skip)) for t, turn in enumerate(turns))
    rest = _decode(data, "trajectory", _TRAJECTORY, _TRAJECTORY_REQUIRED, skip)
    return Trajectory(turns=decoded, **rest), task


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _encode_turn(turn: Turn) -> dict[str, Any]:
    return {
        name: _plain(value)
        for name, default in _TURN_DEFAULTS.items()
        if (value := getattr(turn, name)) is not default and value != default
    }


def encode_line(trajectory: Trajectory, task: Mapping[str, Any] | None) -> str:
    """Encode a trajectory, with ``task`` if given, as a line without newline.

    Raises:
        TrajectoryError: JSON cannot represent a value, or the line is too long to be read.
    """
    data: dict[str, Any] = {"format_version": FORMAT_VERSION}
    for name, default in _TRAJECTORY_DEFAULTS.items():
        if name in ("turns", "tokens"):
            continue
        value = getattr(trajectory, name)
        if default is MISSING or value != default:
            data[name] = _plain(value)
    if task:
        data["task"] = _plain(task)
    data["turns"] = [_encode_turn(turn) for turn in trajectory.turns]
    if trajectory.tokens is not None:
        tokens = trajectory.tokens
        data["tokens"] = {
            "ids": tokens.ids.tolist(),
            "mask": tokens.mask.astype(np.int8).tolist(),
            "logprobs": tokens.logprobs.tolist(),
            "turn_offsets": tokens.turn_offsets.tolist(),
            "prompts": [prompt.tolist() for prompt in tokens.prompts],
            "policy_version": tokens.policy_version,
        }
        if tokens.values:
            data["tokens"]["values"] = {name: numbers.tolist() for name, numbers in tokens.values.items()}
    try:
        line = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise TrajectoryError(f"trajectory {trajectory.trajectory_id!r} cannot be written: {error}") from None
    if len(line) >= MAX_LINE:  # no reader accepts it
        raise TrajectoryError(
            f"trajectory {trajectory.trajectory_id!r} cannot be written: a line of {len(line):,} characters, at most "
            f"{MAX_LINE:,} are read"
        )
    _require_readable(line, trajectory)
    return line


def _require_readable(line: str, trajectory: Trajectory) -> None:
    """Raise TrajectoryError unless the line is read as the trajectory: one line that is not would make a log unreadable.

    The fields are annotated, and not checked when a record is made, since that would slow every environment step.
    """
    name = f"trajectory {trajectory.trajectory_id!r} cannot be written, because it could not be read"
    try:
        decoded, _ = decode_line(line, ())
    except TrajectoryError as error:
        raise TrajectoryError(f"{name}: {error}") from None
    written = trajectory if trajectory.tokens is None else replace(trajectory, tokens=decoded.tokens)
    if decoded != written:
        names = [f.name for f in fields(Trajectory) if getattr(decoded, f.name) != getattr(written, f.name)]
        raise TrajectoryError(f"{name} as it is: {', '.join(names)} would change")
