"""Agents by the name that the command line writes: ``random``, ``noisy:0.2``, ``react:hf:PATH`` and so on."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from creditflow.agents.base import Agent
from creditflow.agents.language_model import LanguageModelAgent
from creditflow.agents.react import ReactAgent, ReflexionAgent
from creditflow.agents.scripted import ExpertAgent, NoisyExpert, RandomAgent
from creditflow.agents.search_baselines import SearchBaseline
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError, unknown_name

__all__ = ["AGENTS", "PROMPTED", "check_agent", "make_agent"]

AGENTS: dict[str, Callable[[str], Agent]] = {
    "random": lambda text: _plain(RandomAgent, "random", text),
    "expert": lambda text: _plain(ExpertAgent, "expert", text),
    "noisy": lambda text: NoisyExpert(_number("noisy", text)) if text else NoisyExpert(),
    "hf": lambda text: import_module("creditflow.agents.pretrained").make_hf_agent(text),
    "tabular": lambda text: TabularAgent(guidance=_number("tabular", text)) if text else TabularAgent(),
}

# ways to prompt a language model, which is named behind the colon
PROMPTED: dict[str, Callable[[LanguageModelAgent], Agent]] = {
    "react": ReactAgent,
    "reflexion": ReflexionAgent,
    "direct": lambda model: SearchBaseline(model, retrieve=False),
    "rag": lambda model: SearchBaseline(model, retrieve=True),
}


def check_agent(spec: str) -> None:
    """Check the names in a spec; nothing is made.

    Raises:
        ConfigError: an unknown name, or a way to prompt what is no language model.
    """
    name, _, argument = spec.partition(":")
    if name not in AGENTS and name not in PROMPTED:
        raise unknown_name("agent", name, [*AGENTS, *PROMPTED])
    if name in PROMPTED:
        inner = argument.partition(":")[0]
        if inner in PROMPTED or not inner:
            raise ConfigError(f"agent {name!r} prompts a language model: write {name}:hf:PATH")
        check_agent(argument)


def make_agent(spec: str, *, device: str = "auto") -> Agent:
    """An agent from ``NAME`` or ``NAME:ARGUMENT`` ("noisy:0.2", "hf:PATH", "react:hf:PATH").

    Args:
        spec: its name.
        device: of a model in this process.

    Raises:
        ConfigError: an unknown name (never a download) or a malformed argument.
    """
    check_agent(spec)
    name, _, argument = spec.partition(":")
    if name in PROMPTED:
        model = make_agent(argument, device=device)
        if not isinstance(model, LanguageModelAgent):
            raise ConfigError(
                f"agent {name!r} prompts a language model, which {argument!r} is not: write {name}:hf:PATH"
            )
        return PROMPTED[name](model)
    if name == "hf":
        model = import_module("creditflow.agents.pretrained").make_hf_agent(argument, device=device)
        return cast("Agent", model)
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
