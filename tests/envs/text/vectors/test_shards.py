"""Vectors come back from their shards within the precision they are kept in; damaged shards are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.text.vectors.shards import PRECISIONS, Shard, append_rows, encoded_rows, open_shards

VECTORS = np.random.default_rng(0).standard_normal((11, 6)).astype(np.float32)


def mapped(folder: Path) -> Callable[[str, str], NDArray[Any]]:
    return lambda name, dtype: np.memmap(folder / name, dtype, "r")


def write(folder: Path, vectors: NDArray[np.float32], precision: str, part: int, per_shard: int) -> list[Shard]:
    target = folder / "shards"
    target.mkdir()
    for start in range(0, len(vectors), part):
        append_rows(target, start // (part * per_shard), vectors[start : start + part], precision)
    rows, dimension = vectors.shape
    return open_shards(
        mapped(target), target, rows=rows, dimension=dimension, precision=precision, shard_rows=part * per_shard
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("part", "per_shard"), [(3, 2), (11, 1), (1, 4), (4, 9)])
def test_rows_come_back_from_mapped_shards(tmp_path: Path, precision: str, part: int, per_shard: int) -> None:
    shards = write(tmp_path, VECTORS, precision, part, per_shard)
    assert all(isinstance(shard.vectors.base, np.memmap | np.ndarray) for shard in shards)
    assert [shard.start for shard in shards] == list(range(0, 11, part * per_shard))
    found = np.concatenate([shard.decoded(slice(None)) for shard in shards])
    bound = {"float32": 0.0, "float16": 2.0**-11}[precision]
    largest = np.abs(VECTORS).max(axis=1, keepdims=True)
    assert (np.abs(found - VECTORS) <= bound * largest * (1 + 1e-5)).all()


@pytest.mark.parametrize(("precision", "value"), [("float16", 1e30), ("float32", np.nan), ("float16", np.inf)])
def test_a_value_that_the_precision_cannot_hold_is_an_error(precision: str, value: float) -> None:
    with pytest.raises(DataError, match="must be finite"), np.errstate(all="ignore"):
        encoded_rows(np.array([[1.0, value]], np.float32), precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_truncated_shard_is_named(tmp_path: Path, precision: str) -> None:
    write(tmp_path, VECTORS, precision, 3, 2)
    shard = sorted((tmp_path / "shards").glob("vectors.0001.*"))[0]
    size = VECTORS.shape[1] * np.dtype(PRECISIONS[precision]).itemsize
    shard.write_bytes(shard.read_bytes()[:-size])
    with pytest.raises(DataError, match=r"vectors\.0001\..*has 4 rows of 6 numbers, expected 5"):
        open_shards(mapped(tmp_path / "shards"), tmp_path, rows=11, dimension=6, precision=precision, shard_rows=6)


@pytest.mark.parametrize(
    "wrong", [{"precision": "float8"}, {"dimension": 0}, {"dimension": 1 << 40}, {"rows": 0}, {"shard_rows": 0}]
)
def test_impossible_headers_are_errors_before_anything_is_read(wrong: dict[str, Any]) -> None:
    def nothing(name: str, dtype: str) -> NDArray[np.float32]:
        raise AssertionError(name + dtype)

    facts: dict[str, Any] = {"rows": 4, "dimension": 2, "precision": "float32", "shard_rows": 4, **wrong}
    with pytest.raises(DataError, match="not what this package writes"):
        open_shards(nothing, Path("index"), **facts)
