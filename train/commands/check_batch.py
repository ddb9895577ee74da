"""Check the arrays of one training step, from any trainer: which tokens get which credit, and is that what the scheme intends?

  creditflow check-batch step.npz
  creditflow check-batch step.npz --json

Write the file with numpy.savez, and name its arrays like the arguments of credit.check_batch: advantages and mask, plus
any others you have. The exit code is 1 if the report contains an error.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy

from creditflow.envs.errors import DataError, check_name, short_repr
from creditflow.envs.reading.failures import loading, naming
from creditflow.train.arguments.outputs import add_input, add_json
from creditflow.wrappers import credit

__all__ = ["ARRAYS", "add_arguments", "read_arrays", "run"]

ARRAYS: Final = (
    "advantages",
    "mask",
    "ids",
    "groups",
    "trajectories",
    "rewards",
    "turn_rewards",
    "turns",
    "logprobs",
    "old_logprobs",
    "clip",
    "eos",
    "attention",
    "loss",
)
MAX_BYTES: Final = 2 * 2**30  # of all arrays, decompressed; a step of 16 million tokens has 1 GB
MAX_DIMENSIONS: Final = 2
HEADER: Final = 10_000  # bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_input(parser, "file", metavar="FILE.npz", help="arrays of one training step, as numpy.savez writes them")
    add_json(parser, "print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    path = Path(args.file)
    with naming(path):
        report = credit.check_batch(**read_arrays(path))
    print(json.dumps(report.to_json(), indent=1, allow_nan=False) if args.json else report)
    return int(bool(report.errors))


def read_arrays(path: Path) -> dict[str, Any]:
    """The arguments of ``credit.check_batch`` in a file. Nothing is unpickled, and sizes are checked before memory is taken.

    Raises:
        DataError: no such file, no .npz file, too large, an array of objects or of more than two dimensions, or no
            ``advantages`` or ``mask``.
        ConfigError: an array with an unknown name.
    """
    arrays: dict[str, Any] = {}
    what = f"{path}: cannot be read as the arrays of a training step (.npz, written by numpy.savez)"
    with loading(what), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for member in members:
            name = member.filename.removesuffix(".npy")
            check_name("array", name, ARRAYS)
            if name in arrays:
                raise DataError(f"{path}: the array {name!r} occurs twice")
            arrays[name] = None
        size = sum(member.file_size for member in members)
        if size > MAX_BYTES:
            raise DataError(f"{path}: expected at most {MAX_BYTES:,} bytes of arrays, got {size:,}; write fewer rows")
        for member in members:
            name = member.filename.removesuffix(".npy")
            arrays[name] = _read_array(archive, member, f"{path}: {name}")
    for name in ("eos", "loss"):
        if name in arrays:
            if arrays[name].size != 1:
                raise DataError(f"{path}: {name}: expected one value, got the shape {arrays[name].shape}")
            arrays[name] = arrays[name].item()
    if "eos" in arrays and (isinstance(arrays["eos"], str) or arrays["eos"] != int(arrays["eos"])):
        raise DataError(f"{path}: eos: expected the id of a token, got {short_repr(arrays['eos'])}")
    if missing := [name for name in ("advantages", "mask") if name not in arrays]:
        raise DataError(f"{path}: expected the arrays advantages and mask, {' and '.join(missing)} missing")
    return arrays


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str) -> np.ndarray[Any, Any]:
    """One member of the archive. Its header is read first: it may claim any size, for which NumPy would take memory."""
    with archive.open(member) as stream:
        major, _ = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
        shape, _, dtype = read_header(stream, max_header_size=HEADER)
    if dtype.kind not in "biufU":
        raise DataError(f"{what}: expected numbers, flags or texts, got {dtype}")
    if len(shape) > MAX_DIMENSIONS:
        raise DataError(f"{what}: expected rows and tokens, got the shape {shape}")
    claimed = dtype.itemsize
    for length in shape:
        claimed *= int(length)
    if claimed > member.file_size:
        raise DataError(f"{what}: a header of {claimed:,} bytes on {member.file_size:,}: the file is damaged")
    with archive.open(member) as stream:
        return np.asarray(npy.read_array(stream, allow_pickle=False, max_header_size=HEADER))
