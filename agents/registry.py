"""Agents by their names on the command line: ``random``, ``noisy:0.2``, ``react:hf:PATH`` and so on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from creditflow.agents.base import Agent
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.react import ReactAgent, ReflexionAgent
from creditflow.agents.language_model.search_baselines import SearchBaseline
from creditflow.agents.scripted import ExpertAgent, NoisyExpert, RandomAgent
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error

__all__ = ["AGENTS", "PROMPTED", "check_agent", "make_agent"]

# language models: module and function that open the name's argument; imported only then
MODELS: dict[str, tuple[str, str]] = {
    "hf": ("creditflow.agents.language_model.models.pretrained", "make_hf_agent"),
    "vllm": ("creditflow.agents.language_model.vllm_agent", "make_vllm_agent"),
    "openai": ("creditflow.agents.language_model.openai_agent", "make_openai_agent"),
}


def _model(name: str, argument: str, device: str = "auto") -> Agent:
    module, function = MODELS[name]
    agent: Agent = getattr(import_module(module), function)(argument, device=device)
    return agent


AGENTS: dict[str, Callable[[str], Agent]] = {
    "random": lambda text: _without_argument(RandomAgent, "random", text),
    "expert": lambda text: _without_argument(ExpertAgent, "expert", text),
    "noisy": lambda text: NoisyExpert(_number("noisy", text)) if text else NoisyExpert(),
    **{name: partial(_model, name) for name in MODELS},
    "tabular": lambda text: TabularAgent(optimal_prob=_number("tabular", text)) if text else TabularAgent(),
}

# ways to prompt the language model that is named after the colon
PROMPTED: dict[str, Callable[[LanguageModelAgent], Agent]] = {
    "react": ReactAgent,
    "reflexion": ReflexionAgent,
    "direct": lambda model: SearchBaseline(model, retrieve=False),
    "rag": lambda model: SearchBaseline(model, retrieve=True),
}


def check_agent(spec: str) -> None:
    """Check the names and the URL in a spec, without opening anything.

    Raises:
        ConfigError: an unknown name, a way to prompt without a language model, or a malformed URL.
    """
    name, _, argument = spec.partition(":")
    if name not in AGENTS and name not in PROMPTED:
        raise unknown_name_error("agent", name, [*AGENTS, *PROMPTED])
    if name in PROMPTED:
        inner = argument.partition(":")[0]
        if inner in PROMPTED or not inner:
            raise ConfigError(f"agent {name!r} prompts a language model: write {name}:hf:PATH")
        check_agent(argument)
    elif name == "openai":
        # rejects a URL that contains a key, before the name is written anywhere
        import_module("creditflow.agents.language_model.openai_agent").parse_served(argument)


def make_agent(spec: str, *, device: str = "auto") -> Agent:
    """Make an agent from ``NAME`` or ``NAME:ARGUMENT`` ("noisy:0.2", "hf:PATH", "vllm:PATH", "openai:URL#MODEL", "react:hf:PATH").

    Args:
        spec: name of the agent.
        device: device of a model in this process.

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
    if name in MODELS:
        return _model(name, argument, device)
    return AGENTS[name](argument)


def _without_argument(kind: Callable[[], Agent], name: str, argument: str) -> Agent:
    if argument:
        raise ConfigError(f"agent {name!r} takes no argument, got {short_repr(argument)}")
    return kind()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"agent {name!r} takes a number, as in {name}:0.5, got {short_repr(text)}") from None
