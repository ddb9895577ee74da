"""Annotators by their name on the command line: ``oracle``, ``critic:DIR``, ``judge:URL#MODEL`` and so on.

Each name has a module with a function ``make(argument, context)``, which is imported on use: most need an extra.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import gymnasium as gym

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.train.annotate.base import Annotator

__all__ = ["ANNOTATORS", "Context", "Entry", "entry_of", "make_annotator", "settings_of", "spelled"]


class Entry(NamedTuple):
    """An annotator in the registry.

    Attributes:
        module: has ``make(argument, context)``; below ``creditflow.train.annotate``.
        argument: what follows its name on the command line; "" for nothing.
        values: names of the values that it writes, without those with ".next".
        meaning: what they are.
    """

    module: str
    argument: str
    values: tuple[str, ...]
    meaning: str


ANNOTATORS: dict[str, Entry] = {
    "oracle": Entry("oracle", "", ("value.oracle", "distance.oracle"), "the environment's exact value and distance"),
    "critic": Entry("critic", "DIR", ("value.critic",), "values of a trained critic, per turn and token"),
    "likelihood": Entry(
        "likelihood",
        "DIR",
        ("logp.answer.mean",),
        "mean log-likelihood of the reference answer's tokens after the history so far",
    ),
    "success": Entry("success.annotator", "DIR", ("value.pica",), "a success model's probability of success"),
    "judge": Entry("judge", "URL#MODEL", ("judge.score",), "a served model's score of every turn"),
    "forks": Entry(
        "forks",
        "K",
        ("fork.value", "fork.q", "fork.error", "fork.p", "fork.episodes", "fork.turns", "fork.tokens"),
        "mean score of K continuations, its error and its cost; with alternatives=true those of the other actions",
    ),
}


@dataclass(frozen=True, slots=True)
class Context:
    """What annotators may need besides their argument.

    Attributes:
        settings: parameters by name.
        make_env: makes the environment of the log, without wrappers; None if none was named.
        device: device of models.
        options: arguments of the environment, for the provenance.
        recorded: identity of the run that played the log; empty if the log does not name one.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    make_env: Callable[[], gym.Env[Any, Any]] | None = None
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    recorded: Mapping[str, Any] = field(default_factory=dict)

    def environment(self, name: str) -> Callable[[], gym.Env[Any, Any]]:
        """``make_env``.

        Raises:
            ConfigError: no environment was named.
        """
        if self.make_env is None:
            raise ConfigError(f"annotator {name!r} replays episodes: name the environment (--env, --env-set, --panel)")
        return self.make_env


def spelled(name: str) -> str:
    """An annotator's name as it is written on the command line: "oracle", "critic:DIR"."""
    argument = ANNOTATORS[name].argument
    return f"{name}:{argument}" if argument else name


def entry_of(spec: str) -> tuple[Entry, str]:
    """The annotator of ``NAME`` or ``NAME:ARGUMENT``, and the argument.

    Raises:
        ConfigError: an unknown name, a missing or superfluous argument.
    """
    name, _, argument = spec.partition(":")
    if name not in ANNOTATORS:
        raise unknown_name_error("annotator", name, ANNOTATORS)
    entry = ANNOTATORS[name]
    if entry.argument and not argument:
        raise ConfigError(f"annotator {name!r} needs an argument: write {spelled(name)}")
    if argument and not entry.argument:
        raise ConfigError(f"annotator {name!r} takes no argument, got {short_repr(argument)}")
    return entry, argument


def make_annotator(spec: str, context: Context = Context()) -> Annotator:
    """An annotator from ``NAME`` or ``NAME:ARGUMENT``.

    Raises:
        ConfigError: as ``entry_of``; or a wrong setting.
        MissingExtraError: an extra is not installed.
        DataError: its model cannot be read.
    """
    entry, argument = entry_of(spec)
    annotator: Annotator = import_module(f"creditflow.train.annotate.{entry.module}").make(argument, context)
    return annotator


def settings_of(name: str, context: Context, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an annotator: its defaults, overridden by the settings of the context.

    Raises:
        ConfigError: an unknown name, or a value of another type than the default's.
    """
    settings = dict(defaults)
    for key, value in context.settings.items():
        if key not in defaults:
            raise unknown_name_error(f"setting of annotator {name!r}", key, defaults)
        kind = type(defaults[key])
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(f"annotator {name!r}: {key} must be {kind.__name__}, got {short_repr(value)}")
        settings[key] = value
    return settings
