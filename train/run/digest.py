"""Digests of models and data files, for provenance and the identity of a run."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError
from creditflow.envs.reading.failures import loading

__all__ = ["content_digest", "file_digest", "folder_digest"]

CHUNK = 2**22
FULL_DIGEST_BYTES: Final = 2**30  # of a larger data file only the size and both ends are digested
SUFFIXES = (".safetensors", ".json", ".model", ".txt", ".jinja")


def folder_digest(folder: str | Path) -> str:
    """Digest of a model folder: "blake2b:" and 32 hexadecimal digits over its weights, configs and tokenizer.

    Raises:
        DataError: no such folder, or it has no weights.
    """
    path = Path(folder)
    if not any(path.glob("*.safetensors")):
        raise DataError(f"{path}: no model here (no .safetensors file)")
    return content_digest(path)


def content_digest(folder: str | Path) -> str:
    """Digest of any folder, such as that of a tokenizer alone."""
    digest = blake2b(digest_size=16)
    for file in sorted(f for f in Path(folder).glob("*") if f.suffix in SUFFIXES):
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with loading(f"{file}: cannot be read"), file.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    return f"blake2b:{digest.hexdigest()}"


def file_digest(path: str | Path) -> str:
    """Digest of one data file."""
    digest, size = blake2b(digest_size=16), Path(path).stat().st_size
    digest.update(f"{size}\0".encode())
    with Path(path).open("rb") as stream:
        if size > FULL_DIGEST_BYTES:
            digest.update(stream.read(CHUNK))
            stream.seek(-CHUNK, 2)
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return f"blake2b:{digest.hexdigest()}"
