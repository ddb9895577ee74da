"""Annotators by their name on the command line: ``oracle``, ``critic:DIR``, ``judge:URL#MODEL`` and so on.

Each name has a module with a function ``make(argument, context)``, which is imported on use: most need an extra.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import gymnasium as gym

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.train.annotate.base import Annotator

__all__ = ["ANNOTATORS", "Context", "make_annotator", "settings_of"]

# name -> (module with make(argument, context), argument, values that it writes)
ANNOTATORS: dict[str, tuple[str, str, str]] = {
    "oracle": (
        "creditflow.train.annotate.oracle",
        "",
        "value.oracle, distance.oracle: the environment's exact value and distance",
    ),
    "critic": (
        "creditflow.train.annotate.critic",
        "DIR",
        "value.critic: values of a trained critic, per turn and token",
    ),
    "likelihood": (
        "creditflow.train.annotate.likelihood",
        "DIR",
        "logp.answer, logp.answer.mean: log-likelihood of the reference answer after the history so far",
    ),
    "success": (
        "creditflow.train.annotate.success.annotator",
        "DIR",
        "value.pica: a success model's probability of success; DIR or the URL of creditflow serve-reward",
    ),
    "pica-server": (
        "creditflow.train.annotate.success.serving.remote",
        "URL",
        "value.pica: from the hazards of PiCA's released reward service, or of creditflow serve-reward",
    ),
    "judge": ("creditflow.train.annotate.judge", "URL#MODEL", "judge.score: a served model's score of every turn"),
    "rubric": (
        "creditflow.train.annotate.rubric",
        "URL#MODEL",
        "rubric.passed, rubric.failed, rubric.score: verdicts of a judge on the task's criteria, with the turns that it cites",
    ),
    "hindsight": (
        "creditflow.train.annotate.hindsight",
        "DIR",
        "logp.hindsight: log-probability of the action given the state before it and the final state",
    ),
    "teacher": (
        "creditflow.train.annotate.teacher",
        "DIR",
        "logp.teacher.gap: increase of a turn's log-probability by a skill's text before the prompt",
    ),
    "forks": ("creditflow.train.annotate.forks", "K", "fork.value, fork.q: mean score of K continuations"),
}


@dataclass(frozen=True, slots=True)
class Context:
    """What annotators may need besides their argument.

    Attributes:
        settings: parameters by name.
        make_env: makes the environment of the log, without wrappers; None if none was named.
        device: device of models.
        options: arguments of the environment, for the provenance.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    make_env: Callable[[], gym.Env[Any, Any]] | None = None
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def environment(self, name: str) -> Callable[[], gym.Env[Any, Any]]:
        """``make_env``.

        Raises:
            ConfigError: no environment was named.
        """
        if self.make_env is None:
            raise ConfigError(f"annotator {name!r} replays episodes: name the environment (--env, --env-set, --panel)")
        return self.make_env


def make_annotator(spec: str, context: Context = Context()) -> Annotator:
    """An annotator from ``NAME`` or ``NAME:ARGUMENT``.

    Raises:
        ConfigError: an unknown name, a missing or superfluous argument, or a wrong setting.
        MissingExtraError: an extra is not installed.
        DataError: its model cannot be read.
    """
    name, _, argument = spec.partition(":")
    if name not in ANNOTATORS:
        raise unknown_name_error("annotator", name, ANNOTATORS)
    module, expected, _ = ANNOTATORS[name]
    if expected and not argument:
        raise ConfigError(f"annotator {name!r} is written {name}:{expected}")
    if argument and not expected:
        raise ConfigError(f"annotator {name!r} takes no argument, got {short_repr(argument)}")
    annotator: Annotator = import_module(module).make(argument, context)
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
