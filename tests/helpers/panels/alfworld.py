"""Construction of the embedded panels.

``standard-v3``: 480 generated houses, whose rows name seeds: of each task type 40 for training, 20 for validation (known
layouts) and 20 for testing (held-out layouts); the rooms alternate, and no two houses are equal up to renaming.

``standard-v2`` and ``standard-v1``: the same of earlier generators. That of the second put some of the goal's objects into the
furniture they are to be treated with, where the release has none; that of the first did not follow the release. Their rows have the houses'
contents.

``released-v1``: released games, whose rows name files below the folder of released games and whose ids are hashes of
their content: all validation games of the archive ("valid" is valid_seen, "test" is valid_unseen) and 100 training games
of each task type. It needs the games themselves; a file that was changed no longer has its id.

``released-v2``: all games of the archive under the names of the release's splits, 3,547 of 3,553 for training, 134 of 140
valid_seen, 126 of 134 valid_unseen. It is also the manifest of ``creditflow data check alfworld``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from helpers.worlds.game_files import iter_archive

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import game_task
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.alfworld.generator import SPLITS, rooms_for
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.alfworld.tasks import build_task
from creditflow.envs.alfworld.world import World
from creditflow.envs.reading.checked import items
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.tasks import PanelRow, Task, content_id

__all__ = ["manifest_rows", "released_rows", "standard_rows"]

PER_TYPE: Final = {"train": 40, "valid_seen": 20, "valid_unseen": 20}
PANEL_SPLITS: Final = dict(zip(SPLITS, ("train", "valid", "test"), strict=True))
RELEASED_TRAIN: Final = 100


def standard_rows() -> Iterator[PanelRow]:
    """Yield the rows of ``standard-v3``."""
    seen: set[str] = set()
    for split in SPLITS:
        for kind in TASK_TYPES:
            rooms, seed, accepted = rooms_for(kind), 0, 0
            while accepted < PER_TYPE[split]:
                locator: dict[str, Any] = {
                    "seed": seed,
                    "split": split,
                    "task_type": kind,
                    "room": rooms[accepted % len(rooms)],
                }
                seed += 1
                task = build_task(locator)
                if task.canonical_id not in seen:
                    seen.add(task.canonical_id)
                    accepted += 1
                    yield PanelRow(task.task_id, PANEL_SPLITS[split], locator, _strata(task, locator["room"]))


def released_rows(archive: Path) -> Iterator[PanelRow]:
    """Yield the rows of ``released-v1``, sorted by path.

    Raises:
        DataError: a malformed archive or game.
    """
    games = sorted((name, data) for name, data in iter_archive(archive) if name.endswith("game.tw-pddl"))
    train_rows: Counter[str] = Counter()
    seen: set[str] = set()
    for name, data in games:
        split = name.split("/", 1)[0]
        kind = name.split("/")[1].split("-", 1)[0]
        if split not in PANEL_SPLITS or (split == "train" and train_rows[kind] >= RELEASED_TRAIN):
            continue
        task = game_task(content_from_fields(parse_json(data, where=name), name))
        if task.task_id in seen:  # trials of one scene can have equal content
            continue
        seen.add(task.task_id)
        train_rows[kind] += split == "train"
        yield PanelRow(task.task_id, PANEL_SPLITS[split], {"path": name}, _strata(task, ""))


def manifest_rows(archive: Path) -> Iterator[PanelRow]:
    """Yield the rows of ``released-v2``, sorted by path.

    Strata: the task type, the length of the published solution in commands, and the hash of the world.

    Raises:
        DataError: a malformed archive or game.
    """
    by_name: dict[str, PanelRow] = {}
    for name, data in iter_archive(archive):
        split = name.split("/", 1)[0]
        if split not in PANEL_SPLITS or not name.endswith("game.tw-pddl"):
            continue
        fields = parse_json(data, where=name)
        content = content_from_fields(fields, name)
        steps, kind = len(items(fields.get("walkthrough"), f"{name}: walkthrough", 1_000)), content["goal"][0]
        strata = {"task_type": kind, "steps": steps, "world": _world_id(content)}
        by_name[name] = PanelRow(game_task(content).task_id, split, {"path": name}, strata)
    yield from (by_name[name] for name in sorted(by_name))


def _world_id(content: Mapping[str, Any]) -> str:
    """Return 16 hex digits that hash a content without task sentence and wording: house, agent and goal."""
    return content_id("", {key: value for key, value in content.items() if key not in ("sentence", "dialect")})[1:17]


def _strata(task: Task, room: str) -> dict[str, Any]:
    result = ALFWorldOracle().world_distance(World(Game(task.content)))
    strata = {"task_type": task.content["goal"][0], "steps": int(result.distance)}
    return {**strata, "room": room} if room else strata
