"""Where ALFWorld tasks come from: the generator, a folder of released games, one game, or a panel."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.alfworld.game_files.content import game_task, validate_content
from creditflow.envs.alfworld.game_files.folder import find_root, game_paths
from creditflow.envs.alfworld.game_files.reading import content_from_fields, fields_from_file
from creditflow.envs.alfworld.generator import SPLITS, generate
from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError, check_name, short_repr
from creditflow.envs.tasks import PanelRow, RowTasks, Task, TaskSource, load_panel, parse_panel_spec, sample_index

__all__ = ["EMBEDDED_PANEL", "FolderTasks", "GeneratedTasks", "build_task", "open_tasks"]

EMBEDDED_PANEL: Final = "standard-v3"
REMEMBERED: Final = 4096  # locators of sampled games
PARSED: Final = 512  # released games kept in memory per folder, some 100 KB each
SEEDS: Final = 2**62  # number of seeds of a split


def build_task(content: Any, root: Path | None = None) -> Task:
    """Return the task of one game, described in any of the accepted ways.

    Args:
        content: a game's content; the fields of a ``.tw-pddl`` file; the arguments of ``generate`` (a panel's locator);
            ``{"path": …}`` relative to ``root``; or the path of a game file.
        root: the folder of released games, for locators of released panels.

    Raises:
        DataError: a malformed description.
        ConfigError: a locator of a released panel without ``data_path``.
    """
    if isinstance(content, str):
        return game_task(_solvable(fields_from_file(Path(content).expanduser()), content))
    if not isinstance(content, Mapping):
        raise DataError(f"a game is a dictionary or the path of a .tw-pddl file, got {type(content).__name__}")
    if "pddl_problem" in content or "grammar" in content:
        return game_task(_solvable(content, "game"))
    if "seed" in content:
        return game_task(generate(**_checked_locator(content)))
    if set(content) == {"path"}:
        return game_task(_solvable(fields_from_file(_released(content["path"], root)), str(content["path"])))
    return game_task(validate_content(content, "game"))


class UnsolvableError(DataError):
    """The game file declares its game unsolvable."""


def _solvable(fields: Mapping[str, Any], source: str) -> dict[str, Any]:
    if fields.get("solvable") is False:
        raise UnsolvableError(f"{source}: the file declares this game unsolvable ('solvable': false)")
    return content_from_fields(fields, source)


def _checked_locator(locator: Mapping[str, Any]) -> dict[str, Any]:
    if not set(locator) <= {"seed", "split", "task_type", "room"}:
        raise DataError(f"a generated game has the keys seed, split, task_type and room, got {sorted(locator)}")
    return dict(locator)


def _released(path: Any, root: Path | None) -> Path:
    if root is None:
        raise ConfigError("a panel of released games needs data_path, the folder of the released games")
    if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts:
        raise DataError(
            f"the path of a released game must be relative and stay inside its folder, got {short_repr(path, 80)}"
        )
    return root / path


class GeneratedTasks:
    """The generator as an endless source.

    Args:
        split: one of ``SPLITS``.
        task_types: sampled uniformly from these; () for all, as often as in the release.
    """

    def __init__(self, split: str, task_types: Sequence[str] = ()) -> None:
        check_name("split", split, SPLITS)
        self.split, self.task_types = split, tuple(task_types)
        self._sampled: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a new house with one or two raw draws."""
        kind = self.task_types[sample_index(rng, len(self.task_types))] if self.task_types else ""
        locator = {"seed": sample_index(rng, SEEDS), "split": self.split, "task_type": kind}
        task = build_task(locator)
        self._sampled[task.task_id] = locator
        if len(self._sampled) > REMEMBERED:
            self._sampled.popitem(last=False)
        return task

    def get(self, task_id: str) -> Task:
        """Return a task that this instance sampled (among the last 4,096), or one of the embedded panel.

        Raises:
            UnknownTaskError: any other id; it is a hash, from which the house cannot be rebuilt.
        """
        locator: Mapping[str, Any] | None = self._sampled.get(task_id)
        if locator is None:
            rows = load_panel("alfworld", EMBEDDED_PANEL).rows
            locator = next((row.locator for row in rows if row.task_id == task_id), None)
        if locator is None:
            raise UnknownTaskError(
                f"alfworld: the generator cannot look up task {short_repr(task_id)}. Give its payload too "
                "(env.unwrapped.task.content, or the task of its group in a log): reset(options={'task_id': …, 'task': "
                f"payload}}), repeat the seed that sampled it (reset(seed=…)), or use a panel (panel='{EMBEDDED_PANEL}:train')"
            )
        return build_task(locator)

    def from_content(self, content: Any) -> Task:
        """Return the task of a content, in any form that ``build_task`` accepts."""
        return build_task(content)

    def task_ids(self) -> tuple[str, ...]:
        """(): the source is endless."""
        return ()


class FolderTasks:
    """A split of a folder of released games, parsed on demand.

    Args:
        root: the folder that holds the splits.
        paths: the game files, in their published order.
    """

    def __init__(self, root: Path, paths: Sequence[Path]) -> None:
        self.root, self.paths = root, tuple(paths)
        self._ids: dict[str, int] = {}
        self._complete = (
            False  # whether every file was parsed; with unsolvable or equal games there are fewer ids than files
        )
        self._tasks: OrderedDict[int, Task] = OrderedDict()

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a game uniformly; one that its file declares unsolvable is replaced by the next in order.

        Raises:
            DataError: a broken file, or no solvable game at all.
        """
        first = sample_index(rng, len(self.paths))
        for offset in range(len(self.paths)):
            try:
                return self._task((first + offset) % len(self.paths))
            except UnsolvableError:
                continue
        raise DataError(f"{self.paths[0].parent.parent.parent}: every game file declares 'solvable': false")

    def get(self, task_id: str) -> Task:
        """Return the game with this id. The first call with a new id parses the whole split (seconds).

        Raises:
            UnknownTaskError: no game of this split has it.
        """
        if task_id not in self._ids:
            self.task_ids()
        if task_id not in self._ids:
            raise UnknownTaskError(
                f"alfworld: none of the {len(self.paths)} games from {self.paths[0].parent.parent.parent} has the id "
                f"{short_repr(task_id)}; choose its split, or give its content too: reset(options={{'task_id': …, 'task': …}})"
            )
        return self._task(self._ids[task_id])

    def from_content(self, content: Any) -> Task:
        """Return the task of a content, in any form that ``build_task`` accepts."""
        return build_task(content, self.root)

    def task_ids(self) -> tuple[str, ...]:
        """The ids of all solvable games, in the order of the paths; the first call parses every one."""
        if not self._complete:
            for index in range(len(self.paths)):
                with suppress(UnsolvableError):  # never sampled, so not listed
                    self._task(index)
            self._complete = True
        order = sorted(self._ids, key=lambda name: self._ids[name])
        return tuple(order)

    def path_of(self, task_id: str) -> Path | None:
        """Return the file from which a task of this source was read."""
        index = self._ids.get(task_id)
        return None if index is None else self.paths[index]

    def _task(self, index: int) -> Task:
        task = self._tasks.get(index)
        if task is None:
            task = build_task(str(self.paths[index]))
            self._ids[task.task_id] = min(index, self._ids.get(task.task_id, index))  # of equal games the first file
            self._tasks[index] = task
            if len(self._tasks) > PARSED:
                self._tasks.popitem(last=False)
        return task


def open_tasks(
    *,
    panel: str | None = None,
    data_path: str | None = None,
    game: str | Mapping[str, Any] | None = None,
    split: str | None = None,
    task_types: Sequence[str] | None = None,
) -> TaskSource:
    """Open the task source that the arguments name; by default the generator.

    Raises:
        ConfigError: arguments that do not go together, unknown names, missing folders.
        DataError: a malformed game.
    """
    kinds = _checked_types(task_types)
    if game is not None:
        if not isinstance(game, str | Mapping):
            raise ConfigError(f"game must be a path, a file's fields or a game's content, got {short_repr(game)}")
        if (panel, data_path, split, task_types) != (None, None, None, None):
            raise ConfigError("game names one game: leave panel, data_path, split and task_types out")
        task = build_task(game)
        return RowTasks("alfworld", [PanelRow(task.task_id, "all", task.content, {})], build_task)
    if panel is not None:
        if (split, task_types) != (None, None):
            raise ConfigError("panel is written NAME:SPLIT; leave split and task_types out")
        if not isinstance(panel, str):
            raise ConfigError(f"a panel is written NAME:SPLIT, got {short_repr(panel)}")
        return _panel_tasks(panel, None if data_path is None else find_root(data_path))
    split = "train" if split is None else split
    if data_path is not None:
        root = find_root(data_path)
        return _folder_tasks(root, game_paths(root, split, kinds))
    return GeneratedTasks(split, kinds)


# Environments of one process share sources, so a panel or folder is read once; only the caches of a source ever change.
@lru_cache(maxsize=16)
def _panel_tasks(panel: str, root: Path | None) -> RowTasks:
    return RowTasks("alfworld", parse_panel_spec("alfworld", panel), partial(build_task, root=root))


@lru_cache(maxsize=16)
def _folder_tasks(root: Path, paths: tuple[Path, ...]) -> FolderTasks:
    return FolderTasks(root, paths)


def _checked_types(task_types: Sequence[str] | None) -> tuple[str, ...]:
    if task_types is None:
        return ()
    if isinstance(task_types, str) or not isinstance(task_types, Sequence) or not task_types:
        raise ConfigError(f"task_types must be a non-empty list of names, got {short_repr(task_types)}")
    for name in task_types:
        check_name("task type", name, TASK_TYPES)
    return tuple(task_types)
