"""Vectors on disk: raw little-endian shards of equal length in a checksummed folder, memory-mapped.

``vectors.0000.f4`` (float32), ``.f2`` (float16) or ``.i1`` (int8, with a float32 per row in ``scales.0000.f4``: the row is
its integers times its scale, max |x| / 127). Every reader sees float32 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    "encoded_rows",
    "join_parts",
    "open_shards",
    "unfinished",
]

PRECISIONS: Final[Mapping[str, str]] = {"float32": "<f4", "float16": "<f2", "int8": "<i1"}
SHARD_ROWS: Final = 1 << 20  # 1.6 GB of 768 numbers in float16
MAX_DIMENSION: Final = 1 << 16
_CHUNK: Final = 1 << 24
_LEVELS: Final = 127


def encoded_rows(vectors: NDArray[np.float32], precision: str) -> dict[str, bytes]:
    """The bytes of rows by file kind: "vectors", and for int8 "scales".

    Raises:
        DataError: a value that is not finite, or too large for the precision.
    """
    if precision == "int8":
        scales = np.abs(vectors).max(axis=1, initial=0).astype("<f4") / np.float32(_LEVELS)
        safe = np.where(scales > 0, scales, np.float32(1))[:, None]
        levels = np.clip(np.rint(vectors / safe), -_LEVELS, _LEVELS)
        finite = np.isfinite(vectors).all()
        arrays = {
            "vectors": np.where(np.isfinite(levels), levels, 0).astype("<i1").tobytes(),
            "scales": scales.tobytes(),
        }
    else:
        with np.errstate(over="ignore"):
            rows = vectors.astype(PRECISIONS[precision])
        finite = np.isfinite(rows).all()
        arrays = {"vectors": rows.tobytes()}
    if not finite:
        raise DataError(f"vectors must be finite in {precision}; one has a value that is not")
    return arrays


def join_parts(parts: Sequence[Mapping[str, Path]], folder: Path, precision: str, per_shard: int) -> None:
    """Write shards, each of ``per_shard`` parts (the last of fewer), into a folder.

    Args:
        parts: files of each part by kind, in order.
        folder: receives the shards.
        precision: of the vectors.
        per_shard: parts in a shard.
    """
    for start in range(0, len(parts), per_shard):
        for kind, name in _names(start // per_shard, precision).items():
            with (folder / name).open("wb") as out:
                for piece in parts[start : start + per_shard]:
                    with piece[kind].open("rb") as file:
                        while chunk := file.read(_CHUNK):
                            out.write(chunk)


def _names(shard: int, precision: str) -> dict[str, str]:
    names = {"vectors": f"vectors.{shard:04d}.{PRECISIONS[precision][1:]}"}
    return names | ({"scales": f"scales.{shard:04d}.f4"} if precision == "int8" else {})


@dataclass(frozen=True, eq=False)
class Shard:
    """Consecutive rows.

    Attributes:
        start: number of the first row.
        vectors: float32, float16 or int8 (n, d).
        scales: float32 (n,) for int8, else None.
        place: file, for messages.
    """

    start: int
    vectors: NDArray[Any]
    scales: NDArray[np.float32] | None = None
    place: str = "vectors"

    def __len__(self) -> int:
        return len(self.vectors)

    def decoded(self, which: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        """float32 rows by position in the shard.

        Raises:
            DataError: a value that is not finite, which only damage or another writer leaves.
        """
        rows = self.vectors[which].astype(np.float32)
        if self.scales is not None:
            rows *= self.scales[which, None]
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
        precision: "float32", "float16" or "int8".
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
        count, names = min(shard_rows, rows - start), _names(number, precision)
        vectors = array(names["vectors"], PRECISIONS[precision])
        scales = array(names["scales"], "<f4") if "scales" in names else None
        if len(vectors) != count * dimension or (scales is not None and len(scales) != count):
            raise DataError(
                f"{place / names['vectors']} has {len(vectors) / dimension:g} rows of {dimension} numbers, expected "
                f"{count}; {how_to_fix}"
            )
        shards.append(Shard(start, vectors.reshape(count, dimension), scales, str(place / names["vectors"])))
    return shards


def unfinished(folder: Path) -> Callable[[str, str], NDArray[Any]]:
    """Opens the files of a folder that has no header yet."""
    return lambda name, dtype: np.memmap(folder / name, dtype, "r")
