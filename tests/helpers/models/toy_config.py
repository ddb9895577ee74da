"""Plain settings of a run that takes a second or two. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.worlds.sokoban_episodes import sokoban_options


def toy_config(folder: Path) -> dict[str, Any]:
    """Settings of a policy from scratch on three Sokoban levels, which are written into the folder."""
    return {
        "out": str(folder / "run"),
        "seed": 8,
        "device": "cpu",
        "threads": 1,
        "env": {"name": "sokoban", "options": sokoban_options(folder)},
        "model": {
            "scratch": {
                "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 280, "init": 0.1,
                "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
            }
        },
        "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "append"},
        "sft": {"episodes": 24, "steps": 6, "batch_tokens": 200, "noise": 0.8, "optimizer": {"lr": 4e-3}},
        "rollout": {"tasks": 2, "group_size": 4, "max_new_tokens": 3},
        "credit": {"scheme": "gigpo"},
        "update": {"iterations": 3, "optimizer": {"lr": 1e-3}},
        "checkpoint": {"every": 1, "keep": 0},
    }  # fmt: skip


def toy_vision_config(folder: Path, architecture: str = "qwen2_5_vl") -> dict[str, Any]:
    """Settings of a small vision-language policy on pictures of the same levels, one token per cell; its model is written too."""
    from helpers.models.vision_model import VisionSizes, write_vision_policy

    from creditflow.train.settings.model import ScratchConfig

    config = toy_config(folder)
    config["env"]["options"] |= {"obs_mode": "rgb", "tile_size": 8}
    sizes = ScratchConfig(**config["model"].pop("scratch") | {"pattern": "[a-z]+| ?."})
    write_vision_policy(folder / "vlm", architecture, sizes, VisionSizes(hidden=32, intermediate=64, patch=4))
    config["model"]["path"] = str(folder / "vlm")
    config["prompting"] = {"prompt": "glance-v1", "dialect": "bare", "history": "window", "window": 0}
    config["sft"] |= {"episodes": 12, "steps": 3, "batch_tokens": 400}
    config["update"] |= {"packing": "padded"}
    return config
