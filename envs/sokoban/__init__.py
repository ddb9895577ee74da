"""Sokoban: rules, levels, generator, exact oracle, and the environment ``creditflow/Sokoban-v0``."""

from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.levels.generator import GeneratorOptions, generate_level
from creditflow.envs.sokoban.levels.gym_sokoban import GymSokobanOptions
from creditflow.envs.sokoban.levels.named import level_name, named_level
from creditflow.envs.sokoban.levels.xsb import Level, level_task, parse_level, parse_levels, read_levels
from creditflow.envs.sokoban.oracle import LevelOracle, SokobanOracle, dead_state_fraction, level_oracle

__all__ = [
    "GeneratorOptions",
    "GymSokobanOptions",
    "Level",
    "LevelOracle",
    "SokobanEnv",
    "SokobanOracle",
    "dead_state_fraction",
    "generate_level",
    "level_name",
    "level_oracle",
    "level_task",
    "named_level",
    "parse_level",
    "parse_levels",
    "read_levels",
]
