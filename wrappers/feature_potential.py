"""A potential over features of observations, for tasks that are seen once: it generalises where a table of states cannot.

Φ is a linear function of hashed features, fitted by ridge regression to the discounted returns of the episodes of *all* tasks:

- a text has its words and pairs of words, in which the words of the episode's first observation are replaced by one symbol,
  so that "you take the tomato" counts as "you take the" followed by a word of the task, whatever the task asks for;
- a grid (planes, or a text of symbols in equal rows) has the relative positions of every two objects and what surrounds each; an object is
  a cell that looks unlike the two most frequent ones, which are walls and floor;
- a number has the cells in which it lies, of widths 2^−4 to 2^2 (tile coding: Sutton and Barto, 2018, section 9.5.4), and the joint
  cells of every two numbers of a vector; a whole number is also itself. So a linear function is fine where there is data, and
  generalises where there is not. Numbers of other units are divided before, by ``gymnasium.wrappers.TransformObservation``;
- what is made of these (dictionaries, tuples, sequences, graphs) has the features of its parts, each with its place.

It estimates the value of a state for the policies that played. It sees one observation, and linearly: what an agent carries but is not
shown, or whether two numbers of a page agree, is out of its reach. The shaping still telescopes, whatever Φ is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.wrappers.potentials import Potentials, PotentialStore, SavedPotential, StoreLock, read_document
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["FeaturePotentials", "FeatureStore", "ObservationFeatures", "Store", "Version", "feature_rows", "read_by"]

FORMAT: Final = "creditflow-feature-potential/1"
MAX_OBJECTS: Final = 16  # of a grid, in reading order: pairs of them are features
_WORD = re.compile(r"\w+|[^\w\s]")
WIDTHS: Final = tuple(2.0**k for k in range(-4, 3))  # of the cells of a number
PAIR_WIDTHS: Final = (0.25, 1.0)  # of the joint cells of two
MAX_PAIRED: Final = 16  # numbers of a vector: of longer ones there are no pairs
Floats = NDArray[np.float64]


class ObservationFeatures:
    """Features of the observations of one episode: rows of length 1, and a constant.

    Args:
        size: number of features, the constant included.

    Attributes:
        statement: words of the first observation of the episode.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.statement: frozenset[str] = frozenset()

    def begin(self, observation: Any) -> Floats:
        """Start an episode; return the row of its first observation."""
        if isinstance(observation, str):
            self.statement = frozenset(word for word in _WORD.findall(observation.casefold()) if word.isalpha())
        return self.row(observation)

    def row(self, observation: Any) -> Floats:
        """The features of an observation, float64 (size,).

        Raises:
            ConfigError: it has a part that is no text, number, array, mapping or sequence.
        """
        parts = list(self._parts(observation, ""))
        hashed = np.concatenate([feature for feature, _ in parts]) if parts else np.zeros(0, np.uint64)
        weights = (
            np.concatenate([weight for _, weight in parts]) / math.sqrt(max(len(parts), 1)) if parts else np.zeros(0)
        )
        row = np.zeros(self.size)
        row[0] = 1.0
        signs = 1.0 - 2.0 * ((hashed >> np.uint64(31)) & np.uint64(1)).astype(np.float64)
        np.add.at(row, 1 + (hashed % np.uint64(self.size - 1)).astype(np.int64), weights * signs)
        return row

    def _parts(self, value: Any, place: str) -> Iterator[tuple[NDArray[np.uint64], Floats]]:
        """Hashes and weights of the features of each part of an observation, of length 1 a part."""
        if value is None:
            return
        if isinstance(value, Mapping):
            for name in sorted(value, key=str):
                yield from self._parts(value[name], f"{place}.{name}")
            return
        if isinstance(value, list | tuple) and not _is_vector(value):
            for number, item in enumerate(value):
                yield from self._parts(item, f"{place}.{number}")
            return
        cells = _grid(value)
        if cells is not None:
            feature, weight = _of_grid(cells)
        elif isinstance(value, str):
            words = _WORD.findall(value.casefold())
            feature, weight = _of_words(["□" if word in self.statement else word for word in words])
        else:
            array = np.asarray(value)
            if array.dtype.kind in "OSU" and isinstance(value, np.ndarray):
                yield from self._parts(array.ravel().tolist(), place)
                return
            if array.dtype.kind not in "biuf":
                raise ConfigError(
                    f"features are those of texts, numbers, arrays, mappings and sequences; got {short_repr(value, 60)}"
                )
            feature, weight = _of_numbers(array)
        yield (feature ^ np.uint64(crc32(place.encode())) if place else feature), weight


def _is_vector(items: Sequence[Any]) -> bool:
    """Whether a list has numbers alone."""
    return bool(items) and all(isinstance(item, bool | int | float | np.number | np.bool_) for item in items)


def _of_words(words: Sequence[str]) -> tuple[NDArray[np.uint64], Floats]:
    """Hashes and weights, square roots of relative frequencies, of words and pairs of words."""
    digests = (blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest() for word in words)
    hashed = np.array([int.from_bytes(digest, "big") for digest in digests], np.uint64)
    hashes = np.concatenate([_rolled(hashed, 1), _rolled(hashed, 2)])
    feature, count = np.unique(hashes, return_counts=True)
    return feature, np.sqrt(count / max(len(hashes), 1))


def _rolled(items: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Hashes of the n-grams of a sequence (SplitMix64 after each item)."""
    length = max(len(items) - n + 1, 0)
    hashed = np.full(length, np.uint64(16 * n + 1))
    for start in range(n):
        hashed = (hashed + items[start : start + length]) * np.uint64(0x9E3779B97F4A7C15)  # modulo 2^64
        hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


def _of_numbers(array: NDArray[Any]) -> tuple[NDArray[np.uint64], Floats]:
    """Hashes and weights of the cells of numbers, each by itself and two together, and of whole numbers themselves."""
    numbers = array.ravel().astype(np.float64)
    index = np.arange(len(numbers), dtype=np.uint64)
    hashes = []
    for kind, width in enumerate(WIDTHS):
        hashes.append(_mixed(np.uint64(kind), index, _cell(numbers, width)))
    if array.dtype.kind != "f":
        hashes.append(_mixed(np.uint64(64), index, _cell(numbers, 1.0)))
    if 1 < len(numbers) <= MAX_PAIRED:
        first, second = np.triu_indices(len(numbers), 1)
        for kind, width in enumerate(PAIR_WIDTHS, start=128):
            cell = _cell(numbers, width)
            hashes.append(_mixed(np.uint64(kind), index[first], cell[first], index[second], cell[second]))
    feature, count = np.unique(np.concatenate(hashes), return_counts=True)
    return feature, np.sqrt(count / max(count.sum(), 1))


def _cell(numbers: Floats, width: float) -> NDArray[np.uint64]:
    """Number of the cell of each number; those that are not finite have cells of their own."""
    with np.errstate(over="ignore", invalid="ignore"):
        cells = np.clip(np.floor(numbers / width), -(2.0**52), 2.0**52)
    cells = np.where(np.isnan(cells), 2.0**53, cells)
    return cells.astype(np.int64).view(np.uint64)


def _mixed(*parts: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """One hash of several columns of numbers (the finaliser of SplitMix64 after each)."""
    mixed = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed


def _grid(observation: Any) -> list[list[bytes]] | None:
    """The cells of planes, or of a text of symbols in equal rows; None for anything else."""
    if isinstance(observation, np.ndarray) and observation.ndim == 3:
        by_cell = np.ascontiguousarray(np.moveaxis(observation, 0, -1))
        return [list(map(np.ndarray.tobytes, line)) for line in by_cell]
    if isinstance(observation, str):
        rows = [line.split() for line in observation.split("\n")]
        symbols = len(rows) > 1 and all(len(cell) == 1 for row in rows for cell in row)
        if symbols and rows[0] and all(len(row) == len(rows[0]) for row in rows):
            return [list(map(str.encode, row)) for row in rows]
    return None


def _of_grid(cells: list[list[bytes]]) -> tuple[NDArray[np.uint64], Floats]:
    """Hashes and weights of the pairs of objects, with their offset, and of the cells around each object."""
    counts = Counter(cell for row in cells for cell in row)
    background = sorted(counts, key=lambda cell: (-counts[cell], cell))[:2]
    objects = [(y, x) for y, row in enumerate(cells) for x, cell in enumerate(row) if cell not in background][
        :MAX_OBJECTS
    ]
    hashes = list[int]()
    for y, x in objects:
        around = [
            cells[row][column] if 0 <= row < len(cells) and 0 <= column < len(cells[0]) else b""
            for row in (y - 1, y, y + 1)
            for column in (x - 1, x, x + 1)
        ]
        hashes.append(crc32(repr(around).encode()))
        for other_y, other_x in objects:
            if (y, x) < (other_y, other_x):
                pair = cells[y][x], cells[other_y][other_x], other_y - y, other_x - x
                hashes.append(crc32(repr(pair).encode()))
    feature, count = np.unique(np.array(hashes, np.uint64), return_counts=True)
    return feature, np.sqrt(count / max(len(hashes), 1))


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePotentials(SavedPotential):
    """One version of Φ over features.

    Attributes:
        version: number that increases with every change.
        weights: float64 (size,), of the features; () before the first return that is not 0, and Φ is unknown.
        low, high: least and greatest return that was seen; Φ lies between them.
        parameters: what the weights were fitted with.
    """

    version: int = 0
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    low: float = 0.0
    high: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    scheme: str = "features"

    def of(self, row: Floats) -> float | None:
        """Return Φ of a row of features; None before anything is learned."""
        if not len(self.weights):
            return None
        return float(np.clip(self.weights @ row, self.low, self.high))

    @property
    def size(self) -> int:
        """Number of features."""
        return int(self.parameters["size"])

    @classmethod
    def load(cls, path: str | Path) -> FeaturePotentials:
        """Read a version that ``save`` wrote.

        Raises:
            DataError: the file is not one that ``save`` wrote, or it was modified.
        """
        document = read_document(path, FORMAT)
        try:
            weights = np.array(document["weights"], np.float64)
            parameters = MappingProxyType(dict(document["parameters"]))
            version, low, high = int(document["version"]), float(document["low"]), float(document["high"])
            if weights.shape not in ((0,), (int(parameters["size"]),)) or not np.isfinite([low, high, *weights]).all():
                raise ValueError("the weights are not as many finite numbers as there are features")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path}: malformed potential over features: {error!r}") from error
        return cls(version, weights, low, high, parameters)

    def _document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": self.version,
            "weights": self.weights.tolist(),
            "low": self.low,
            "high": self.high,
            "parameters": dict(self.parameters),
        }


class FeatureStore:
    """Collects the episodes of all tasks and fits Φ to their discounted returns.

    Args:
        discount: γ of the returns.
        size: number of features; two n-grams may share one. The memory is size² numbers of 8 bytes, 2 MiB, whatever is played.
        window: number of episodes over which the past is forgotten: an episode weighs (1 − 1/window)^n after n later ones.
        ridge: weight of the penalty on the squared weights, in units of turns.

    Raises:
        ConfigError: a parameter out of range.
    """

    def __init__(self, *, discount: float, size: int = 512, window: int = 300, ridge: float = 10.0) -> None:
        if size < 2 or window < 1:
            raise ConfigError(f"size must be ≥ 2 and window ≥ 1, got {short_repr(size)} and {short_repr(window)}")
        if not 0.0 <= discount <= 1.0 or not 0.0 < ridge < math.inf:
            raise ConfigError(
                f"discount must lie in [0, 1] and ridge be > 0, got {short_repr(discount)} and {short_repr(ridge)}"
            )
        self.size, self.window, self.frozen = size, window, False
        self._discount, self._ridge = discount, ridge
        self._moments, self._targets = np.zeros((size, size)), np.zeros(size)
        self._pending: list[tuple[str, Floats, Floats]] = []  # a digest, features (T, size), returns (T,)
        self._lock = StoreLock()
        parameters = {"discount": discount, "size": size, "window": window, "ridge": ridge}
        self._current = FeaturePotentials(parameters=MappingProxyType(parameters))

    @property
    def pending(self) -> int:
        """Number of episodes that the next version will add."""
        return len(self._pending)

    def freeze(self) -> FeaturePotentials:
        """Learn nothing more; return the last version."""
        with self._lock:
            self.frozen, self._pending = True, []
        return self._current

    def observe(self, rows: Sequence[Floats], rewards: Sequence[float]) -> None:
        """Collect one finished episode: a row of features for each turn, before its action, and the raw rewards."""
        if self.frozen or not len(rows):
            return
        if len(rows) != len(rewards):
            raise ConfigError(f"one row of features per reward is needed, got {len(rows)} and {len(rewards)}")
        returns = np.zeros(len(rewards))
        total = 0.0
        for turn in range(len(rewards) - 1, -1, -1):
            total = rewards[turn] + self._discount * total
            returns[turn] = total
        features = np.stack(rows)
        digest = blake2b(features.tobytes() + returns.tobytes(), digest_size=16).hexdigest()
        with self._lock:
            self._pending.append((digest, features, returns))

    def publish(self) -> FeaturePotentials:
        """Fit the next version to all collected episodes; the order in which those of one version came has no effect."""
        with self._lock:
            if not self._pending:
                return self._current
            decay = (1.0 - 1.0 / self.window) ** len(self._pending)
            self._moments, self._targets = decay * self._moments, decay * self._targets
            episodes = sorted(self._pending, key=lambda episode: episode[0])
            features = np.concatenate([rows for _, rows, _ in episodes])
            returns = np.concatenate([values for *_, values in episodes])
            self._moments += features.T @ features
            self._targets += features.T @ returns
            low = min(self._current.low, float(returns.min()))
            high = max(self._current.high, float(returns.max()))
            self._pending = []
            if low < high:
                penalty = self._ridge * np.eye(self.size)
                weights: Floats = np.linalg.solve(self._moments + penalty, self._targets).astype(np.float64)
                version = self._current.version + 1
                self._current = replace(self._current, version=version, weights=weights, low=low, high=high)
            return self._current

    def snapshot(self) -> FeaturePotentials:
        """Return the version that was published last."""
        return self._current


Store = PotentialStore | FeatureStore
Version = Potentials | FeaturePotentials


def feature_rows(member: Trajectory, size: int) -> list[Floats]:
    """Features of what the agent saw before each turn of a recorded episode.

    Raises:
        DataError: the record has no observations.
    """
    if any(not turn.observation for turn in member.turns):
        raise DataError(
            f"trajectory {member.trajectory_id!r} has turns without an observation, from which features are read: record it "
            "with Recorder(texts=True)"
        )
    features = ObservationFeatures(size)
    return [
        features.row(turn.observation) if t else features.begin(turn.observation) for t, turn in enumerate(member.turns)
    ]


def read_by(store: Store | Version, envs: int) -> tuple[list[ObservationFeatures], bool]:
    """What a store reads: the features of each environment's observations (or none), and whether it reads text keys."""
    if isinstance(store, FeatureStore | FeaturePotentials):
        return [ObservationFeatures(store.size) for _ in range(envs)], False
    key = store.parameters.get("key") if isinstance(store, Potentials) else store.key
    return [], key == "text"
