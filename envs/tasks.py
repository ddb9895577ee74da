"""Tasks and panels: content-addressed problem instances, and published lists of them.

A task id is a hash of the task's *content*, so the same id is the same problem on any worker, machine and year; a
canonical id is the same hash taken up to the environment's symmetries, and is what splits are disjoint by.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError, short_repr, unknown_name_error
from creditflow.envs.reading.json_text import parse_json

__all__ = [
    "Panel",
    "PanelRow",
    "RowTasks",
    "Task",
    "TaskSource",
    "content_id",
    "load_panel",
    "panel_names",
    "parse_panel",
    "parse_panel_spec",
    "sample_index",
]

PANEL_FORMAT = 1
SUFFIXES = (".json", ".json.gz")
BUILT = 1024  # tasks of a source kept in memory; a released ALFWorld game takes some 100 KB


def content_id(prefix: str, content: Any) -> str:
    """Return ``prefix`` + ":" + blake2b-128 of the content's canonical JSON (sorted keys, no spaces, ASCII).

    >>> content_id("demo1", {"b": 1, "a": "x"})
    'demo1:ef801795c4aac48b1738ef676ae7d53b'
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f"{prefix}:{hashlib.blake2b(text.encode('ascii'), digest_size=16).hexdigest()}"


def sample_index(rng: np.random.Generator, n: int) -> int:
    """Sample a uniform index below ``n`` from one raw 64-bit integer.

    NumPy keeps the raw stream of a bit generator stable across versions, but not its distributions.
    """
    raw = int(rng.bit_generator.random_raw())
    return (raw * n) >> 64


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance.

    Attributes:
        task_id: ``"<env><generation>:<32 hex digits>"``, a hash of the content.
        canonical_id: the same up to symmetry.
        content: the JSON-able canonical content.
    """

    task_id: str
    canonical_id: str
    content: Mapping[str, Any]


class TaskSource(Protocol):
    """A source of an environment's tasks: a panel, level files, a generator."""

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a task with raw integers of ``rng``."""
        ...

    def get(self, task_id: str) -> Task:
        """Return the task with this id.

        Raises:
            UnknownTaskError: this source does not have it.
        """
        ...

    def from_content(self, content: Any) -> Task:
        """Return the task with this content.

        Raises:
            DataError: malformed content.
        """
        ...

    def task_ids(self) -> tuple[str, ...]:
        """Return all ids in their published order; () for an endless source."""
        ...


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One line of a panel.

    Attributes:
        task_id: id that the task of the locator must have.
        split: "train", "valid" or "test", or the name of a released split; "all" in sources without splits.
        locator: content of the task, or arguments of its generator.
        strata: named properties by which the panel is stratified.
    """

    task_id: str
    split: str
    locator: Mapping[str, Any]
    strata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """A named, ordered, published list of tasks.

    Attributes:
        name: "<env>/<name>-v<k>".
        rows: in published order.
    """

    name: str
    rows: tuple[PanelRow, ...]

    def split(self, name: str) -> tuple[PanelRow, ...]:
        """Return the rows of one split, or of several joined by "+", in order; "all" returns every row.

        Raises:
            ConfigError: no such split.
        """
        splits = {row.split for row in self.rows}
        named = set(name.split("+"))
        for unknown in sorted(named - splits - {"all"}):
            raise unknown_name_error(f"split of panel {self.name}", unknown, splits | {"all"})
        return tuple(row for row in self.rows if "all" in named or row.split in named)


def panel_names(env: str) -> tuple[str, ...]:
    """Return the names of the embedded panels of an environment, such as "standard-v1"."""
    folder = files("creditflow.assets") / "panels" / env
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name.split(".")[0] for entry in folder.iterdir() if entry.name.endswith(SUFFIXES)))


def load_panel(env: str, name: str) -> Panel:
    """Load an embedded panel of ``env``.

    Raises:
        ConfigError: no such panel.
        DataError: the file violates the panel format.
    """
    if name not in panel_names(env):
        raise unknown_name_error(f"panel of {env}", name, panel_names(env))
    return _embedded_panel(env, name)


@lru_cache(maxsize=16)  # an embedded panel never changes, and every environment that is made reads one
def _embedded_panel(env: str, name: str) -> Panel:
    folder = files("creditflow.assets") / "panels" / env
    plain = folder / f"{name}.json"
    data = plain.read_bytes() if plain.is_file() else gzip.decompress((folder / f"{name}.json.gz").read_bytes())
    return parse_panel(data.decode("utf-8"), f"{env}/{name}")


def parse_panel(text: str, name: str) -> Panel:
    """Parse the JSON text of a panel: ``{"format_version": 1, "rows": [{task_id, split, locator, strata}]}``.

    Raises:
        DataError: the first error, with its row.
    """
    where = f"panel {name}"
    try:
        data = parse_json(text, where=where)
    except DataError as error:
        raise DataError(f"{error}; not in panel format {PANEL_FORMAT}") from error
    if not isinstance(data, dict) or "format_version" not in data or not isinstance(data.get("rows"), list):
        raise DataError(f"{where}: not in panel format {PANEL_FORMAT}: expected format_version and a list of rows")
    if data["format_version"] != PANEL_FORMAT:
        raise DataError(f"{where}: format_version {data['format_version']!r:.60}, expected {PANEL_FORMAT}")
    rows = tuple(_row(row, f"{where}, row {number}") for number, row in enumerate(data["rows"]))
    if len({row.task_id for row in rows}) != len(rows):
        raise DataError(f"{where}: a task_id occurs twice")
    return Panel(name, rows)


def _row(row: Any, where: str) -> PanelRow:
    kinds = {"task_id": str, "split": str, "locator": dict, "strata": dict}
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object, got {type(row).__name__}")
    values = {"strata": {}, **row}
    for field, kind in kinds.items():
        if not isinstance(values.get(field), kind):
            expected = "a string" if kind is str else "an object"
            raise DataError(f"{where}: {field} must be {expected}, got {short_repr(values.get(field))}")
    return PanelRow(*(values[field] for field in kinds))


def parse_panel_spec(env: str, spec: str) -> tuple[PanelRow, ...]:
    """Return the rows of "<panel>:<split>", the syntax of the command line; a missing split means "all".

    Raises:
        ConfigError: unknown panel or split.
    """
    name, _, split = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if not name:
        raise ConfigError(f"a panel is written NAME:SPLIT, got {short_repr(spec)}")
    return load_panel(env, name).split(split or "all")


class RowTasks:
    """A finite task source: rows, built on demand and verified against their published ids.

    Args:
        env: name of the environment, for messages.
        rows: rows in published order.
        build: makes a task from a locator or a user's content; raises ``DataError`` if it is malformed.

    Raises:
        ConfigError: no rows.
    """

    def __init__(self, env: str, rows: Sequence[PanelRow], build: Callable[[Any], Task]) -> None:
        if not rows:
            raise ConfigError(f"{env}: the task source is empty")
        self.env = env
        self.rows = tuple(rows)
        self._build = build
        self._index = {row.task_id: i for i, row in enumerate(self.rows)}
        self._built: OrderedDict[int, Task] = OrderedDict()

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a row uniformly."""
        return self._task(sample_index(rng, len(self.rows)))

    def get(self, task_id: str) -> Task:
        """Return the task of the row with this id.

        Raises:
            UnknownTaskError: no row has this id.
            DataError: the row's content does not hash to its id.
        """
        index = self._index.get(task_id)
        if index is None:
            raise UnknownTaskError(
                f"{self.env}: task {short_repr(task_id)} is not among the {len(self.rows)} tasks of this source; open the "
                "environment with the panel, level file or data it comes from, or give its content too: "
                "reset(options={'task_id': …, 'task': …})"
            )
        return self._task(index)

    def from_content(self, content: Any) -> Task:
        """Return the task with this content, listed or not."""
        return self._build(content)

    def task_ids(self) -> tuple[str, ...]:
        """Return all ids in order."""
        return tuple(row.task_id for row in self.rows)

    def _task(self, index: int) -> Task:
        task = self._built.get(index)
        if task is None:
            row = self.rows[index]
            task = self._build(row.locator)
            if task.task_id != row.task_id:
                raise DataError(
                    f"{self.env}: row {index} is published as {row.task_id} but its content hashes to {task.task_id}; "
                    "the file was changed, or written by another version"
                )
            self._built[index] = task
            if len(self._built) > BUILT:
                self._built.popitem(last=False)
        return task
