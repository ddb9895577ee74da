"""Trajectory logs: JSON Lines, one trajectory a line, plain or gzip, safe to read from strangers.

Format 1. A line is an object with ``format_version`` and the fields of ``Trajectory``; ``turns`` is a list of objects
with the fields of ``Turn``; fields at their default may be missing; the first line of a group may carry ``task``, the
payload. Text is escaped to ASCII, so lone surrogates survive; NaN and infinities are refused. Nothing is executed,
every value is type-checked, and length, depth and gzip ratio are capped.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import os
import reprlib
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from creditflow.envs.errors import TrajectoryError, unknown_name
from creditflow.wrappers.records import (
    NO_PROVENANCE,
    NO_VALUES,
    Group,
    Tokens,
    Trajectory,
    Turn,
    bucket_trajectories,
    group_trajectories,
)

__all__ = ["FORMAT_VERSION", "atomic_writer", "read_groups", "read_jsonl", "write_jsonl"]

FORMAT_VERSION = 1
MAX_LINE = 256 * 2**20  # characters; a long search episode with its pages is about 1 MB
MAX_DEPTH = 32  # of a task's payload; records themselves are 4 deep
MAX_GZIP_RATIO = 200  # logs compress 5 to 40 times
GZIP_SLACK = 64 * 2**20  # below this size a ratio is not suspicious

KEY_FIELDS = frozenset({"state_key", "next_state_key", "action", "text_key", "action_key", "invalid_reason"})
LONG_TEXTS = frozenset({"observation", "thought", "response"})


# -- decoding: every value is checked -----------------------------------------------------------------------------------
def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a string")
    return value


def _key(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a string")
    return sys.intern(value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("true or false")
    return value


def _int(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError("a 64-bit integer")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("a finite number")
    try:
        number = float(value)
    except OverflowError:  # JSON integers have no limit
        raise TypeError("a finite number") from None
    if not math.isfinite(number):
        raise TypeError("a finite number")
    return number


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list or not all(type(item) is str for item in value):
        raise TypeError("a list of strings")
    return tuple(value)


def _values(value: Any) -> Mapping[str, float]:
    if type(value) is not dict:
        raise TypeError("an object of numbers")
    return {sys.intern(name): _number(number) for name, number in value.items()} or NO_VALUES


def _named_texts(value: Any) -> Mapping[str, str]:
    if type(value) is not dict or not all(type(text) is str for text in value.values()):
        raise TypeError("an object of strings")
    return {sys.intern(name): sys.intern(text) for name, text in value.items()} or NO_PROVENANCE


def _ints(value: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    if type(value) is not list or not all(type(item) is int and -(2**31) <= item < 2**31 for item in value):
        raise TypeError("a list of 32-bit integers")
    return np.array(value, np.int32)


def _bits(value: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if type(value) is not list or not all(type(item) is int and item in (0, 1) for item in value):
        raise TypeError("a list of 0 and 1")
    return np.array(value, np.bool_)


def _logprobs(value: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    numbers = np.array([_number(item) for item in value] if type(value) is list else [np.inf], np.float64)
    if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise TypeError("a list of 32-bit numbers")
    return numbers.astype(np.float32)


def _prompts(value: Any) -> tuple[np.ndarray[Any, np.dtype[np.int32]], ...]:
    if type(value) is not list:
        raise TypeError("a list of lists of 32-bit integers")
    return tuple(_ints(prompt) for prompt in value)


def _token_values(value: Any) -> Mapping[str, np.ndarray[Any, np.dtype[np.float32]]]:
    if type(value) is not dict:
        raise TypeError("an object of lists of 32-bit numbers")
    return {sys.intern(name): _logprobs(numbers) for name, numbers in value.items()}


def _tokens(value: Any) -> Tokens | None:
    return None if value is None else Tokens(**_decode(value, "tokens", _TOKENS, _TOKENS_REQUIRED, ()))


_BY_ANNOTATION: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "StopReason": _text,
    "bool": _flag,
    "int": _int,
    "float": _number,
    "tuple[str, ...]": _texts,
    "Mapping[str, float]": _values,
    "Mapping[str, str]": _named_texts,
    "Tokens | None": _tokens,
}


def _decoders(kind: type) -> dict[str, Callable[[Any], Any]]:
    return {
        f.name: _key if f.name in KEY_FIELDS else _BY_ANNOTATION[str(f.type)] for f in fields(kind) if f.name != "turns"
    }


_TURN, _TRAJECTORY = _decoders(Turn), _decoders(Trajectory)
_TOKENS: dict[str, Callable[[Any], Any]] = {
    "ids": _ints,
    "mask": _bits,
    "logprobs": _logprobs,
    "turn_offsets": _ints,
    "prompts": _prompts,
    "policy_version": _text,
    "values": _token_values,
}
_TOKENS_REQUIRED = {"ids", "mask", "logprobs", "turn_offsets"}


def _defaults(kind: type) -> dict[str, Any]:
    """Default of each field; MISSING if it has none."""
    return {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(kind)}


_TURN_DEFAULTS, _TRAJECTORY_DEFAULTS = _defaults(Turn), _defaults(Trajectory)
_TURN_REQUIRED = {name for name, default in _TURN_DEFAULTS.items() if default is MISSING}
_TRAJECTORY_REQUIRED = {name for name, default in _TRAJECTORY_DEFAULTS.items() if default is MISSING} - {"turns"}


def _decode(
    data: Any,
    what: str,
    decoders: Mapping[str, Callable[[Any], Any]],
    required: Collection[str],
    skip: Collection[str],
) -> dict[str, Any]:
    if type(data) is not dict:
        raise TrajectoryError(f"{what}: expected an object, got {type(data).__name__}")
    out: dict[str, Any] = {}
    for name, value in data.items():
        decode = decoders.get(name)
        if decode is None:
            raise TrajectoryError(f"{what}: {unknown_name('field', name[:60], decoders)}")
        if name in skip:
            continue
        try:
            out[name] = decode(value)
        except TypeError as error:
            raise TrajectoryError(f"{what}: {name} must be {error}, got {_shown(value)}") from None
    missing = [name for name in required if name not in out]
    if missing:
        raise TrajectoryError(f"{what}: missing {', '.join(sorted(missing))}")
    return out


def _shown(value: Any) -> str:
    """A short form of any value, however long or deep."""
    return reprlib.repr(value)


def _check_payload(task: Any) -> Mapping[str, Any] | None:
    """A task's payload as it came, if it is an object of finite numbers, not too deep."""
    if task is None:
        return None
    if type(task) is not dict:
        raise TrajectoryError(f"task must be an object, got {_shown(task)}")
    level: list[Any] = [task]
    for _ in range(MAX_DEPTH):
        if any(type(item) is float and not math.isfinite(item) for item in level):
            raise TrajectoryError("task holds a number that is not finite")
        level = [x for item in level if type(item) is dict for x in item.values()] + [
            x for item in level if type(item) is list for x in item
        ]
        if not level:
            return task
    raise TrajectoryError(f"task is nested deeper than {MAX_DEPTH} levels")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that logs may hold")


def _decode_line(line: str, skip: Collection[str]) -> tuple[Trajectory, Mapping[str, Any] | None]:
    try:
        data = json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        raise TrajectoryError("nested too deeply") from None
    except ValueError as error:
        raise TrajectoryError(f"not JSON: {error}") from None
    if type(data) is not dict:
        raise TrajectoryError(f"expected an object, got {type(data).__name__}")
    version = data.pop("format_version", None)
    if version != FORMAT_VERSION or type(version) is not int:
        raise TrajectoryError(
            f"format_version is {_shown(version)}, this reader knows {FORMAT_VERSION}; is this a creditflow trajectory log?"
        )
    task, turns = _check_payload(data.pop("task", None)), data.pop("turns", None)
    if type(turns) is not list:
        raise TrajectoryError(f"turns must be a list, got {_shown(turns)}")
    decoded = tuple(Turn(**_decode(turn, f"turn {t}", _TURN, _TURN_REQUIRED, skip)) for t, turn in enumerate(turns))
    rest = _decode(data, "trajectory", _TRAJECTORY, _TRAJECTORY_REQUIRED, skip)
    return Trajectory(turns=decoded, **rest), task


# -- reading ------------------------------------------------------------------------------------------------------------
class _CappedGzip(io.RawIOBase):
    """Decompresses while refusing archives that blow up."""

    def __init__(self, path: Path) -> None:
        self._packed = path.stat().st_size
        self._file = gzip.open(path, "rb")  # noqa: SIM115 - closed in close()
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer))
        self._count += len(chunk)
        if self._count > GZIP_SLACK and self._count > MAX_GZIP_RATIO * self._packed:
            raise TrajectoryError(
                f"unpacks to more than {MAX_GZIP_RATIO} times its size: not a trajectory log, or a hostile one"
            )
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def _open_text(source: str | os.PathLike[str] | IO[str]) -> Iterator[tuple[IO[str], str]]:
    if hasattr(source, "read"):
        yield source, getattr(source, "name", "<stream>")  # type: ignore[misc]  # narrowed by hasattr
        return
    path = Path(source)
    if path.is_dir():
        raise TrajectoryError(f"{path}: is a folder, expected a .jsonl or .jsonl.gz file")
    if not path.exists():
        raise TrajectoryError(f"{path}: no such file")
    if path.suffix == ".gz" and not path.stat().st_size:
        raise TrajectoryError(f"{path}: line 0: an empty file is no gzip archive: was it cut short?")
    raw: Any = io.BufferedReader(_CappedGzip(path), 2**20) if path.suffix == ".gz" else path.open("rb")
    with io.TextIOWrapper(raw, encoding="utf-8", errors="strict", newline="\n") as stream:
        yield stream, str(path)


def _records(
    source: str | os.PathLike[str] | IO[str], skip: Collection[str]
) -> Iterator[tuple[Trajectory, Mapping[str, Any] | None, str]]:
    """Trajectories, the payloads beside them, and where they stand: "file: line n"."""
    with _open_text(source) as (stream, name):
        number = 0
        try:
            while True:
                line = stream.readline(MAX_LINE + 1)
                if not line:
                    return
                number += 1
                if len(line) > MAX_LINE:
                    raise TrajectoryError(f"line longer than {MAX_LINE} characters")
                if line.isspace():
                    continue
                if not line.endswith("\n"):
                    try:  # the last line may lack its newline, but must be whole
                        decoded = _decode_line(line, skip)
                    except TrajectoryError as error:
                        raise TrajectoryError(f"{error} (the file ends here: was it cut short?)") from None
                else:
                    decoded = _decode_line(line, skip)
                yield *decoded, f"{name}: line {number}"
        except TrajectoryError as error:
            raise TrajectoryError(f"{name}: line {number}: {error}") from None
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TrajectoryError(f"{name}: after line {number}: not UTF-8 text or damaged gzip: {error}") from None


def read_jsonl(
    source: str | os.PathLike[str] | IO[str], *, fields: Collection[str] | None = None
) -> Iterator[Trajectory]:
    """The trajectories of a log, one by one.

    Args:
        source: a path (gzip if it ends in ``.gz``) or an open text stream.
        fields: which long texts to keep, of "observation", "thought", "response"; None keeps all. Keys are interned,
            so without texts a million turns take a few hundred megabytes.

    Raises:
        TrajectoryError: naming the file and the line.
    """
    for trajectory, _, _ in _records(source, _skipped(fields)):
        yield trajectory


def read_groups(
    source: str | os.PathLike[str] | IO[str],
    *,
    by: Literal["group", "task"] = "group",
    fields: Collection[str] | None = None,
) -> list[Group]:
    """The groups of a log, in order of first appearance.

    Args:
        source, fields: as for ``read_jsonl``.
        by: "group" (``group_id``) or "task" (all rollouts of one task together).

    Raises:
        TrajectoryError: naming the file and the line, or the group that does not fit together.
    """
    tasks: dict[str, Mapping[str, Any]] = {}
    trajectories = []
    places: dict[tuple[str, int, str], str] = {}
    for trajectory, task, place in _records(source, _skipped(fields)):
        trajectories.append(trajectory)
        if task is not None:
            tasks[trajectory.task_id] = task
        name = (trajectory.group_id, trajectory.trial, trajectory.trajectory_id)
        if name in places:
            raise TrajectoryError(
                f"{place}: group {name[0]!r} has a trajectory {name[2]!r} already ({places[name]}); "
                "was a log appended to itself?"
            )
        places[name] = place
    return _grouped(trajectories, by, tasks, places)


def _grouped(
    trajectories: list[Trajectory],
    by: Literal["group", "task"],
    tasks: Mapping[str, Mapping[str, Any]],
    places: Mapping[tuple[str, int, str], str],
) -> list[Group]:
    """``group_trajectories``, whose errors also say where the trouble stands."""
    first: dict[str, str] = {}
    for (group_id, _, _), place in places.items():
        first.setdefault(group_id, place)
    groups = []
    for members in bucket_trajectories(trajectories, by):
        try:
            groups += group_trajectories(members, by, tasks)
        except TrajectoryError as error:
            raise TrajectoryError(f"{first[members[0].group_id]} and after: {error}") from None
    return groups


def _skipped(keep: Collection[str] | None) -> frozenset[str]:
    if keep is None:
        return frozenset()
    for name in keep:
        if name not in LONG_TEXTS:
            raise unknown_name("text field", name, LONG_TEXTS)
    return LONG_TEXTS - set(keep)


# -- writing ------------------------------------------------------------------------------------------------------------
def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _encode_turn(turn: Turn) -> dict[str, Any]:
    return {
        name: _plain(value)
        for name, default in _TURN_DEFAULTS.items()
        if (value := getattr(turn, name)) is not default and value != default
    }


def _encode(trajectory: Trajectory, task: Mapping[str, Any] | None) -> str:
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
            data["tokens"]["values"] = {name: values.tolist() for name, values in tokens.values.items()}
    try:
        return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError) as error:
        raise TrajectoryError(f"trajectory {trajectory.trajectory_id!r} cannot be written: {error}") from None


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text stream whose file appears under its name only when the block ends without error (gzip for ``.gz``)."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as raw:
            # no name and no time inside: equal logs give equal bytes
            packed: Any = (
                gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)
                if path.suffix == ".gz"
                else raw
            )
            with io.TextIOWrapper(packed, encoding="ascii", newline="\n") as stream:
                yield stream
                stream.flush()
            if not raw.closed:
                raw.flush()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_jsonl(target: str | os.PathLike[str] | IO[str], items: Iterable[Trajectory | Group]) -> int:
    """Write trajectories or whole groups, one trajectory a line; returns how many.

    A path appears only once everything is written. Groups also write their task payload, on their first line.

    Raises:
        TrajectoryError: a value that JSON cannot hold.
    """
    if not hasattr(target, "write"):
        with atomic_writer(target) as stream:
            return write_jsonl(stream, items)
    count = 0
    for item in items:
        members = item.trajectories if isinstance(item, Group) else (item,)
        task = item.task if isinstance(item, Group) else None
        for trajectory in members:
            target.write(_encode(trajectory, task) + "\n")
            task = None
            count += 1
    return count
