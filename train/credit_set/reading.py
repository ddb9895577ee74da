"""Read a credit set: every field that scoring needs is checked; the others are ignored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading import checked
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.train.credit_set.settings import RECORD_VERSION
from creditflow.train.run.digest import file_digest

__all__ = [
    "FORMAT",
    "CreditTurn",
    "ValuedAction",
    "header_settings",
    "open_credit_set",
    "read_credit_set",
    "read_header",
]

FORMAT: Final = "creditflow-credit-set"
SAMPLE: Final = "sample-v1.jsonl.gz"
MAX_RECORD: Final = 2**22  # characters of a line
MAX_TURNS: Final = 2_000_000
MAX_ALTERNATIVES: Final = 1_000


@dataclass(frozen=True, slots=True)
class ValuedAction:
    """An action with its value.

    Attributes:
        text: the action.
        q, standard_error: Q^π and its standard error (0.0: exact).
        halves: Q^π estimated from each half of the continuations.
        distance: the oracle's distance after the action; inf in a dead state.
    """

    text: str
    q: float
    standard_error: float
    halves: tuple[float, float]
    distance: float


@dataclass(frozen=True, slots=True)
class CreditTurn:
    """The fields of a record that scoring needs.

    Attributes:
        turn_id, env, task_id, policy: names.
        turn, turns_left: number of the turn; turns left, this one included.
        forks: K, continuations per value; 0 if values are exact.
        prompt_length: characters of the prompt.
        taken: the action taken.
        alternatives: other actions in the same state.
        v, v_error, v_halves: V^π, as in ``ValuedAction``.
        distance: the oracle's distance before the action.
    """

    turn_id: str
    env: str
    task_id: str
    policy: str
    turn: int
    turns_left: int
    forks: int
    prompt_length: int
    taken: ValuedAction
    alternatives: tuple[ValuedAction, ...]
    v: float
    v_error: float
    v_halves: tuple[float, float]
    distance: float


def header_settings(first: Any, where: str) -> dict[str, Any]:
    """The settings in the first line of a credit set.

    Raises:
        DataError: it is not the first line of a credit set of this version.
    """
    if not isinstance(first, dict) or first.get("format") != FORMAT or not isinstance(first.get("settings"), dict):
        raise DataError(f"{where}: not a credit set: its first line must be an object of format {FORMAT!r}")
    if first.get("version") != RECORD_VERSION:
        raise DataError(
            f"{where}: expected a credit set of version {RECORD_VERSION}, got version {short_repr(first.get('version'))}; build it "
            "again with creditflow data build credit-set"
        )
    settings: dict[str, Any] = first["settings"]
    return settings


def read_header(path: str | Path) -> dict[str, Any]:
    """The settings of a credit set.

    Raises:
        DataError: not a credit set.
    """
    _, first = next(read_json_lines(path, longest=MAX_RECORD), ("", None))
    return header_settings(first, str(path))


def read_credit_set(path: str | Path) -> Iterator[CreditTurn]:
    """Yield the turns of a credit set.

    Raises:
        DataError: not a credit set, a malformed field, a repeated turn, or too many turns; the message names file and line.
    """
    lines = read_json_lines(path, longest=MAX_RECORD)
    where, first = next(lines, (str(path), None))
    header_settings(first, where)
    seen = set[str]()
    for where, record in lines:
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected an object, got {short_repr(record)}")
        turn = _turn(record, where)
        if turn.turn_id in seen:
            raise DataError(f"{where}: the turn {short_repr(turn.turn_id)} occurs twice")
        if len(seen) == MAX_TURNS:
            raise DataError(f"{where}: a credit set may have at most {MAX_TURNS:,} turns; split it")
        seen.add(turn.turn_id)
        yield turn


def open_credit_set(path: str | Path | None) -> tuple[dict[str, str], list[CreditTurn]]:
    """Open a credit set; returns its name and digest, and its turns. ``None`` opens the embedded sample.

    Raises:
        DataError: not a credit set, or one without turns.
    """
    with nullcontext(path) if path is not None else as_file(files("creditflow.assets") / "credit_set" / SAMPLE) as file:
        turns = list(read_credit_set(file))
        if not turns:
            raise DataError(f"{file}: the credit set has no turns")
        return {"name": Path(file).name, "digest": file_digest(str(file))}, turns


def _turn(record: dict[str, Any], where: str) -> CreditTurn:
    alternatives = checked.items(record.get("alternatives"), f"{where}: alternatives", MAX_ALTERNATIVES)
    if not alternatives:
        raise DataError(f"{where}: alternatives must have at least one action")

    def text(name: str) -> str:
        return checked.text(record.get(name), f"{where}: {name}")

    def integer(name: str) -> int:
        return checked.integer(record.get(name), f"{where}: {name}")

    return CreditTurn(
        turn_id=text("turn_id"),
        env=text("env"),
        task_id=text("task_id"),
        policy=text("policy"),
        turn=integer("turn"),
        turns_left=integer("turns_left"),
        forks=integer("forks"),
        prompt_length=len(text("prompt")),
        taken=_action(record, where),
        alternatives=tuple(_action(action, f"{where}: alternative {n}") for n, action in enumerate(alternatives)),
        v=_fraction(record.get("v"), f"{where}: v"),
        v_error=_fraction(record.get("v_error"), f"{where}: v_error"),
        v_halves=_halves(record.get("v_halves"), f"{where}: v_halves"),
        distance=_distance(record.get("distance"), f"{where}: distance"),
    )


def _action(data: Any, where: str) -> ValuedAction:
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected an object, got {short_repr(data)}")
    return ValuedAction(
        checked.text(data.get("action"), f"{where}: action"),
        _fraction(data.get("q"), f"{where}: q"),
        _fraction(data.get("q_error"), f"{where}: q_error"),
        _halves(data.get("q_halves"), f"{where}: q_halves"),
        _distance(data.get("distance_after"), f"{where}: distance_after"),
    )


def _fraction(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DataError(f"{where} must be a number from 0 to 1, got {short_repr(value)}")
    return float(value)


def _halves(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise DataError(f"{where} must be two numbers, got {short_repr(value)}")
    return _fraction(value[0], where), _fraction(value[1], where)


def _distance(value: Any, where: str) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise DataError(f"{where} must be a number of at least 0, or null, got {short_repr(value)}")
    return float(value)
