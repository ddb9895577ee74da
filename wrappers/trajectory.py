"""Public names of trajectory records and their log format."""

from creditflow.wrappers.records.group import Group, GroupArrays, StateIndex, group_trajectories
from creditflow.wrappers.records.jsonl import FORMAT_VERSION, read_groups, read_jsonl, write_jsonl
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, OPEN, STOP_REASONS, TRUNCATED, StopReason
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

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
