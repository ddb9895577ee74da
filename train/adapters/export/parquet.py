"""Logs as folders of Parquet files, in the layout that the Hugging Face Hub and ``datasets`` read, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError, MissingExtraError, TrajectoryError
from creditflow.envs.files.atomic import atomic_path
from creditflow.train.adapters.export.columns import row_of, schema, trajectory_of
from creditflow.train.adapters.logs.report import RowError
from creditflow.train.adapters.logs.rows import read_rows
from creditflow.wrappers.records.jsonl import Log, Record, read_records

__all__ = ["DATA", "read_parquet", "write_parquet"]

DATA: Final = "data/train-00000-of-00001.parquet"
ROWS: Final = 64  # trajectories written at a time


def write_parquet(folder: Path, log: Log) -> Path:
    """Write a log as one file, a row for each trajectory; return its path.

    Raises:
        MissingExtraError: pyarrow is not installed.
        TrajectoryError: a trajectory cannot be written.
    """
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise MissingExtraError("pyarrow", "export") from error
    path = folder / DATA
    columns = schema()
    rows = (row_of(trajectory, task) for trajectory, task in log.records())
    with atomic_path(path) as temporary, ParquetWriter(temporary, columns, compression="zstd") as writer:
        while batch := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, columns))
    return path


def read_parquet(path: str | Path) -> Log:
    """Read the log of an exported folder, or of one of its files.

    Raises:
        DataError: there is no such file, it is damaged, or a row is no trajectory; names file and row.
        MissingExtraError: pyarrow is not installed.
    """
    place = Path(path)
    files = sorted(place.glob("data/*.parquet")) if place.is_dir() else [place]
    if not files:
        raise DataError(f"{path}: no data/*.parquet in this folder; is it one that creditflow exported?")
    log = read_records(_records(files))
    if not log.groups:
        raise DataError(f"{path}: holds no trajectories")
    return log


def _records(files: Iterable[Path]) -> Iterator[Record]:
    for file in files:
        for where, row in read_rows(file):
            try:
                if isinstance(row, RowError):
                    raise TrajectoryError(str(row))
                yield *trajectory_of(row), where
            except TrajectoryError as error:
                raise TrajectoryError(f"{where}: {error}") from error
