"""The public face of trajectories: the records, and their log format."""

from creditflow.wrappers.group_arrays import GroupArrays, StateIndex
from creditflow.wrappers.groups import Group, group_trajectories
from creditflow.wrappers.jsonl import FORMAT_VERSION, read_groups, read_jsonl, write_jsonl
from creditflow.wrappers.records import Trajectory, Turn
from creditflow.wrappers.stop_reasons import FAILED, GOAL, OPEN, STOP_REASONS, TRUNCATED, StopReason
from creditflow.wrappers.tokens import Tokens

__all__ = [
    "FAILED",
    "FORMAT_VERSION",
    "GOAL",
    "OPEN",
    "STOP_REASONS",
    "TRUNCATED",
    "Group",
    "GroupArrays",
    "StateIndex",
    "StopReason",
    "Tokens",
    "Trajectory",
    "Turn",
    "group_trajectories",
    "read_groups",
    "read_jsonl",
    "write_jsonl",
]
