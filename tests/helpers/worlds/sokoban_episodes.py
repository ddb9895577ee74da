"""Sokoban on three levels of one or two moves, as the trainers' adapters play it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.settings.schema import EnvConfig

__all__ = ["LEVELS", "sokoban_config", "sokoban_options"]

LEVELS = ("######\n#@ $.#\n#    #\n######", "#####\n#   #\n#.$@#\n#####", "#####\n#@  #\n#$  #\n#.  #\n#####")


def sokoban_options(folder: Path) -> dict[str, Any]:
    """Options of the environment, whose levels are written into this folder."""
    levels = folder / "levels.txt"
    levels.write_text("\n\n".join(LEVELS) + "\n", encoding="ascii")
    return {"levels": str(levels), "max_steps": 5, "symbols": "ascii"}


def sokoban_config(folder: Path) -> EpisodeConfig:
    """How the episodes are played."""
    return EpisodeConfig(env=EnvConfig(name="sokoban", options=sokoban_options(folder)))
