"""Tiny random houses with an enumerable state space and the irregularities of released ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from creditflow.envs.alfworld.game_files.content import validate_content
from creditflow.envs.alfworld.pddl import TASK_TYPES

KINDS = ("cabinettype", "drawertype", "sinkbasintype", "microwavetype", "fridgetype", "desktype")


def tiny_house(seed: int, task: str) -> dict[str, Any]:
    """Three to five receptacles, two or three targets, one other thing; closed doors, shared places, doubled things."""
    rng = np.random.default_rng(seed)
    quality = {"clean": "sinkbasintype", "hot": "microwavetype", "cool": "fridgetype"}.get(TASK_TYPES[task], "")
    kinds = [*([quality] if quality else []), *rng.choice(KINDS, size=int(rng.integers(3, 5))).tolist()]
    goal_kind = kinds[-1]
    receptacles: list[list[str]] = []
    place = 0
    for number, kind in enumerate(kinds):
        place += int(number == 0 or rng.random() < 0.75)
        home = "" if number == 1 and rng.random() < 0.1 else f"loc_bar_{place}"
        receptacles.append(
            [f"r{number}_bar_1", kind, home, str(rng.choice(["", "openable", "opened"], p=[0.5, 0.4, 0.1]))]
        )
    count = 2 if task == "look_at_obj_in_light" else int(rng.integers(2, 4))
    objects = [_thing(rng, f"t{number}_bar_1", "mugtype", receptacles) for number in range(count)]
    objects.append(_thing(rng, "x_bar_1", "pentype", receptacles))
    if task == "look_at_obj_in_light":
        lamp = receptacles[int(rng.integers(len(receptacles)))]
        objects.append(["z_bar_1", "lamptype", [f"loc_bar_{place}"], [lamp[0]], [], ["toggleable"]])
    contain = {
        kind: [o for o in ("mugtype", "pentype") if rng.random() < (0.95 if kind == goal_kind else 0.6)]
        for kind in sorted(set(kinds))
    }
    start = "loc_bar_0" if rng.random() < 0.7 else f"loc_bar_{place}"
    return validate_content(
        {
            "format": 1,
            "dialect": "move",
            "sentence": "try",
            "goal": [task, "mugtype", "lamptype" if task == "look_at_obj_in_light" else goal_kind],
            "agent": ["agent1", start, ""],
            "receptacles": sorted(receptacles),
            "objects": sorted(objects),
            "contain": {kind: things for kind, things in contain.items() if things},
        },
        "tiny house",
    )


def _thing(rng: np.random.Generator, name: str, kind: str, receptacles: list[list[str]]) -> list[Any]:
    first = receptacles[int(rng.integers(len(receptacles)))]
    inside = {first[0]}
    if rng.random() < 0.3:
        inside.add(receptacles[int(rng.integers(len(receptacles)))][0])
    properties = {"cleanable", "coolable", "heatable"} if rng.random() < 0.9 else set()
    if rng.random() < 0.9:
        properties.add("pickupable")
    if rng.random() < 0.15:
        properties.add(str(rng.choice(["isclean", "iscool", "ishot"])))
    return [name, kind, [first[2]] if first[2] else [], sorted(inside), [], sorted(properties)]
