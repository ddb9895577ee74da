"""Each patch names its commit, brings a test, and applies to a checkout of it, where a variable names one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PATCHES = sorted(FOLDER.glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_patch_changes_code_and_tests_and_its_commit_is_named(patch: Path) -> None:
    changed = re.findall(r"^\+\+\+ b/(\S+)$", patch.read_text(encoding="utf-8"), re.M)
    assert any(name.startswith("tests/") for name in changed)
    assert any(not name.startswith("tests/") for name in changed)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{patch.name}` \| \S+/\S+ [0-9a-f]{{7}} \|", page, re.M)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_patch_applies_to_its_commit(patch: Path) -> None:
    variable = f"{patch.stem.upper()}_SOURCE"
    source = os.environ.get(variable, "")
    if not source:
        pytest.skip(f"{variable} names no checkout (tests/upstream/README.md has its commit)")
    subprocess.run(["git", "apply", "--check", str(patch)], cwd=source, check=True)
