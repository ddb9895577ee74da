"""From episodes to credit: trajectories, state graphs, wrappers for recording and shaping, and credit schemes.

A name is imported from its module when it is first used, so that one scheme does not load every wrapper.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from creditflow.envs.foreign.env import ForeignEnv
    from creditflow.envs.foreign.keys import Rounded, content_key
    from creditflow.wrappers.dense_reward import DenseReward, require_unshaped
    from creditflow.wrappers.feature_potential import FeaturePotentials, FeatureStore
    from creditflow.wrappers.graphs.entity_graph import EntityGraph
    from creditflow.wrappers.graphs.state_graph import StateGraph
    from creditflow.wrappers.group_env import GroupEnv
    from creditflow.wrappers.hindsight import relabel
    from creditflow.wrappers.invalid_actions import InvalidActions
    from creditflow.wrappers.potentials import Potentials, PotentialStore
    from creditflow.wrappers.recorder import Recorder
    from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn, read_groups, read_jsonl, write_jsonl
    from creditflow.wrappers.vector_dense_reward import VectorDenseReward

__all__ = [
    "DenseReward",
    "EntityGraph",
    "FeaturePotentials",
    "FeatureStore",
    "ForeignEnv",
    "Group",
    "GroupEnv",
    "InvalidActions",
    "PotentialStore",
    "Potentials",
    "Recorder",
    "Rounded",
    "StateGraph",
    "Tokens",
    "Trajectory",
    "Turn",
    "VectorDenseReward",
    "content_key",
    "read_groups",
    "read_jsonl",
    "relabel",
    "require_unshaped",
    "write_jsonl",
]

MODULES: Final = {
    "DenseReward": "wrappers.dense_reward",
    "EntityGraph": "wrappers.graphs.entity_graph",
    "FeaturePotentials": "wrappers.feature_potential",
    "FeatureStore": "wrappers.feature_potential",
    "ForeignEnv": "envs.foreign.env",
    "Group": "wrappers.trajectory",
    "GroupEnv": "wrappers.group_env",
    "InvalidActions": "wrappers.invalid_actions",
    "PotentialStore": "wrappers.potentials",
    "Potentials": "wrappers.potentials",
    "Recorder": "wrappers.recorder",
    "Rounded": "envs.foreign.keys",
    "StateGraph": "wrappers.graphs.state_graph",
    "Tokens": "wrappers.trajectory",
    "Trajectory": "wrappers.trajectory",
    "Turn": "wrappers.trajectory",
    "VectorDenseReward": "wrappers.vector_dense_reward",
    "content_key": "envs.foreign.keys",
    "read_groups": "wrappers.trajectory",
    "read_jsonl": "wrappers.trajectory",
    "relabel": "wrappers.hindsight",
    "require_unshaped": "wrappers.dense_reward",
    "write_jsonl": "wrappers.trajectory",
}


def __getattr__(name: str) -> Any:
    if name == "credit":
        return import_module("creditflow.wrappers.credit")
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"creditflow.{MODULES[name]}"), name)
