"""Logs of other libraries: every file is read, rejected with its place, or read in part with the rest counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.foreign_logs import SAMPLES, as_lines, sample

from creditflow.train.adapters.logs.episodes import LONGEST, ImportSettings
from creditflow.train.adapters.logs.reading import read_log
from creditflow.wrappers.records.jsonl import read_log as read_again
from creditflow.wrappers.records.jsonl import write_jsonl
from fuzz.mutate_bytes import mutate_bytes
from fuzz.mutate_data import mutate_lines
from fuzz.samples import bomb
from fuzz.target import MismatchError, Target

# fields that name states, and other ways to read a format
SETTINGS = {
    "messages": ImportSettings(),
    "openenv": ImportSettings(state_key="metadata.state"),
    "trl": ImportSettings(state_key="history"),
    "verifiers": ImportSettings(),
    "verifiers before v1": ImportSettings(state_key="none"),
    "verl": ImportSettings(state_key="history"),
    "verl-agent": ImportSettings(state_key="anchor_obs"),
}


def _read(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / "theirs.jsonl"
        path.write_bytes(data)
        log = read_log(sample(name)[0], path, SETTINGS[name]).log
        write_jsonl(folder / "log.jsonl", log)  # what was read can be written and read again, in the same order
        if read_again(folder / "log.jsonl") != log:
            raise MismatchError("the log of an import is not what was imported")

    return read


def _seeds(name: str) -> Callable[[Path], list[bytes]]:
    return lambda _: [as_lines(SAMPLES[name])]


def _traps(name: str) -> Callable[[], list[bytes]]:
    def traps() -> list[bytes]:
        first = SAMPLES[name][0]
        wide = {**first, "output": "user\nassistant\n" * 2 * LONGEST, "messages": [{"role": "assistant"}] * 2 * LONGEST}
        return [
            b"[" * 200_000, b'{"a":' * 50_000, b"\xff\xfe", b"", b"null\n" * 1000,
            b'{"columns": 1, "data": []}', b'{"columns": ["a"], "data": [[1], 1, [1, 2], {}]}',
            as_lines([wide]), bomb(b'{"input": "', b"a" * 1000, 3000),
            json.dumps([first] * 3).encode(), as_lines([first])[:-5],
        ]  # fmt: skip

    return traps


def _tables(place: Path) -> list[bytes]:
    """TRL's sample as Parquet, plain and with a dictionary; pyarrow writes it."""
    from pyarrow import Table
    from pyarrow.parquet import write_table

    found = []
    forms: tuple[dict[str, Any], ...] = ({}, {"compression": "none", "use_dictionary": False}, {"version": "1.0"})
    for number, options in enumerate(forms):
        path = place / f"{number}.parquet"
        write_table(Table.from_pylist(SAMPLES["trl"]), path, **options)
        found.append(path.read_bytes())
    return found


def _parquet(data: bytes, folder: Path) -> None:
    (folder / "theirs.parquet").write_bytes(data if data[:4] == b"PAR1" else b"PAR1" + data)
    read_log("trl", folder / "theirs.parquet")


def _parquet_traps() -> list[bytes]:
    """Cut files, and one text that a dictionary repeats so often that its rows would take many gigabytes."""
    from io import BytesIO

    from pyarrow import DictionaryArray, Table, array
    from pyarrow.parquet import write_table

    rows = 100_000
    texts = DictionaryArray.from_arrays(array([0] * rows), array(["a" * 300_000]))
    stream = BytesIO()
    write_table(Table.from_pydict({"prompt": texts, "completion": texts, "solved": array([1.0] * rows)}), stream)
    return [b"PAR1", b"PAR1" + b"\0" * 5000 + b"PAR1", b"PAR1" + b"\xff" * 5000 + b"\x10\0\0\0PAR1", stream.getvalue()]


TARGETS = [
    Target(
        name=f"foreign/{name.replace(' ', '-')}", read=_read(name), seeds=_seeds(name),
        mutate=mutate_lines, traps=_traps(name), cases=80, place="theirs.jsonl",
    )
    for name in SAMPLES
]  # fmt: skip
TARGETS.append(
    Target(
        name="foreign/parquet", read=_parquet, seeds=_tables, mutate=mutate_bytes, traps=_parquet_traps, cases=200,
        needs=("pyarrow",), place="theirs.parquet",
    )
)  # fmt: skip
