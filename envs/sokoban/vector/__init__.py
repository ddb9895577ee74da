"""Many boards at once: the vector environment behind ``gymnasium.make_vec("creditflow/Sokoban-v0", …)``."""

from creditflow.envs.sokoban.vector.env import SokobanVectorEnv

__all__ = ["SokobanVectorEnv"]
