"""Environments: text in, text out, exact rules, exact oracles."""

from .check import check_agent_env
from .core import INFO_TYPES, AgentEnv, AgentInfo, Oracle, Outcome, TextSpace
from .errors import CreditflowError
from .registration import ENVIRONMENTS, env_id, make, make_vec, register_envs
from .tasks import Panel, PanelRow, RowTasks, Task, TaskSource, content_id, load_panel, panel_names

__all__ = [
    "ENVIRONMENTS",
    "INFO_TYPES",
    "AgentEnv",
    "AgentInfo",
    "CreditflowError",
    "Oracle",
    "Outcome",
    "Panel",
    "PanelRow",
    "RowTasks",
    "Task",
    "TaskSource",
    "TextSpace",
    "check_agent_env",
    "content_id",
    "env_id",
    "load_panel",
    "make",
    "make_vec",
    "panel_names",
    "register_envs",
]
