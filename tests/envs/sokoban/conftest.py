"""Golden transcripts and real levels from the folder beside the repository; tests that need it are skipped where it is absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.shared_data import SHARED

XSB_BY_CODE = "# .*$@"


def _files(folder: Path, pattern: str) -> list:
    if not SHARED.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"golden data is not here: {SHARED}"))]
    found = sorted(folder.rglob(pattern)) if folder.is_dir() else []
    return [pytest.param(path, id=path.stem) for path in found] or [pytest.param(None, id="missing")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "transcript" in metafunc.fixturenames:
        files = _files(SHARED / "conformance" / "sokoban", "*.json")
        metafunc.parametrize("transcript", files, indirect=True)
    if "boxoban_file" in metafunc.fixturenames:
        metafunc.parametrize("boxoban_file", _files(SHARED / "data" / "boxoban", "*.txt"), indirect=True)


@pytest.fixture
def transcript(request):
    """One recorded episode, with its start as XSB text under "xsb"."""
    if request.param is None:
        pytest.fail(f"{SHARED} is here but contains no Sokoban transcript")
    record = json.loads(request.param.read_text(encoding="utf-8"))
    fixed, state = record["room_fixed"], record["room_state"]
    record["xsb"] = "\n".join(
        "".join("+" if code == 5 and fixed[r][c] == 2 else XSB_BY_CODE[code] for c, code in enumerate(row))
        for r, row in enumerate(state)
    )
    return record


@pytest.fixture
def boxoban_file(request):
    """One Boxoban level file."""
    if request.param is None:
        pytest.fail(f"{SHARED} is here but contains no Boxoban file")
    return request.param
