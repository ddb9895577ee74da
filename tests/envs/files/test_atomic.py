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

from creditflow.envs.errors import DataError
from creditflow.envs.files.appended import cut_torn_line
from creditflow.envs.files.atomic import atomic_path, atomic_writer, new_folder, write_json
from creditflow.envs.files.leftovers import remove_leftovers_below
from creditflow.envs.files.locks import BusyError, locked

LOCKS = "import sys\nfrom creditflow.envs.files.locks import locked\nwith locked(sys.argv[1]):\n"
HOLDS = LOCKS + "    print('ready', flush=True); sys.stdin.read()\n"
# a forked child of the lock's holder, such as a worker, outlives it
FORKS = LOCKS + (  # the child itself says that it is ready: the parent may return from fork before the child does
    "    import os, time\n"
    "    if os.fork(): time.sleep(600)\n"
    "    else: print(os.getpid(), flush=True); sys.stdin.read(); os._exit(0)\n"
)
WRITES = (
    "import sys\nfrom pathlib import Path\nfrom creditflow.envs.files.atomic import atomic_writer, new_folder\n"
    "with atomic_writer(sys.argv[1] + '/file'), new_folder(Path(sys.argv[1], 'folder')):\n"
    "    print('ready', flush=True); sys.stdin.read()\n"
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


def ended_pid() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    return ended.pid


def left_by(pid: int, folder: Path) -> list[Path]:
    """Make what a killed writer with this id leaves of a file and a folder; return the paths."""
    places = [folder / f"file.{pid}.tmp", folder / f"folder.{pid}.tmp", folder / f"folder.old.{pid}.tmp"]
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


def test_temporary_files_of_ended_processes_are_removed_by_the_next_writer(tmp_path: Path) -> None:
    left = left_by(ended_pid(), tmp_path) + left_by(os.getpid(), tmp_path)  # our own id: an earlier process had it
    write(tmp_path)
    assert not any(place.exists() for place in left)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_temporary_files_of_live_processes_are_kept(tmp_path: Path) -> None:
    with process("print('ready', flush=True); input()", tmp_path) as (living, _):
        left = left_by(living.pid, tmp_path)
        write(tmp_path)
        remove_leftovers_below(tmp_path)
        assert all(place.exists() for place in left)


def test_a_writer_on_another_machine_is_recognised_by_its_lock(tmp_path: Path) -> None:
    with process(WRITES, tmp_path) as (writer, _):
        ended = ended_pid()  # a writer on another machine has an id that is not alive here
        for name in ("file", "folder"):
            (tmp_path / f"{name}.{writer.pid}.tmp").rename(tmp_path / f"{name}.{ended}.tmp")
        write(tmp_path)
        assert {f"file.{ended}.tmp", f"folder.{ended}.tmp"} <= {path.name for path in tmp_path.iterdir()}
    write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_files_with_similar_names_are_kept(tmp_path: Path) -> None:
    kept = [f"other.{ended_pid()}.tmp", "file.tmp", "file.12a.tmp", "file.99999999999999.tmp", "a.file.1.tmp"]
    for name in kept:
        (tmp_path / name).write_text("somebody else's")
    write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "file", "folder"])


def test_a_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "file") as first:
        first.write_text("first")
        with pytest.raises(DataError, match="is already being written"), atomic_path(tmp_path / "file"):
            pass
    assert (tmp_path / "file").read_text() == "first"


def test_a_held_lock_is_an_error_and_a_kill_releases_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "log.jsonl"
    alias = tmp_path / "alias"
    with process(HOLDS, out) as (holder, _):
        alias.symlink_to(out.parent)
        for name in (out, alias / "log.jsonl", out.parent / ".." / "new" / "log.jsonl"):
            with (
                pytest.raises(BusyError, match=f"log.jsonl: another command .process {holder.pid}. is writing"),
                locked(name),
            ):
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
