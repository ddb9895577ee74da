"""Bounded streams, compressed or not; archives; exceptions of other libraries."""

import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading import archives, streams
from creditflow.envs.reading.archives import iter_members
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.streams import read_bytes, read_lines, read_text

PACKS: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, lzma.compress]


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


# -- archives -----------------------------------------------------------------------------------------------------------
FILES = {f"{'long/' * 30}{i}": bytes([i]) * (700 * i) for i in range(6)}


def archive(form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def everything(member: tarfile.TarInfo) -> str:
    return member.name


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_members_are_read_with_every_compression(tmp_path: Path, pack: Callable[[bytes], bytes], form: int) -> None:
    path = tmp_path / "archive"
    path.write_bytes(pack(archive(form)))
    assert dict(iter_members(path, everything)) == FILES
    kept = {name: data for name, data in FILES.items() if name.endswith("3")}
    assert dict(iter_members(path, lambda m: m.name if m.name in kept else None)) == kept
    assert list(iter_members(path, lambda _: None)) == []


@pytest.mark.parametrize("pack", PACKS)
def test_truncated_and_damaged_archives_are_errors_that_name_the_file(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path, data = tmp_path / "archive", pack(archive())
    for place in range(0, len(data), len(data) // 60):
        for harmed in (data[:place], data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]):
            path.write_bytes(harmed)
            try:
                list(iter_members(path, everything))
            except DataError as error:
                assert str(path) in str(error)


def header(kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize(
    "kind",
    [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK],
)
def test_headers_of_a_member_are_bounded(tmp_path: Path, pack: Callable[[bytes], bytes], kind: bytes) -> None:
    path, size = tmp_path / "archive", 3 * 2**20
    path.write_bytes(pack(header(kind, size) + b"9" * size))
    with pytest.raises(DataError, match="headers of a member take more than 1,048,576 bytes"):
        list(iter_members(path, everything))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_endless_headers_are_rejected(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "archive"
    path.write_bytes((header(kind, 8) + b"8 a=b=c\n".ljust(512, b"\0")) * 5_000)
    with pytest.raises(DataError, match=r"headers of a member|RecursionError"):
        list(iter_members(path, everything))


def test_skipped_members_count_towards_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "archive"
    path.write_bytes(archive())
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 5_000)
    with pytest.raises(DataError, match="more than 5,000 bytes"):
        list(iter_members(path, lambda _: None))


@pytest.mark.parametrize(
    ("name", "limit", "message"),
    [
        ("MAX_MEMBER_BYTES", 3499, "has 3,500 bytes, more than 3,499"),
        ("MAX_ARCHIVE_MEMBERS", 5, "contains more than 5 members"),
    ],
)
def test_members_are_bounded_in_number_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, message: str
) -> None:
    path = tmp_path / "archive"
    path.write_bytes(archive())
    monkeypatch.setattr(archives, name, limit + 1)
    assert dict(iter_members(path, everything)) == FILES  # the limit itself is allowed
    monkeypatch.setattr(archives, name, limit)
    with pytest.raises(DataError, match=message):
        list(iter_members(path, everything))


def test_several_xz_streams_with_padding_at_the_end_are_one_archive(tmp_path: Path) -> None:
    path, data = tmp_path / "archive.tar.xz", archive()
    for padding in (b"", bytes(4), bytes(2**17)):
        path.write_bytes(lzma.compress(data[:3000]) + lzma.compress(data[3000:]) + padding)
        assert dict(iter_members(path, everything)) == FILES
    path.write_bytes(lzma.compress(data[:3000]) + b"junk" + lzma.compress(data[3000:]))
    with pytest.raises(DataError, match="damaged or truncated xz data"):
        list(iter_members(path, everything))


def test_an_xz_stream_that_asks_for_gigabytes_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "archive.tar.xz"
    path.write_bytes(lzma.compress(archive(), preset=6))  # a dictionary of 8 MB
    monkeypatch.setattr(archives, "_XZ_MEMORY", 2**20)
    with pytest.raises(DataError, match=r"damaged or truncated xz data .*[Mm]emory"):
        list(iter_members(path, everything))


def test_sparse_members_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(header(tarfile.GNUTYPE_SPARSE, 0) + bytes(1024))
    with pytest.raises(DataError, match="sparse"):
        list(iter_members(path, everything))


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
