"""Random logs with everything that a log may hold, to be stored, changed and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.records.picture_folder import PictureFolder, pictures_beside
from creditflow.wrappers.records.pictures import Picture, picture_of

__all__ = ["random_log", "random_picture", "write_log"]


def random_picture(rng: np.random.Generator) -> Picture:
    """A small picture of random pixels."""
    return picture_of(rng.integers(0, 256, (4, 6, 3), dtype=np.uint8))


def random_log(seed: int, tasks: int = 2) -> tuple[list[Group], list[Picture]]:
    """Groups of some tasks, and the pictures that their turns name.

    Every task has three groups: of two models with documents of their own, and a second trial of the first. Groups have
    tokens, annotations with provenance, branches, and lone surrogates.
    """
    rng = np.random.default_rng(seed)
    groups, pictures = list[Group](), [random_picture(rng) for _ in range(3)]
    for task in range(tasks):
        for number, (model, trial) in enumerate([("model a", 0), ("model b \ud800", 0), ("model a", 1)]):
            group = random_group(rng, values=("value.critic",), token_values=("value.critic",))
            if task == 0:
                group, _ = random_fork(rng, group)
            shown = pictures[int(rng.integers(len(pictures)))].name
            members = []
            for member in group.trajectories:
                first, *rest = member.turns
                named = replace(first, images=(shown,), response="\udfff answer", invalid_reason="")
                members.append(
                    replace(
                        member, turns=(named, *rest), group_id=f"task{task}/{model}", task_id=f"task{task}", trial=trial,
                        policy=model, seed=int(rng.integers(2**63)), provenance={"value.critic": "critic v1"},
                    )
                )  # fmt: skip
            payload = {**group.task, "documents": {f"d{number}": {"title": model, "text": f"of {task}"}}}
            groups.append(Group(tuple(members), payload))
    return groups, pictures


def write_log(path: Path, groups: list[Group], pictures: list[Picture]) -> Path:
    """Write a log with its pictures beside it."""
    write_jsonl(path, groups)
    for picture in pictures:
        PictureFolder(pictures_beside(path)).write(picture)
    return path
