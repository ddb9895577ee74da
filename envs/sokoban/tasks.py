"""Sources of Sokoban tasks: an embedded panel, level files, one level, or the generator."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError, short_repr
from creditflow.envs.sokoban.levels.generator import GeneratorOptions
from creditflow.envs.sokoban.levels.named import generator_options, named_level, named_levels
from creditflow.envs.sokoban.levels.xsb import TASK_PREFIX, Level, level_task, parse_level, read_levels
from creditflow.envs.sokoban.snapshot import cached_level
from creditflow.envs.tasks import PanelRow, RowTasks, Task, TaskSource, content_id, parse_panel_spec

__all__ = ["DEFAULT_PANEL", "GeneratorTasks", "LevelTasks", "build_task", "open_tasks"]

DEFAULT_PANEL: Final = "standard-v1:train"
REMEMBERED: Final = 1024  # sampled levels


def build_task(content: Any) -> Task:
    """Return the task of a content ``{"xsb": text}``, or of the XSB text itself.

    Raises:
        LevelError: a malformed level.
        DataError: another content.
    """
    if isinstance(content, Mapping) and set(content) == {"xsb"}:
        content = content["xsb"]
    if not isinstance(content, str):
        raise DataError(f"a Sokoban task is {{'xsb': text}} or an XSB string, got {short_repr(content)}")
    return level_task(cached_level(content))


class LevelTasks(RowTasks):
    """Levels in the order of their files; ``get`` also accepts names such as "unfiltered/train/000:17"."""

    def __init__(self, levels: Sequence[Level]) -> None:
        rows = [
            PanelRow(content_id(TASK_PREFIX, {"xsb": level.xsb}), "all", {"xsb": level.xsb}, {"name": level.name})
            for level in levels
        ]
        super().__init__("sokoban", rows, build_task)
        self._ids = {level.name: row.task_id for level, row in zip(levels, rows, strict=True)}

    def get(self, task_id: str) -> Task:
        """Return the level with this id or name.

        Raises:
            UnknownTaskError: no level has it.
        """
        return super().get(self._ids.get(task_id, task_id))


class GeneratorTasks:
    """An endless source of generated levels.

    Args:
        options: options of the levels.
    """

    def __init__(self, options: GeneratorOptions) -> None:
        self.options = options
        self._sampled: OrderedDict[str, Task] = OrderedDict()

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a new level with raw integers of ``rng``."""
        task = level_task(self.options.level(rng))
        self._sampled[task.task_id] = task
        if len(self._sampled) > REMEMBERED:
            self._sampled.popitem(last=False)
        return task

    def get(self, task_id: str) -> Task:
        """Return a task among the last 1,024 that this instance sampled, or the one with a name such as "exact/6x6/1/2-200/17".

        Raises:
            UnknownTaskError: any other id; it is a hash, from which the level cannot be rebuilt.
            ConfigError: a name with options out of range.
        """
        if "/" in task_id:
            return level_task(named_level(task_id))
        if task_id not in self._sampled:
            raise UnknownTaskError(
                f"sokoban: a generator cannot look up task {short_repr(task_id)}. Give its payload too (env.unwrapped.task.content, "
                "or the task of its group in a log): reset(options={'task_id': …, 'task': payload}), or repeat the seed "
                "that sampled it (reset(seed=…))"
            )
        return self._sampled[task_id]

    def from_content(self, content: Any) -> Task:
        """Return the task with this content."""
        return build_task(content)

    def task_ids(self) -> tuple[str, ...]:
        """(): the source is endless."""
        return ()


def open_tasks(
    *,
    panel: str | None = None,
    levels: str | None = None,
    level: str | None = None,
    generator: Mapping[str, Any] | None = None,
) -> tuple[TaskSource, tuple[int, int]]:
    """Open the named source (default: the panel "standard-v1:train"); return it with the (rows, columns) of its levels.

    Raises:
        ConfigError: more than one source, or an invalid name or option.
        LevelError: a malformed level.
    """
    sources = {"panel": panel, "levels": levels, "level": level, "generator": generator}
    named = [key for key, value in sources.items() if value is not None]
    if len(named) > 1:
        raise ConfigError(f"pass only one of panel, levels, level or generator; got {' and '.join(named)}")
    if generator is not None:
        options = generator_options(generator)
        return GeneratorTasks(options), (options.height, options.width)
    parsed: Sequence[Level] = ()
    if levels is not None:
        parsed = read_levels(levels)
    elif level is not None:
        parsed = [parse_level(level)]
    elif isinstance(panel, str) and "/" in panel:
        parsed = named_levels(panel)
    if levels is not None or level is not None or parsed:
        return LevelTasks(parsed), (max(lv.height for lv in parsed), max(lv.width for lv in parsed))
    if panel is not None and not isinstance(panel, str):
        raise ConfigError(f"panel must be a string such as {DEFAULT_PANEL!r}, got {short_repr(panel)}")
    rows = parse_panel_spec("sokoban", panel if panel is not None else DEFAULT_PANEL)
    texts = [str(row.locator["xsb"]) for row in rows]
    shape = max(text.count("\n") + 1 for text in texts), max(text.find("\n") for text in texts)
    return RowTasks("sokoban", rows, build_task), shape
