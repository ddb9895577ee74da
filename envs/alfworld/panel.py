"""How the embedded panels were made, so that anybody can make them again.

``standard-v1``: 480 generated houses, rows name seeds: 40 of each task type for training, 20 for validation (known
layouts), 20 for testing (held-out layouts), rooms taken in turn, no two equal up to renaming.

``released-v1``: released games by content, rows name files below the folder of released games: all validation games
that the archive at hand holds ("valid" is valid_seen, "test" is valid_unseen) and 100 training games of each task type.
Playing it needs the games themselves; an id that does not match names the changed file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.archive import iter_archive
from creditflow.envs.alfworld.game_files.content import game_task
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.alfworld.generator.houses import ROOMS_FOR, SPLITS
from creditflow.envs.alfworld.goals import TASK_TYPES
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.tasks import build_task
from creditflow.envs.alfworld.world import World
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.tasks import PanelRow, Task

__all__ = ["released_rows", "standard_rows"]

PER_TYPE: Final = {"train": 40, "valid_seen": 20, "valid_unseen": 20}
PANEL_SPLITS: Final = dict(zip(SPLITS, ("train", "valid", "test"), strict=True))
RELEASED_TRAIN: Final = 100


def standard_rows() -> Iterator[PanelRow]:
    """The rows of ``standard-v1``."""
    seen: set[str] = set()
    for split in SPLITS:
        for kind in TASK_TYPES:
            rooms, seed, found = ROOMS_FOR[kind], 0, 0
            while found < PER_TYPE[split]:
                locator: dict[str, Any] = {
                    "seed": seed,
                    "split": split,
                    "task_type": kind,
                    "room": rooms[found % len(rooms)],
                }
                seed += 1
                task = build_task(locator)
                if task.canonical_id not in seen:
                    seen.add(task.canonical_id)
                    found += 1
                    yield PanelRow(task.task_id, PANEL_SPLITS[split], locator, _strata(task, locator["room"]))


def released_rows(archive: Path) -> Iterator[PanelRow]:
    """The rows of ``released-v1``, sorted by path.

    Raises:
        DataError: a malformed archive or game.
    """
    games = sorted((name, data) for name, data in iter_archive(archive) if name.endswith("game.tw-pddl"))
    taken: Counter[str] = Counter()
    seen: set[str] = set()
    for name, data in games:
        split = name.split("/", 1)[0]
        kind = name.split("/")[1].split("-", 1)[0]
        if split not in PANEL_SPLITS or (split == "train" and taken[kind] >= RELEASED_TRAIN):
            continue
        task = game_task(content_from_fields(parse_json(data, where=name), name))
        if task.task_id in seen:  # trials of one scene can agree in everything that matters
            continue
        seen.add(task.task_id)
        taken[kind] += split == "train"
        yield PanelRow(task.task_id, PANEL_SPLITS[split], {"path": name}, _strata(task, ""))


def _strata(task: Task, room: str) -> dict[str, Any]:
    answer = ALFWorldOracle().world_distance(World(Game(task.content)))
    strata = {"task_type": task.content["goal"][0], "steps": int(answer.distance)}
    return {**strata, "room": room} if room else strata
