"""The header of a GGUF file, read within limits, and its tensors as float32 arrays.

Source: the format's specification (ggml, docs/gguf.md) and the block formats of ggml-quants. Every count, length and offset
is compared with what is left of the file before anything of that size is made, so a header that lies costs no memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr

__all__ = ["FORMATS", "GgufFile", "GgufTensor", "open_gguf"]

MAX_HEADER: Final = 32 * 2**20  # bytes before the tensors; a vocabulary of 128,000 pieces and its merges have 8 MB
MAX_DIMENSIONS: Final = 4
MAX_ALIGNMENT: Final = 2**16
SCALARS: Final = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
BOOLEAN, TEXT, LIST = 7, 8, 9


@dataclass(frozen=True, slots=True)
class Format:
    """How the numbers of a tensor are stored: blocks of so many numbers, each of so many bytes."""

    name: str
    numbers: int
    bytes: int


FORMATS: Final = {
    0: Format("F32", 1, 4),
    1: Format("F16", 1, 2),
    2: Format("Q4_0", 32, 18),
    3: Format("Q4_1", 32, 20),
    8: Format("Q8_0", 32, 34),
    30: Format("BF16", 1, 2),
}
# other formats of ggml, for messages
_OTHERS: Final = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor is.

    Attributes:
        shape: outermost dimension first, as in NumPy; the file has them the other way round.
        format: how its numbers are stored.
        start, stop: its bytes in the file.
    """

    shape: tuple[int, ...]
    format: Format
    start: int
    stop: int


class GgufFile:
    """An open GGUF file.

    Attributes:
        fields: the metadata, by key; a list of numbers is an array.
        tensors: by name.
    """

    def __init__(self, data: Any, fields: Mapping[str, Any], tensors: Mapping[str, GgufTensor]) -> None:
        self._data, self.fields, self.tensors = data, fields, tensors

    def array(self, name: str) -> NDArray[np.float32]:
        """The numbers of a tensor, float32."""
        tensor = self.tensors[name]
        raw = np.frombuffer(self._data, np.uint8, tensor.stop - tensor.start, tensor.start)
        return _numbers(raw.reshape(-1, tensor.format.bytes), tensor.format.name).reshape(tensor.shape)


def _numbers(blocks: NDArray[np.uint8], kind: str) -> NDArray[np.float32]:
    """The numbers of blocks, uint8 (blocks, bytes), as float32 (blocks, numbers)."""
    if kind == "F32":
        return blocks.view("<f4").astype(np.float32)
    if kind == "F16":
        return blocks.view("<f2").astype(np.float32)
    if kind == "BF16":  # the upper half of a float32
        return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if kind == "Q8_0":
        return scale * blocks[:, 2:].view(np.int8)
    packed = blocks[:, -16:]  # the first 16 numbers in the lower halves of the bytes, the others in the upper ones
    levels = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    if kind == "Q4_0":
        return scale * (levels - np.float32(8))
    smallest = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    return scale * levels + smallest


def open_gguf(path: str | Path) -> GgufFile:
    """Open a GGUF file, and read its header.

    Raises:
        DataError: it is none, is damaged or too long, or has numbers in a format that is not read.
    """
    with Path(path).open("rb") as stream:
        try:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (ValueError, OSError) as error:  # an empty file, a device
            raise DataError(f"{path}: cannot be read as a GGUF file: {error}") from error
    header = _Header(data, str(path))
    fields, listed = header.fields, header.tensors
    alignment = fields.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= MAX_ALIGNMENT or alignment % 8:
        raise header.error(f"general.alignment is a multiple of 8 up to {MAX_ALIGNMENT}, got {short_repr(alignment)}")
    base = -(-header.at // alignment) * alignment
    tensors = {name: header.located(name, *entry, alignment, base) for name, entry in listed.items()}
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda entry: entry[1].start):
        if tensor.start < end:
            raise header.error(f"the bytes of tensor {short_repr(name)} overlap those of another one")
        end = tensor.stop
    return GgufFile(data, fields, tensors)


class _Header:
    """Reads the header; ``at`` is the position after it."""

    def __init__(self, data: Any, path: str) -> None:
        self._data, self._path, self.at = data, path, 4
        if data[:4] != b"GGUF":
            raise self.error(f"begins with {bytes(data[:4])!r}, a GGUF file with b'GGUF'")
        version = self._number("<u4")
        if version not in (2, 3):
            raise self.error(f"versions 2 and 3 are read, in little-endian order; this is {version}")
        tensors, fields = self._count("tensors", 25), self._count("fields", 13)
        self.fields: dict[str, Any] = {}
        for _ in range(fields):
            self._new(key := self._text(), self.fields, "field")
            self.fields[key] = self._value(key, self._number("<u4"))
        self.tensors: dict[str, tuple[tuple[int, ...], Format, int]] = {}
        for _ in range(tensors):
            self._new(name := self._text(), self.tensors, "tensor")
            self.tensors[name] = self._tensor(name)

    def error(self, what: str) -> DataError:
        """An error that names the file."""
        return DataError(f"{self._path}: {what}")

    def _take(self, size: int, what: str) -> int:
        """Go past so many bytes; returns where they begin."""
        remaining = min(len(self._data), MAX_HEADER) - self.at
        if size > remaining:
            where = "the file" if len(self._data) < MAX_HEADER else f"a header of at most {MAX_HEADER:,} bytes"
            raise self.error(f"{what} needs {size:,} bytes at byte {self.at:,}, and {remaining:,} are left of {where}")
        self.at += size
        return self.at - size

    def _number(self, kind: str) -> Any:
        dtype = np.dtype(kind)
        return np.frombuffer(self._data, dtype, 1, self._take(dtype.itemsize, "a number"))[0].item()

    def _count(self, what: str, least: int) -> int:
        """A number of things that have at least so many bytes each."""
        count = int(self._number("<u8"))
        if count * least > min(len(self._data), MAX_HEADER) - self.at:
            raise self.error(f"says that it has {count:,} {what}, more than its header has room for")
        return count

    def _text(self) -> str:
        length = int(self._number("<u8"))
        start = self._take(length, "a text")
        try:
            return str(self._data[start : self.at], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"the text at byte {start:,} is not UTF-8: {error.reason}") from error

    def _new(self, name: str, known: Mapping[str, Any], what: str) -> None:
        if name in known:
            raise self.error(f"has two {what}s with the name {short_repr(name)}")

    def _value(self, key: str, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind == LIST:
            inner = self._number("<u4")
            if inner == TEXT:
                return [self._text() for _ in range(self._count(f"texts under {key[:80]}", 8))]
            dtype = np.dtype(self._scalar(key, inner))
            count = self._count(f"numbers under {key[:80]}", dtype.itemsize)
            return np.frombuffer(self._data, dtype, count, self._take(count * dtype.itemsize, "a list")).copy()
        number = self._number(self._scalar(key, kind))
        return bool(number) if kind == BOOLEAN else number

    def _scalar(self, key: str, kind: int) -> str:
        if kind not in SCALARS:
            what = "a list of lists" if kind == LIST else f"type {kind}"
            raise self.error(f"the field {short_repr(key)} has {what}, which is not read")
        return SCALARS[kind]

    def _tensor(self, name: str) -> tuple[tuple[int, ...], Format, int]:
        """Shape, format and offset of a tensor."""
        dimensions = self._number("<u4")
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise self.error(
                f"tensor {short_repr(name)} has {dimensions} dimensions, from 1 to {MAX_DIMENSIONS} are read"
            )
        shape = tuple(int(self._number("<u8")) for _ in range(dimensions))[::-1]
        kind = self._number("<u4")
        if kind not in FORMATS:
            raise self.error(
                f"tensor {short_repr(name)} has the format {_OTHERS.get(kind, kind)}; read are {', '.join(f.name for f in FORMATS.values())}. "
                "Convert the file, for instance with llama-quantize --allow-requantize FILE OUT Q8_0"
            )
        return shape, FORMATS[kind], int(self._number("<u8"))

    def located(
        self, name: str, shape: tuple[int, ...], kind: Format, offset: int, alignment: int, base: int
    ) -> GgufTensor:
        """A tensor with its place in the file, checked."""
        if min(shape) < 1 or shape[-1] % kind.numbers:
            raise self.error(
                f"tensor {short_repr(name)} has shape {shape}; rows of {kind.name} are multiples of {kind.numbers}"
            )
        size = prod(shape) // kind.numbers * kind.bytes
        start = base + offset
        if offset % alignment or start + size > len(self._data):
            raise self.error(
                f"tensor {short_repr(name)} has {size:,} bytes at offset {offset:,}, which do not fit into a file of "
                f"{len(self._data):,} bytes (or are not aligned to {alignment}); get the file again"
            )
        return GgufTensor(shape, kind, start, start + size)
