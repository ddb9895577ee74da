"""Which model wrote a number: a digest of everything in its folder that its numbers depend on."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from creditflow.envs.errors import DataError
from creditflow.envs.reading.failures import loading

__all__ = ["folder_digest"]

CHUNK = 2**22


def folder_digest(folder: str | Path) -> str:
    """The text "blake2b:" and 32 hexadecimal digits over names and contents of weights, configs and tokenizer.

    Raises:
        DataError: there is no such folder, or it holds no weights.
    """
    path = Path(folder)
    files = sorted(f for f in path.glob("*") if f.suffix in (".safetensors", ".json", ".model", ".txt"))
    if not any(f.suffix == ".safetensors" for f in files):
        raise DataError(f"{path}: no model here (no .safetensors file)")
    digest = blake2b(digest_size=16)
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with loading(f"{file}: cannot be read"), file.open("rb") as stream:
            while part := stream.read(CHUNK):
                digest.update(part)
    return f"blake2b:{digest.hexdigest()}"
