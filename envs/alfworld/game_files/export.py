"""Export of games as ``.tw-pddl`` files that TextWorld's engine and ALFWorld's loader accept.

Such a file contains a PDDL domain and a grammar; both texts are our own (``pddl/writing.py``,
``wording/grammar_writing.py``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.pddl.writing import domain_text, problem_text
from creditflow.envs.alfworld.wording.grammar_writing import grammar_text
from creditflow.envs.files.atomic import atomic_writer

__all__ = ["export_game", "game_fields", "traj_data"]


def game_fields(game: Game, walkthrough: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the fields of a ``.tw-pddl`` file."""
    fields: dict[str, Any] = {
        "pddl_domain": domain_text(with_help=bool(game.dialect.help), with_sinks="sinktype" in game.receptacle_types),
        "grammar": grammar_text(game.dialect, game.sentence),
        "pddl_problem": problem_text(game),
        "solvable": True,
    }
    return fields if walkthrough is None else {**fields, "walkthrough": list(walkthrough)}


def traj_data(game: Game) -> dict[str, Any]:
    """Return the metadata that ALFWorld's loader and its hand-coded expert read next to a game."""
    goal = game.goal
    receptacle = goal.place.removesuffix("type")
    return {
        "task_type": goal.task_type,
        "task_id": f"creditflow_{game.digest}",
        "pddl_params": {
            "object_target": goal.target.removesuffix("type"),
            "parent_target": "" if goal.looks else receptacle,
            "toggle_target": receptacle if goal.looks else "",
            "mrecep_target": "",
            "object_sliced": False,
        },
        "turk_annotations": {"anns": [{"task_desc": game.sentence, "high_descs": []}]},
    }


def export_game(game: Game, folder: str | Path, split: str, walkthrough: Sequence[str]) -> Path:
    """Write a game into ``folder/json_2.1.1/split/…`` in the released layout, so that ALFWorld's loader finds it.

    Args:
        game: the game to export.
        folder: becomes a valid ``$ALFWORLD_DATA``.
        split: "train", "valid_seen" or "valid_unseen".
        walkthrough: a solution, for example from ``ALFWorldOracle().solution``.

    Returns:
        The path of ``game.tw-pddl``.
    """
    goal = game.goal
    words = (goal.task_type, goal.target.removesuffix("type"), "None", goal.place.removesuffix("type"), "0")
    trial = Path(folder) / "json_2.1.1" / split / "-".join(words) / f"trial_{game.digest}"
    trial.mkdir(parents=True, exist_ok=True)
    _write(trial / "traj_data.json", traj_data(game))
    _write(trial / "game.tw-pddl", game_fields(game, walkthrough))
    return trial / "game.tw-pddl"


def _write(path: Path, data: dict[str, Any]) -> None:
    with atomic_writer(path) as out:
        out.write(json.dumps(data))
