"""Gymnasium environments for language-model agents, with exact rules and oracles."""

from creditflow.envs.check import check_agent_env
from creditflow.envs.core import AgentEnv, Oracle, Outcome
from creditflow.envs.errors import CreditflowError
from creditflow.envs.info import INFO_TYPES, AgentInfo
from creditflow.envs.registration import ENVIRONMENTS, env_id, make, make_vec, register_envs
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Panel, PanelRow, RowTasks, Task, TaskSource, content_id, load_panel, panel_names

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
