"""Agents: scripted ones, a softmax table, and (with extras) language models."""

from creditflow.agents.base import Agent, Decision, View
from creditflow.agents.registry import make_agent
from creditflow.agents.scripted import ExpertAgent, NoisyExpert, RandomAgent
from creditflow.agents.tabular import TabularAgent

__all__ = ["Agent", "Decision", "ExpertAgent", "NoisyExpert", "RandomAgent", "TabularAgent", "View", "make_agent"]
