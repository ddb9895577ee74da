"""Encode a trajectory as one line of a log, and decode it: format 1.

Nothing is executed; every value of a line is type-checked and the depth is limited. The decoders are our own, over ``json``:
msgspec and orjson reject lone surrogates, which models write, and suggest no near field name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np

from creditflow.envs.errors import DataError, TrajectoryError, short_repr, unknown_name_error
from creditflow.envs.reading.json_text import decode_json
from creditflow.envs.reading.limits import MAX_LINE, Limits
from creditflow.envs.reading.plain_data import check_plain
from creditflow.wrappers.records import jsonl_values as checked
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["FORMAT_VERSION", "LONG_TEXTS", "decode_line", "encode_line"]

FORMAT_VERSION = 1
PAYLOAD_LIMITS = Limits(depth=32)  # records themselves have depth 4

KEY_FIELDS = frozenset({"state_key", "next_state_key", "action", "text_key", "action_key", "invalid_reason"})
LONG_TEXTS = frozenset({"observation", "thought", "response"})


def _tokens(value: Any) -> Tokens | None:
    return None if value is None else Tokens(**_decode(value, "tokens", _TOKENS, _TOKENS_REQUIRED, ()))


_BY_ANNOTATION: dict[str, Callable[[Any], Any]] = {
    "str": checked.string,
    "StopReason": checked.string,
    "bool": checked.boolean,
    "int": checked.integer,
    "float": checked.number,
    "tuple[str, ...]": checked.strings,
    "Mapping[str, float]": checked.values,
    "Mapping[str, str]": checked.string_map,
    "Tokens | None": _tokens,
}


def _decoders(kind: type) -> dict[str, Callable[[Any], Any]]:
    return {
        f.name: checked.key if f.name in KEY_FIELDS else _BY_ANNOTATION[str(f.type)]
        for f in fields(kind)
        if f.name != "turns"
    }


_TURN, _TRAJECTORY = _decoders(Turn), _decoders(Trajectory)
_TOKENS: dict[str, Callable[[Any], Any]] = {
    "ids": checked.int32_list,
    "mask": checked.bool_list,
    "logprobs": checked.logprobs,
    "turn_offsets": checked.int32_list,
    "prompts": checked.prompts,
    "policy_version": checked.string,
    "values": checked.token_values,
}
_TOKENS_REQUIRED = {"ids", "mask", "logprobs", "turn_offsets"}


def _defaults(kind: type) -> dict[str, Any]:
    """Return the default of each field; MISSING if it has none."""
    return {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(kind)}


_TURN_DEFAULTS, _TRAJECTORY_DEFAULTS = _defaults(Turn), _defaults(Trajectory)
_TURN_REQUIRED = {name for name, default in _TURN_DEFAULTS.items() if default is MISSING}
_TRAJECTORY_REQUIRED = {name for name, default in _TRAJECTORY_DEFAULTS.items() if default is MISSING} - {"turns"}


def _decode(
    data: Any,
    subject: str,
    decoders: Mapping[str, Callable[[Any], Any]],
    required: Set[str],
    skip: Collection[str],
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
