"""Infos of a vector environment, computed when they are read.

Task ids, state keys and texts of a thousand boards cost more than their moves. An info is therefore a dictionary that
knows its keys, and computes a value from the boards of its own step when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.sokoban.rules import state_key
from creditflow.envs.sokoban.vector.boards import MOVED, PUSHED
from creditflow.envs.sokoban.vector.players import TURN_KEYS, Played

__all__ = ["INFO_KEYS", "LazyInfos", "Snapshot"]

INFO_KEYS: Final = (
    "task_id", "state_key", "text_key", "admissible_actions", "action_parsed", "action_admissible", "action_valid",
    "action_effective", "invalid_reason", "success", "score", "elapsed_steps",
    "boxes_on_target", "boxes", "player_moved", "moved_box",
)  # fmt: skip
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the infos of one step or reset tell; its arrays are never changed afterwards.

    Attributes:
        boards: makes the boards of given numbers, as bytes.
        task_ids: object (N,), ids as strings.
        actions: texts of the actions.
        over: bool (N,): whether the episode is over.
        played: the results of the step; of a reset, none.
        solved: bool (N,).
        elapsed: int64 (N,): steps of the episode.
        on_target: int64 (N,): boxes on targets.
        boxes: int64 (N,): boxes.
    """

    boards: Callable[[Ints], list[bytes]]
    task_ids: npt.NDArray[np.object_]
    actions: tuple[str, ...]
    over: Mask
    played: Played
    solved: Mask
    elapsed: Ints
    on_target: Ints
    boxes: Ints

    def value(self, key: str, which: Ints) -> Any:
        """Return a new array of the info ``key`` of the environments with these numbers."""
        if key in ("state_key", "text_key"):
            return _objects([state_key(board) for board in self.boards(which)])
        if key == "admissible_actions":
            return _objects([() if over else self.actions for over in self.over[which].tolist()])
        if key == "invalid_reason":
            return _objects([self.played.reasons.get(number, "") for number in which.tolist()])
        if key in ("action_parsed", "action_admissible", "action_valid"):
            return self.played.valid[which]
        if key in ("action_effective", "player_moved"):
            return (self.played.events[which] & MOVED) != 0
        if key == "moved_box":
            return (self.played.events[which] & PUSHED) != 0
        if key == "score":
            return self.solved[which].astype(np.float64)
        if key in TURN_KEYS and self.played.record is not None:
            values = self.played.record.value(key, which)
            return np.array(values, dtype=np.int64) if key == "ignored_words" else _objects(values)
        arrays = {"task_id": self.task_ids, "success": self.solved, "elapsed_steps": self.elapsed}
        arrays |= {"boxes_on_target": self.on_target, "boxes": self.boxes}
        return arrays[key][which]


class LazyInfos(dict[str, Any]):
    """A dictionary of infos in the form of Gymnasium's vector environments, computed when they are read.

    Each key has an array with one value per environment, and ``_key`` an array of flags: which environments have it. An
    environment that does not has the zero of the dtype, or None.

    Args:
        snapshot: what the infos tell.
        which: numbers of the environments that have infos, ascending.
        num_envs: number of environments.
        more: further entries, not computed.
    """

    def __init__(self, snapshot: Snapshot, which: Ints, num_envs: int, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(more or {})
        self._snapshot, self._which, self._num_envs = snapshot, which, num_envs
        self._left = _ALL_KEYS if snapshot.played.record is None else _ALL_TURN_KEYS

    def __missing__(self, key: str) -> Any:
        if key not in self._left:
            raise KeyError(key)
        if key[0] == "_":
            value = np.zeros(self._num_envs, dtype=np.bool_)
            value[self._which] = True
        else:
            values = self._snapshot.value(key, self._which)
            value = values
            if len(self._which) != self._num_envs:
                value = (
                    np.full(self._num_envs, None) if values.dtype == object else np.zeros(self._num_envs, values.dtype)
                )
                value[self._which] = values
        self[key] = value
        return value

    def _complete(self) -> dict[str, Any]:
        """Compute what is left, and return this dictionary, which is then like any other."""
        for key in self._left:
            if not dict.__contains__(self, key):
                self.__missing__(key)
        self._left = {}
        return self

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self._left

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if it has none."""
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._complete())

    def __reversed__(self) -> Iterator[str]:
        return dict.__reversed__(self._complete())

    def __len__(self) -> int:
        return dict.__len__(self._complete())

    def keys(self) -> Any:
        """Return all keys."""
        return dict.keys(self._complete())

    def values(self) -> Any:
        """Return all values."""
        return dict.values(self._complete())

    def items(self) -> Any:
        """Return all keys with their values."""
        return dict.items(self._complete())

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key, and return its value."""
        return dict.pop(self._complete(), key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key, and return it with its value."""
        return dict.popitem(self._complete())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, set to ``default`` if it had none."""
        return dict.setdefault(self._complete(), key, default)

    def clear(self) -> None:
        """Remove everything."""
        dict.clear(self._complete())

    def copy(self) -> dict[str, Any]:
        """Return a plain dictionary with the same entries."""
        return dict(self.items())

    def __delitem__(self, key: str) -> None:
        dict.__delitem__(self._complete(), key)

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self._complete(), other._complete() if isinstance(other, LazyInfos) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as of every dictionary

    def __or__(self, other: dict[Any, Any], /) -> dict[Any, Any]:
        return {**self, **other}

    def __ror__(self, other: dict[Any, Any], /) -> dict[Any, Any]:
        return {**other, **self}

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (list(self.items()),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy

        return deepcopy(self.copy(), memo)


_ALL_KEYS: Final[Mapping[str, None]] = dict.fromkeys(name for key in INFO_KEYS for name in (key, f"_{key}"))
_ALL_TURN_KEYS: Final = {**_ALL_KEYS, **dict.fromkeys(name for key in TURN_KEYS for name in (key, f"_{key}"))}


def _objects(values: Iterable[Any]) -> npt.NDArray[np.object_]:
    """Return an object array of values, tuples as they are."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    for index, value in enumerate(listed):
        array[index] = value
    return array
