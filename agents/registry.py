"""Agents by the name that the command line writes: ``random``, ``noisy:0.2``, ``tabular`` and so on."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from creditflow.agents.base import Agent
from creditflow.agents.scripted import ExpertAgent, NoisyExpert, RandomAgent
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError, unknown_name

__all__ = ["AGENTS", "check_agent", "make_agent"]

AGENTS: dict[str, Callable[[str], Agent]] = {
    "random": lambda text: _plain(RandomAgent, "random", text),
    "expert": lambda text: _plain(ExpertAgent, "expert", text),
    "noisy": lambda text: NoisyExpert(_number("noisy", text)) if text else NoisyExpert(),
    "hf": lambda text: import_module("creditflow.agents.pretrained").make_hf_agent(text),
    "tabular": lambda text: TabularAgent(guidance=_number("tabular", text)) if text else TabularAgent(),
}


def check_agent(spec: str) -> None:
    """Raise ConfigError unless there is an agent of this name; it is not made."""
    name = spec.partition(":")[0]
    if name not in AGENTS:
        raise unknown_name("agent", name, AGENTS)


def make_agent(spec: str) -> Agent:
    """An agent from ``NAME`` or ``NAME:ARGUMENT`` ("noisy:0.2", "tabular:0.5").

    Raises:
        ConfigError: an unknown name (never a download) or a malformed argument.
    """
    check_agent(spec)
    name, _, argument = spec.partition(":")
    return AGENTS[name](argument)


def _plain(kind: Callable[[], Agent], name: str, argument: str) -> Agent:
    if argument:
        raise ConfigError(f"agent {name!r} takes no argument, got {argument!r}")
    return kind()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"agent {name!r} takes a number, as in {name}:0.5, got {text!r}") from None
