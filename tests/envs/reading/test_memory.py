"""Small files that expand to gigabytes are rejected with an error that names the file, within bounded memory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from creditflow.envs.reading.limits import MAX_LINE

SIZE = 2**31  # bytes to which the files expand
MEMORY = 2**31  # address space of the reading process; its libraries map about 1 GB of it
SECONDS = 120

READ = {
    "log": "from creditflow.wrappers.trajectory import read_groups; read_groups({path!r})",
    "questions": "from creditflow.envs.wikisearch.question_files import read_questions; read_questions({path!r})",
    "passages": "from creditflow.envs.wikisearch.retrieval.base import read_passages; list(read_passages({path!r}))",
    "game": "from creditflow.envs.alfworld.game_files.reading import content_from_file as f; from pathlib import Path; f(Path({path!r}))",
    "settings": "from creditflow.train.settings.reading import load_mapping; load_mapping({path!r})",
    "shop": "from creditflow.envs.webshop.catalogue.records import stream_records; list(stream_records({path!r}))",
}


def packed_zeros(path: Path) -> None:
    path.write_bytes(gzip.compress(b"0" * 2**20) * (SIZE >> 20))  # archives one after the other are one archive


def aliases(path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    path.write_text("\n".join(rows))


CASES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "a log that unpacks": ("log", "log.jsonl.gz", lambda path: packed_zeros(path)),
    "a long line of a log": ("log", "log.jsonl", lambda path: path.write_bytes(b"[" + b"0," * (MAX_LINE // 2) + b"0]")),
    "a line of empty objects": (
        "log",
        "log.jsonl",
        lambda path: path.write_bytes(b"[" + b"{}," * 5_000_000 + b"{}]\n"),
    ),
    "questions that unpack": ("questions", "q.json.gz", lambda path: packed_zeros(path)),
    "passages that unpack": ("passages", "p.jsonl.gz", lambda path: packed_zeros(path)),
    "a shop that unpacks": ("shop", "items.json.gz", lambda path: packed_zeros(path)),
    "a deep game": ("game", "game.tw-pddl", lambda path: path.write_bytes(b"[" * 8_000_000)),
    "a long number": ("game", "game.tw-pddl", lambda path: path.write_bytes(b"9" * 7_999_999)),
    "aliases": ("settings", "c.yaml", lambda path: aliases(path)),
    "a deep setting": ("settings", "c.yaml", lambda path: path.write_text("[" * 200_000)),
    "a deep table": ("settings", "c.toml", lambda path: path.write_text("a = " + "[" * 200_000)),
}


@pytest.mark.parametrize("name", CASES)
def test_files_that_expand_to_gigabytes_are_rejected_in_bounded_memory(tmp_path: Path, name: str) -> None:
    reader, file, make = CASES[name]
    path = tmp_path / file
    make(path)
    code = (
        "from creditflow.envs.errors import DataError\n"
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
        f"try:\n    {READ[reader].format(path=str(path))}\n"
        "except DataError as error:\n    print(error)\n    sys.exit(3)\n"
    )
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # each maps memory of its own
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **threads}
    )
    assert done.returncode == 3, done.stderr[-2_000:]
    assert str(path) in done.stdout
    assert len(done.stdout) < 1_000
