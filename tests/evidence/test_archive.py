"""The archive of results: all of them, with digests, and the same bytes every time."""

import hashlib
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from evidence.archive import ROOT, archive

from creditflow.assets.site.make.evidence import result_files


def test_two_archives_of_the_same_files_have_one_digest(tmp_path):
    first, second = (archive(tmp_path / name) for name in ("a.zip", "b.zip"))
    assert first == second == hashlib.sha256((tmp_path / "b.zip").read_bytes()).hexdigest()


def test_every_result_of_the_index_is_in_the_archive_with_its_digest(tmp_path):
    archive(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as stored:
        sums = dict(line.split("  ")[::-1] for line in stored.read("SHA256SUMS").decode().splitlines())
        for path in result_files():
            name = path.relative_to(ROOT).as_posix()
            assert hashlib.sha256(stored.read(name)).hexdigest() == sums[name]
        assert "CITATION.cff" in sums
