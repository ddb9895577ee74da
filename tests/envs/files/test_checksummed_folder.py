"""A checksummed folder with an invalid header or files is rejected with a reason, even if its checksums hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.envs.files.checksummed_folder import HEADER, ChecksummedFolder, _header_checksum, write_checksums
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.store import open_store, write_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "sealed"
    path.mkdir()
    (path / "texts.bin").write_bytes(b"onethree")
    np.array([0, 3, 3, 8], "<i8").tofile(path / "texts.offsets")
    np.array([0, 2, 1], "<i4").tofile(path / "rows.i4")
    write_checksums(path, "toy/1", {})
    return path


def opened(path: Path) -> ChecksummedFolder:
    return ChecksummedFolder(path, "toy/1", "write it again")


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header and make it consistent again, as anybody can."""
    header = json.loads((path / HEADER).read_text())
    header.pop("checksum")
    change(header)
    (path / HEADER).write_text(json.dumps(header | {"checksum": _header_checksum(header)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(files=["rows.i4"]),
        lambda header: header.pop("files"),
        lambda header: header["files"].update({"rows.i4": 3}),
        lambda header: header["files"].update({"rows.i4": {}}),
        lambda header: header["files"].update({"rows.i4": {"bytes": "12", "blake2b": "x"}}),
    ],
)
def test_a_header_that_names_no_files_is_rejected(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    rewrite(folder, change)
    with pytest.raises(DataError, match="must name files"):
        opened(folder)


def test_a_too_deeply_nested_header_is_rejected(folder: Path) -> None:
    (folder / HEADER).write_text("[" * 100_000)
    with pytest.raises(DataError, match="cannot be read"):
        opened(folder)


@pytest.mark.parametrize("name", ["../sealed/rows.i4", "a\0b", "", "."])
def test_names_outside_the_folder_and_invalid_names_are_rejected(folder: Path, name: str) -> None:
    rewrite(folder, lambda header: header["files"].update({name: header["files"]["rows.i4"]}))
    with pytest.raises(DataError, match="missing, or not a regular file"):
        opened(folder)


def test_symbolic_links_are_rejected(folder: Path, tmp_path: Path) -> None:
    (folder / "rows.i4").rename(tmp_path / "elsewhere")
    (folder / "rows.i4").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="not a regular file"):
        opened(folder)


def resealed(folder: Path, name: str, values: list[int], dtype: str) -> ChecksummedFolder:
    np.array(values, dtype).tofile(folder / name)
    (folder / HEADER).unlink()
    write_checksums(folder, "toy/1", {})
    return opened(folder)


def test_a_blob_returns_its_byte_strings(folder: Path) -> None:
    blob = opened(folder).blob("texts")
    assert [blob[i] for i in range(len(blob))] == [b"one", b"", b"three"]


@pytest.mark.parametrize("offsets", [[], [1, 3, 3, 8], [0, 3, 2, 8], [0, 3, 3, 9], [0, -1, 3, 8]])
def test_offsets_that_do_not_fit_the_file_are_rejected(folder: Path, offsets: list[int]) -> None:
    with pytest.raises(DataError, match="offsets from 0 up to 8"):
        resealed(folder, "texts.offsets", offsets, "<i8").blob("texts")


@pytest.mark.parametrize("rows", [[-1, 0, 1], [0, 3, 1]])
def test_row_numbers_out_of_range_are_rejected(folder: Path, rows: list[int]) -> None:
    with pytest.raises(DataError, match="row numbers from 0 to 2"):
        resealed(folder, "rows.i4", rows, "<i4").rows("rows.i4", 3)


def test_an_index_with_row_numbers_out_of_range_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    write_store(folder, [Passage(str(i), "t", f"word{i}", "t") for i in range(4)])
    kind = json.loads((folder / HEADER).read_text())["format"]
    facts = {
        k: v for k, v in json.loads((folder / HEADER).read_text()).items() if k not in ("format", "files", "checksum")
    }
    rows = np.fromfile(folder / "by_id.i4", "<i4")
    rows[0] = -1
    rows.tofile(folder / "by_id.i4")
    (folder / HEADER).unlink()
    write_checksums(folder, kind, facts)
    with pytest.raises(DataError, match="row numbers"):
        open_store(folder)
