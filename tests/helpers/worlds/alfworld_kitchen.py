"""A released ALFWorld kitchen, and functions that play in it."""

from __future__ import annotations

from typing import Any

from helpers.shared_data import shared_file

from creditflow.envs.alfworld.env import ALFWorldEnv

__all__ = ["APPLE", "DATA", "KITCHEN", "SHARED_LOCATION", "run_commands"]

DATA = str(shared_file("data/alfworld"))
SHARED_LOCATION = str(
    shared_file("data/alfworld/json_2.1.1/valid_seen/pick_and_place_simple-Vase-None-CoffeeTable-207/*/game.tw-pddl")
)
KITCHEN = str(
    shared_file("data/alfworld/json_2.1.1/valid_seen/pick_and_place_simple-Tomato-None-Microwave-13/*/game.tw-pddl")
)
APPLE = (
    "go to fridge 1", "open fridge 1", "take apple 3 from fridge 1", "go to sinkbasin 1",
    "clean apple 3 with sinkbasin 1",
)  # fmt: skip


def run_commands(env: ALFWorldEnv, *commands: str) -> tuple[str, dict[str, Any]]:
    """Execute admissible commands; return the last observation and info."""
    observation = ""
    info: dict[str, Any] = {}
    for command in commands:
        observation, _, _, _, info = env.step(command)
        assert info["action_valid"], (command, info["invalid_reason"])
    return observation, info
