"""Damage to checksummed folders: one file is mutated, and new checksums may be written, as anybody can."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from creditflow.envs.files.checksummed_folder import HEADER, write_checksums
from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import mutate_json

__all__ = ["damaged", "mutate_sealed", "unpack"]


def unpack(folder: Path) -> bytes:
    """Return the sample of a folder: a case that changes nothing, with every file's content in Latin-1 for the mutator."""
    files = {path.name: path.read_bytes().decode("latin-1") for path in sorted(folder.iterdir())}
    return json.dumps({"file": "", "files": files}).encode("ascii")


def mutate_sealed(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    """Return a case in which one file is damaged, missing, or has another file's content; in 4 of 5 with new checksums."""
    sample = json.loads(samples[0])
    files: dict[str, str] = sample["files"]
    name = pick(rng, sorted(files))
    data = files[name].encode("latin-1")
    if name.endswith(".json"):
        new = mutate_json(rng, [data])
    elif below(rng, 6) == 0:
        new = pick(rng, [text.encode("latin-1") for text in files.values()])
    elif below(rng, 3) == 0 and len(data) >= 8:
        numbers = bytearray(data)
        width = pick(rng, (4, 8))
        at = below(rng, len(data) // width) * width
        numbers[at : at + width] = pick(rng, (b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 8, b"\x01" + b"\0" * 7))[
            :width
        ]
        new = bytes(numbers)
    else:
        new = mutate_bytes(rng, [data or b"\0"])
    return json.dumps(
        {"file": name, "to": new.decode("latin-1"), "gone": below(rng, 20) == 0, "seal": below(rng, 5) > 0}
    ).encode("ascii")


def damaged(source: Path, case: bytes, target: Path) -> None:
    """Copy a folder, with the change of the case."""
    shutil.copytree(source, target)
    plan = json.loads(case)
    if not plan["file"]:
        return
    path = target / plan["file"]
    if plan["gone"]:
        path.unlink()
    else:
        path.write_bytes(plan["to"].encode("latin-1"))
    if plan["seal"] and plan["file"] != HEADER:
        header = json.loads((target / HEADER).read_text(encoding="ascii"))
        (target / HEADER).unlink()
        facts = {key: value for key, value in header.items() if key not in ("files", "format", "checksum")}
        write_checksums(target, header["format"], facts)
