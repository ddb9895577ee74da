"""Where figures come from: the commit by its digits, whatever its tags."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from creditflow.train.bench import document


def test_a_commit_is_named_by_its_digits_although_it_has_a_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        identity = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "tag.gpgsign=false",
        ]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setattr(document, "__file__", str(tmp_path / "document.py"))
    assert document.commit() == ""
    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    git("tag", "-a", "v1.0.0", "-m", "release")
    assert document.commit() == git("rev-parse", "HEAD")[:9]
    (tmp_path / "file").write_text("two")
    assert document.commit() == git("rev-parse", "HEAD")[:9] + "-dirty"
