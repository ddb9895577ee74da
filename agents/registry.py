"""Agents by their names on the command line: ``random``, ``noisy:0.2``, ``react:hf:PATH`` and so on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module

from creditflow.agents.base import Agent
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.pretrained import ModelOptions
from creditflow.agents.language_model.react import ReactAgent, ReflexionAgent
from creditflow.agents.scripted import ExpertAgent, NoisyExpert, RandomAgent
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.plugins import Code, Registry

__all__ = ["PROMPTED", "REGISTRY", "check_agent", "check_options", "load_agent", "make_agent"]

# language models: module and function that open the name's argument; imported only then
MODELS: dict[str, tuple[str, str]] = {
    "hf": ("creditflow.agents.language_model.pretrained", "make_hf_agent"),
    "vllm": ("creditflow.agents.language_model.vllm_agent", "make_vllm_agent"),
    "openai": ("creditflow.agents.language_model.openai_agent", "make_openai_agent"),
}


def _model(name: str, argument: str, device: str = "auto", options: ModelOptions | None = None) -> Agent:
    module, function = MODELS[name]
    agent: Agent = getattr(import_module(module), function)(argument, device=device, options=options)
    return agent


AGENTS: dict[str, Callable[[str], Agent]] = {
    "random": lambda text: _without_argument(RandomAgent, "random", text),
    "expert": lambda text: _without_argument(ExpertAgent, "expert", text),
    "noisy": lambda text: NoisyExpert(_number("noisy", text)) if text else NoisyExpert(),
    **{name: partial(_model, name) for name in MODELS},
    "tabular": lambda text: TabularAgent(optimal_prob=_number("tabular", text)) if text else TabularAgent(),
}

# ways to prompt the language model that is named after the colon
PROMPTED: dict[str, Callable[[LanguageModelAgent], Agent]] = {"react": ReactAgent, "reflexion": ReflexionAgent}


def _name_of(code: Code) -> str:
    """Check that loaded code makes agents, and return its name."""
    target = code.target
    if not callable(target) or (isinstance(target, type) and not callable(getattr(target, "act", None))):
        raise ConfigError(
            f"{code.spec} is not an agent: expected a class with act(views) and name, or a function that makes one, got {short_repr(target)}"
        )
    name = getattr(target, "name", None)
    if not isinstance(name, str):
        name = getattr(target, "__name__", "")
    if not name:
        raise ConfigError(f"{code.spec}: an agent needs a name: its attribute name, or that of the function")
    return name


REGISTRY: Registry[Callable[..., Agent]] = Registry("agent", {**AGENTS, **PROMPTED}, name_of=_name_of)


def load_agent(spec: str, *, digest: str = "") -> str:
    """Load an agent by where its code is, and return its spec for ``make_agent``. This runs the code.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``, after which ``:ARGUMENT`` may follow; NAME is a class or a
            function that makes an agent, without an argument or from the argument as text.
        digest: the expected digest of the code; "" for any.

    Raises:
        ConfigError: it cannot be imported, makes no agents, has a name that is taken, or another digest.
    """
    return REGISTRY.load(spec, digest=digest)


def _plugin(spec: str) -> tuple[str, str] | None:
    """Name and argument of the agent of a spec, if it is a plug-in."""
    name, _, argument = spec.partition(":")
    if (loaded_name := REGISTRY.loaded_name(spec)) is not None and not REGISTRY.is_plugin(name):
        name, argument = loaded_name, ":".join(spec.split(":")[2:])
    return (name, argument) if REGISTRY.is_plugin(name) else None


def check_agent(spec: str) -> None:
    """Check the names and the URL in a spec, without opening anything.

    Raises:
        ConfigError: an unknown name, a way to prompt without a language model, or a malformed URL.
    """
    if _plugin(spec) is not None:
        return
    name, _, argument = spec.partition(":")
    if name not in AGENTS and name not in PROMPTED:
        REGISTRY.require_no_code(spec)
        REGISTRY.get(name)
    if name in PROMPTED:
        inner = argument.partition(":")[0]
        if inner in PROMPTED or not inner:
            raise ConfigError(f"agent {name!r} prompts a language model: write {name}:hf:PATH")
        check_agent(argument)
    elif name == "openai":
        # rejects a URL that contains a key, before the name is written anywhere
        import_module("creditflow.agents.language_model.openai_agent").parse_served(argument)


def make_agent(spec: str, *, device: str = "auto", options: ModelOptions | None = None) -> Agent:
    """Make an agent from ``NAME`` or ``NAME:ARGUMENT`` ("noisy:0.2", "hf:PATH", "vllm:PATH", "openai:URL#MODEL", "react:hf:PATH").

    Args:
        spec: name of the agent.
        device: device of a model in this process.
        options: options of a language model, as commands pass them.

    Raises:
        ConfigError: an unknown name (never a download), a malformed argument, or options of a language model for an agent that
            is none, or that brings its own prompts.
    """
    check_agent(spec)
    name, _, argument = spec.partition(":")
    check_options(spec, options)
    if (plugin := _plugin(spec)) is not None:
        plugin_name, argument = plugin
        return _agent_of(REGISTRY.get(plugin_name), argument, spec)
    if name in PROMPTED:
        model = make_agent(argument, device=device, options=options)
        if not isinstance(model, LanguageModelAgent):
            raise ConfigError(
                f"agent {name!r} prompts a language model, which {argument!r} is not: write {name}:hf:PATH"
            )
        return PROMPTED[name](model)
    if name in MODELS:
        return _model(name, argument, device, options)
    return AGENTS[name](argument)


def check_options(spec: str, options: ModelOptions | None) -> None:
    """Raise ConfigError unless the agent of a spec takes these options of a command."""
    name = spec.partition(":")[0]
    chosen = list(options.given()) if options else []
    if _plugin(spec) is not None or name not in (*MODELS, *PROMPTED):
        wrong, why = chosen, "is for language models (hf:PATH, vllm:PATH, openai:URL#MODEL)"
    else:
        prefixed = ("prompt", "dialect", "history", "window") if name in PROMPTED else ()
        wrong, why = (
            [option for option in chosen if option in prefixed],
            "is for models without a prefix, which brings its own",
        )
    if wrong:
        raise ConfigError(f"--{wrong[0].replace('_', '-')} {why}; leave it out, got --agent {short_repr(spec)}")


def _agent_of(make: Callable[..., Agent], argument: str, spec: str) -> Agent:
    try:
        inspect.signature(make).bind(*([argument] if argument else ()))
    except TypeError as error:
        arguments = f"the argument {argument!r}" if argument else "no argument"
        raise ConfigError(f"agent {spec!r} is made with {arguments}, which it does not take: {error}") from error
    except ValueError:  # a callable without a signature
        pass
    agent = make(argument) if argument else make()
    if not callable(getattr(agent, "act", None)) or not isinstance(getattr(agent, "name", None), str):
        raise ConfigError(f"agent {spec!r}: expected an object with act(views) and a name, got {short_repr(agent)}")
    return agent


def _without_argument(kind: Callable[[], Agent], name: str, argument: str) -> Agent:
    if argument:
        raise ConfigError(f"agent {name!r} takes no argument, got {short_repr(argument)}")
    return kind()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"agent {name!r} takes a number, as in {name}:0.5, got {short_repr(text)}") from None
