"""Trajectory logs, plain and compressed; panels; partial files of interrupted commands."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from helpers.panels.writing import write_panel

from creditflow.envs.tasks import PanelRow, load_panel, parse_panel
from creditflow.train.annotate.log import annotate_log
from creditflow.train.annotate.registry import Context, make_annotator
from creditflow.wrappers.records.jsonl import read_groups, read_jsonl, write_jsonl
from fuzz.mutate_bytes import below, mutate_bytes
from fuzz.mutate_data import mutate_json, mutate_lines
from fuzz.samples import bomb, env_of, groups, log_text
from fuzz.target import MismatchError, Target

SPARSE = b"@sparse:"  # a trap: a file of this many NUL bytes, which takes no space on the disk


def write_case(path: Path, data: bytes) -> Path:
    """Write the file of a case, and return its path."""
    if data.startswith(SPARSE):
        with path.open("wb") as file:
            file.truncate(int(data.removeprefix(SPARSE)))
    else:
        path.write_bytes(data)
    return path


def _read(name: str) -> Callable[[bytes, Path], None]:
    """Return a reader of a log by both functions, which also checks the round trip of an accepted log."""

    def read(data: bytes, folder: Path) -> None:
        path = write_case(folder / name, data)
        single = list(read_jsonl(path))
        grouped = read_groups(path)
        if sorted(t.trajectory_id for g in grouped for t in g.trajectories) != sorted(t.trajectory_id for t in single):
            raise MismatchError("read_jsonl and read_groups find different trajectories")
        first, second = io.StringIO(), io.StringIO()
        write_jsonl(first, grouped)
        again = read_groups(io.StringIO(first.getvalue()))
        write_jsonl(second, again)
        if first.getvalue() != second.getvalue():
            raise MismatchError("a log changes when it is read and written again")
        if [dict(g.task) for g in again] != [dict(g.task) for g in grouped]:
            raise MismatchError("a task's payload changes when its log is written and read again")
        read_groups(path, by="task")

    return read


def _logs(_: Path) -> Sequence[bytes]:
    return [log_text(name).encode("ascii") for name in ("sokoban", "wikisearch", "webshop")]


def _packed(pack: Callable[[bytes], bytes]) -> Callable[[np.random.Generator, Sequence[bytes]], bytes]:
    """Return a mutator of the compressed bytes, or of the content before compression."""

    def mutate(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
        if below(rng, 3):
            return mutate_bytes(rng, samples)
        return pack(mutate_lines(rng, [log_text("sokoban").encode("ascii")]))

    return mutate


def _bombs() -> Sequence[bytes]:
    line = log_text("sokoban").encode("ascii").split(b"\n")[0]
    return [
        bomb(line + b"\n", b"\n" * 1000, 1000),
        bomb(b'{"format_version":1,"x":"', b"a" * 1000, 1000),
        bomb(b"", b"[" * 1000, 300),
        line,
        b"",
        gzip.compress(line) + b"junk",
        gzip.compress(line)[:-4],
        lzma.compress(line),
    ]


def _line(**changes: object) -> bytes:
    data = json.loads(log_text("sokoban").split("\n")[0])
    return json.dumps({**data, **changes}).encode("ascii") + b"\n"


def _lines() -> Sequence[bytes]:
    text = log_text("wikisearch")
    line = _line()
    return [
        SPARSE + b"300000000",
        b'{"a":' * 100_000,
        line[:-2] + b',"seed":1,"seed":2}\n',
        line.replace(b'"score":', b'"score":0.5,"score":', 1),
        line.replace(b'"turns":', b'"seed":' + b"9" * 5000 + b',"turns":', 1),
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + line,
    ]


# -- partial logs of `annotate` -----------------------------------------------------------------------------
def _annotator() -> object:
    return make_annotator("oracle", Context(make_env=lambda: env_of("sokoban")))


def _partials(place: Path) -> Sequence[bytes]:
    annotate_log(groups("sokoban"), _annotator(), place / "log.jsonl")  # type: ignore[arg-type]  # an Annotator
    return [(place / "log.jsonl").read_bytes()]


def _resume(data: bytes, folder: Path) -> None:
    (folder / "log.jsonl.partial").write_bytes(data)
    annotate_log(groups("sokoban"), _annotator(), folder / "log.jsonl", resume=True)  # type: ignore[arg-type]  # a stand-in annotator
    found = read_groups(folder / "log.jsonl")
    if [g.group_id for g in found] != [g.group_id for g in groups("sokoban")]:
        raise MismatchError("a resumed annotation writes other groups than its input")


# -- panels ----------------------------------------------------------------------------------------------------------
def _panels(place: Path) -> Sequence[bytes]:
    found = []
    for env, name in (("sokoban", "small-v1"), ("alfworld", "standard-v1"), ("wikisearch", "standard-v1")):
        write_panel(place / f"{env}.json", load_panel(env, name).rows[:4])
        found.append((place / f"{env}.json").read_bytes())
    return found


def _read_panel(data: bytes, folder: Path) -> None:
    panel = parse_panel(data.decode("utf-8", "replace"), "fuzz/panel")
    for row in panel.rows:
        if not isinstance(row, PanelRow) or not isinstance(row.task_id, str):
            raise MismatchError(f"a panel has the row {row!r:.80}")


TARGETS = (
    Target(
        name="logs/plain", read=_read("log.jsonl"), seeds=_logs, mutate=mutate_lines, traps=_lines, cases=250,
        place="log.jsonl", megabytes=384,
    ),
    Target(
        name="logs/gz", read=_read("log.jsonl.gz"), seeds=lambda p: [gzip.compress(x) for x in _logs(p)],
        mutate=_packed(gzip.compress), traps=_bombs, cases=100, place="log.jsonl.gz", megabytes=512, seconds=5.0,
    ),
    Target(
        name="logs/xz", read=_read("log.jsonl.xz"), seeds=lambda _: [], mutate=mutate_bytes, cases=0, place="log.jsonl.xz",
        traps=lambda: [lzma.compress(log_text("sokoban").encode("ascii")), b"", b"\xfd7zXZ\0\0"],
    ),
    Target(name="logs/partial", read=_resume, seeds=_partials, mutate=mutate_lines, cases=50, place="log.jsonl.partial"),
    Target(
        name="logs/panel", read=_read_panel, seeds=_panels, mutate=mutate_json, cases=250, place="fuzz/panel",
        traps=lambda: [b"[" * 100_000, b'{"format_version":1,"rows":[{"task_id":[],"split":"a","locator":{}}]}',
                       b'{"format_version":' + b"9" * 5000 + b',"rows":[]}'],
    ),
)  # fmt: skip
