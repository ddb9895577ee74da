"""Vectors on disk: raw little-endian shards of equal length in a checksummed folder, memory-mapped.

``vectors.0000.f4`` (float32) or ``.f2`` (float16). Every reader sees float32 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError

__all__ = [
    "MAX_DIMENSION",
    "PRECISIONS",
    "SHARD_ROWS",
    "Shard",
    "append_rows",
    "encoded_rows",
    "open_shards",
]

PRECISIONS: Final[Mapping[str, str]] = {"float32": "<f4", "float16": "<f2"}
SHARD_ROWS: Final = 1 << 20  # 1.6 GB of 768 numbers in float16
MAX_DIMENSION: Final = 1 << 16


def encoded_rows(vectors: NDArray[np.float32], precision: str) -> bytes:
    """The bytes of rows.

    Raises:
        DataError: a value that is not finite, or too large for the precision.
    """
    with np.errstate(over="ignore"):
        rows = vectors.astype(PRECISIONS[precision])
    if not np.isfinite(rows).all():
        raise DataError(f"vectors must be finite in {precision}; one has a value that is not")
    return rows.tobytes()


def append_rows(folder: Path, shard: int, vectors: NDArray[np.float32], precision: str) -> None:
    """Append rows to a shard of a folder.

    Args:
        folder: receives the shard's files.
        shard: its number.
        vectors: float32 (n, d).
        precision: of the stored vectors.

    Raises:
        DataError: a value that is not finite, or too large for the precision.
    """
    with (folder / _name(shard, precision)).open("ab") as out:
        out.write(encoded_rows(vectors, precision))


def _name(shard: int, precision: str) -> str:
    return f"vectors.{shard:04d}.{PRECISIONS[precision][1:]}"


@dataclass(frozen=True, eq=False)
class Shard:
    """Consecutive rows.

    Attributes:
        start: number of the first row.
        vectors: float32 or float16 (n, d).
        place: file, for messages.
    """

    start: int
    vectors: NDArray[Any]
    place: str = "vectors"

    def __len__(self) -> int:
        return len(self.vectors)

    def decoded(self, which: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        """float32 rows by position in the shard.

        Raises:
            DataError: a value that is not finite, which only damage or another writer leaves.
        """
        rows = self.vectors[which].astype(np.float32)
        if not np.isfinite(rows.sum(dtype=np.float64)):
            raise DataError(f"{self.place} contains non-finite values; rebuild the index")
        return rows


def open_shards(
    array: Callable[[str, str], NDArray[Any]],
    place: Path,
    *,
    rows: int,
    dimension: int,
    precision: str,
    shard_rows: int = SHARD_ROWS,
    how_to_fix: str = "rebuild the index",
) -> list[Shard]:
    """The shards of a folder.

    Args:
        array: opens a file by its name and type, such as ``ChecksummedFolder.array``.
        place: the folder, for messages.
        rows: vectors in all shards.
        dimension: numbers in a vector.
        precision: "float32" or "float16".
        shard_rows: vectors in a shard; the last may have fewer.
        how_to_fix: what to do about damage; ends every message.

    Raises:
        DataError: a shard is missing or has another number of rows.
    """
    if precision not in PRECISIONS or not 1 <= dimension <= MAX_DIMENSION or rows < 1 or shard_rows < 1:
        raise DataError(
            f"{place}: {rows} rows of {dimension} numbers in {precision[:40]!r}, {shard_rows} per shard, are not what "
            f"this package writes; {how_to_fix}"
        )
    shards = []
    for number, start in enumerate(range(0, rows, shard_rows)):
        count, name = min(shard_rows, rows - start), _name(number, precision)
        vectors = array(name, PRECISIONS[precision])
        if len(vectors) != count * dimension:
            raise DataError(
                f"{place / name} has {len(vectors) / dimension:g} rows of {dimension} numbers, expected "
                f"{count}; {how_to_fix}"
            )
        shards.append(Shard(start, vectors.reshape(count, dimension), str(place / name)))
    return shards
