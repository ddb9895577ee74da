"""From episodes to credit: trajectories, state graphs, wrappers that record and shape, and the credit schemes."""

from creditflow.wrappers.canonical_state import CanonicalState
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.invalid_actions import InvalidActions
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.state_graph import StateGraph
from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn, read_groups, read_jsonl, write_jsonl

__all__ = [
    "CanonicalState",
    "Group",
    "GroupEnv",
    "InvalidActions",
    "Recorder",
    "StateGraph",
    "Tokens",
    "Trajectory",
    "Turn",
    "read_groups",
    "read_jsonl",
    "write_jsonl",
]
