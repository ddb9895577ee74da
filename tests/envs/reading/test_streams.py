"""Bounded streams, compressed or not; exceptions of other libraries."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading import streams
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.streams import read_bytes, read_lines, read_text


@given(st.binary(max_size=300), st.booleans())
def test_files_are_read_completely_compressed_or_not(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, packed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "file"
    path.write_bytes(gzip.compress(data) if packed else data)
    if packed or data[:2] != b"\x1f\x8b":
        assert read_bytes(path, 300) == data
    if data:
        with pytest.raises(DataError, match=f"more than {len(data) - 1} bytes|damaged"):
            read_bytes(path, len(data) - 1)


def test_damaged_and_truncated_gzip_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path, data = tmp_path / "log.gz", gzip.compress(bytes(range(256)) * 3)
    for place in range(len(data)):
        for harmed in (data[:place], data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]):
            path.write_bytes(harmed)
            try:
                found = read_bytes(path, 10_000)
            except DataError as error:
                assert str(error).startswith(f"{path}: ")
            else:  # a byte of the header that does not affect the content
                assert found == bytes(range(256)) * 3


def test_files_beyond_the_compression_ratio_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ALLOWANCE", 10_000)
    (tmp_path / "file").write_bytes(gzip.compress(b"0" * 5_000_000))
    with pytest.raises(DataError, match="more than 200 times its size"):
        read_text(tmp_path / "file", 10_000_000)
    with pytest.raises(DataError, match="line 1 or after: decompresses to more than 200 times"):
        list(read_lines(tmp_path / "file", 10_000_000))


def test_too_long_lines_are_rejected_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345\n1234567\n")
    with pytest.raises(DataError, match="line 2: longer than 6 characters"):
        list(read_lines(path, 6))
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(DataError, match="line 1 or after: not UTF-8 text"):
        list(read_lines(path, 6))
    with pytest.raises(DataError, match=r"not ASCII text .* at byte 2"):
        read_text(path, 99, "ascii")


@pytest.mark.parametrize("name", [".", "absent", "absent.gz", "a\0b"])
def test_paths_that_are_not_files_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_bytes(tmp_path / name, 9)


# -- other libraries ------------------------------------------------------------------------------------------------------
class PanicException(BaseException):
    __module__ = "pyo3_runtime"


@pytest.mark.parametrize("error", [Exception("bare"), RuntimeError(), RecursionError(), PanicException("index out of")])
def test_any_exception_of_a_library_becomes_one_of_our_errors(error: BaseException) -> None:
    with pytest.raises(DataError, match=f"model/x: {type(error).__name__}"), loading("model/x"):
        raise error


@pytest.mark.parametrize("error", [ConfigError("ours"), KeyboardInterrupt(), SystemExit(2)])
def test_our_own_errors_and_interruptions_pass_unchanged(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, loading("model/x"):
        raise error
    assert caught.value is error
