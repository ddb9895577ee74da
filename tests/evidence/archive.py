"""The archive of all stored results for a repository with a DOI: the same files give the same bytes, and so the same digest.

  python tests/evidence/archive.py --out build/creditflow-results.zip

The archive has the results with their pages and scripts, ``CITATION.cff``, and ``SHA256SUMS`` with a line for each file. Prints its digest.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from creditflow.envs.files.atomic import atomic_path

__all__ = ["archive", "archived"]

ROOT: Final = Path(__file__).resolve().parents[2]
KINDS: Final = (".json", ".gz", ".jsonl", ".txt", ".md", ".py", ".yaml", ".png")
MOMENT: Final = (1980, 1, 1, 0, 0, 0)  # of every entry


def archived() -> list[Path]:
    """The files of the archive, sorted."""
    folder = ROOT / "tests" / "evidence"
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts
    ]
    return sorted([*files, ROOT / "CITATION.cff"])


def archive(out: Path) -> str:
    """Write the archive; returns its SHA-256 digest."""
    sums = []
    with atomic_path(out) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as writer:
            for path in archived():
                name, content = path.relative_to(ROOT).as_posix(), path.read_bytes()
                sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}")
                writer.writestr(zipfile.ZipInfo(name, MOMENT), content, zipfile.ZIP_DEFLATED)
            writer.writestr(zipfile.ZipInfo("SHA256SUMS", MOMENT), "\n".join(sums) + "\n", zipfile.ZIP_DEFLATED)
        return hashlib.sha256(temporary.read_bytes()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the archive and print its digest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the archive to write")
    out = parser.parse_args(arguments).out
    out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{archive(out)}  {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
