"""Temporary files of killed writers, their removal, and locks that end with their holder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from helpers.shared_data import ROOT
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.files.appended import cut_torn_line
from creditflow.envs.files.atomic import (
    BusyError,
    atomic_path,
    atomic_writer,
    locked,
    new_folder,
    remove_leftovers,
    remove_leftovers_below,
    write_json,
)

LOCKS = "import sys\nfrom creditflow.envs.files.atomic import locked\nwith locked(sys.argv[1]):\n"
HOLDS = LOCKS + "    print('ready', flush=True); sys.stdin.read()\n"
# a forked child of the lock's holder, such as a worker, outlives it
FORKS = LOCKS + (  # the child itself says that it is ready: the parent may return from fork before the child does
    "    import os, time\n"
    "    if os.fork(): time.sleep(600)\n"
    "    else: print(os.getpid(), flush=True); sys.stdin.read(); os._exit(0)\n"
)
# replaces a folder, and is killed at the N-th change of a name; argument 2 takes the exchange of two names away
REPLACES = (
    "import ctypes, os, signal, sys\nfrom pathlib import Path\nfrom creditflow.envs.files import atomic\n"
    "left = int(sys.argv[2])\n"
    "def counted(call):\n"
    "    def counts(*arguments, **named):\n"
    "        global left\n"
    "        result = call(*arguments, **named)\n"
    "        left -= 1\n"
    "        if not left: os.kill(os.getpid(), signal.SIGKILL)\n"
    "        return result\n"
    "    return counts\n"
    "if sys.argv[3] == 'two': atomic.ctypes.CDLL = lambda name: None\n"
    "else:\n"
    "    library = ctypes.CDLL(None)\n"
    "    class Counted: renameat2 = staticmethod(counted(library.renameat2))\n"
    "    atomic.ctypes.CDLL = lambda name: Counted\n"
    "Path.rename, atomic.shutil.rmtree = counted(Path.rename), counted(atomic.shutil.rmtree)\n"
    "with atomic.new_folder(Path(sys.argv[1]), replace=True) as place:\n"
    "    (place / 'text').write_text('new')\n"
)


@contextmanager
def process(code: str, argument: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a process; yield it with its first line of output, and kill it at the end."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(argument)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as started:  # fmt: skip
        try:
            assert started.stdout is not None
            yield started, started.stdout.readline().strip()
        finally:
            started.kill()


def left_by_a_killed_writer(folder: Path) -> list[Path]:
    """Make what a killed writer leaves of a file and a folder; return the paths."""
    places = [folder / f"{name}.tmp" for name in ("file.0123abcd", "folder.89efcdab", "folder.old")]
    places[0].write_text("half")
    for place in places[1:]:
        place.mkdir()
        (place / "half").write_text("half")
    return places


def write(folder: Path) -> None:
    with atomic_writer(folder / "file") as stream:
        stream.write("whole")
    with new_folder(folder / "folder", replace=True) as place:
        (place / "whole").write_text("whole")


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    write(tmp_path)
    left = left_by_a_killed_writer(tmp_path)
    remove_leftovers(tmp_path / "file")
    assert [place.exists() for place in left] == [False, True, True]
    remove_leftovers_below(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "folder" / "whole").read_text() == "whole"


def test_files_with_similar_names_are_kept(tmp_path: Path) -> None:
    kept = ["other.0123abcd.tmp", "file.tmp", "file.0123abc.tmp", "file.12345.tmp", "a.file.0123abcd.tmp"]
    for name in kept:
        (tmp_path / name).write_text("somebody else's")
    write(tmp_path)
    for name in ("file", "folder"):
        remove_leftovers(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "file", "folder"])


@pytest.mark.parametrize("killed_after", [1, 2, 3])
@pytest.mark.parametrize("steps", ["one", "two"])
def test_a_kill_while_a_folder_is_replaced_loses_neither_version(tmp_path: Path, steps: str, killed_after: int) -> None:
    best = tmp_path / "run" / "best"
    with new_folder(best) as place:
        (place / "text").write_text("old")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", REPLACES, best, str(killed_after), steps], env=environment, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    if steps == "one":  # there is no moment without the folder
        assert (best / "text").read_text() == "new"
    remove_leftovers_below(tmp_path)
    assert (best / "text").read_text() == ("old" if (steps, killed_after) == ("two", 1) else "new")
    assert [path.name for path in best.parent.iterdir()] == ["best"]


def test_a_writer_that_is_not_a_command_restores_the_old_version_too(tmp_path: Path) -> None:
    (tmp_path / "best.old.tmp").mkdir()
    with pytest.raises(OSError, match="not empty"), new_folder(tmp_path / "best") as place:
        (tmp_path / "best.old.tmp" / "text").write_text("old")
        (place / "text").write_text("new")
    assert (tmp_path / "best" / "text").read_text() == "old"


@pytest.mark.parametrize("named", ["through a link", "directly"])
def test_a_replaced_file_or_folder_keeps_its_place_and_mode(tmp_path: Path, named: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    write(disk)
    (disk / "file").chmod(0o600)
    (disk / "folder").chmod(0o700)
    given = disk
    if named == "through a link":
        given = tmp_path / "links"
        given.mkdir()
        for name in ("file", "folder"):
            (given / name).symlink_to(disk / name)
    (disk / "file").write_text("old")
    write(given)
    assert (given / "file").is_symlink() == (given / "folder").is_symlink() == (named == "through a link")
    assert (disk / "file").read_text() == "whole"
    assert [(disk / name).stat().st_mode & 0o777 for name in ("file", "folder")] == [0o600, 0o700]
    assert sorted(path.name for path in disk.iterdir()) == ["file", "folder"]


def test_a_new_file_has_the_mode_of_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", "folder")] == [0o640, 0o750]


def test_of_two_writers_each_writes_a_whole_file(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "file") as first, atomic_path(tmp_path / "file") as second:
        first.write_text("first")
        second.write_text("second")
    assert (tmp_path / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_held_lock_is_an_error_and_a_kill_releases_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "log.jsonl"
    alias = tmp_path / "alias"
    with process(HOLDS, out) as (holder, _):
        alias.symlink_to(out.parent)
        for name in (out, alias / "log.jsonl", out.parent / ".." / "new" / "log.jsonl"):
            with pytest.raises(BusyError, match=r"log\.jsonl: another command is writing there"), locked(name):
                pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with locked(out):
            pass
    assert list(out.parent.iterdir()) == []


def test_a_forked_child_that_outlives_its_parent_holds_no_lock(tmp_path: Path) -> None:
    with process(FORKS, tmp_path / "log.jsonl") as (holder, child):
        try:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            os.kill(int(child), 0)  # it lives
            with locked(tmp_path / "log.jsonl"):
                pass
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_lock_removes_folders_that_it_created(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b" / "out"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a").exists()


@given(
    st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")), max_size=5),
    st.binary(min_size=1, max_size=8),
)
def test_an_unfinished_last_line_is_removed_before_the_next_is_appended(lines: list[bytes], torn: bytes) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cache.jsonl")
        path.write_bytes(whole + torn.replace(b"\n", b"x"))
        cut_torn_line(path)
        assert path.read_bytes() == whole


def test_json_has_null_for_nan_and_no_infinity(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write_json(path, {"a": [float("nan"), (1.5, np.float64("nan"))], "é": {"b": None, "c": "nan"}})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": [None, [1.5, None]], "é": {"b": None, "c": "nan"}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("inf")})
    assert json.loads(path.read_text(encoding="utf-8"))["a"] == [None, [1.5, None]]
