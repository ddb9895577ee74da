"""From episodes to credit: trajectories, state graphs, wrappers for recording and shaping, and credit schemes."""

from creditflow.envs.foreign.env import ForeignEnv
from creditflow.envs.foreign.keys import Rounded, content_key
from creditflow.wrappers.canonical_state import CanonicalState
from creditflow.wrappers.dense_reward import DenseReward, require_unshaped
from creditflow.wrappers.feature_potential import FeaturePotentials, FeatureStore
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.hindsight import relabel
from creditflow.wrappers.invalid_actions import InvalidActions
from creditflow.wrappers.moves import MoveGroup, by_moves
from creditflow.wrappers.potentials import Potentials, PotentialStore
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn, read_groups, read_jsonl, write_jsonl
from creditflow.wrappers.vector_dense_reward import VectorDenseReward

__all__ = [
    "CanonicalState",
    "DenseReward",
    "EntityGraph",
    "FeaturePotentials",
    "FeatureStore",
    "ForeignEnv",
    "Group",
    "GroupEnv",
    "InvalidActions",
    "MoveGroup",
    "PotentialStore",
    "Potentials",
    "Recorder",
    "Rounded",
    "StateGraph",
    "Tokens",
    "Trajectory",
    "Turn",
    "VectorDenseReward",
    "by_moves",
    "content_key",
    "read_groups",
    "read_jsonl",
    "relabel",
    "require_unshaped",
    "write_jsonl",
]
