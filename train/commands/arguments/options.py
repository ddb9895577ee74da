"""Argument shapes that several commands share: environments, tasks, ``key=value`` overrides."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.reading.json_text import RepeatedKeyError, unique_keys
from creditflow.envs.registration import ENVIRONMENTS, env_id, make
from creditflow.envs.wikisearch.grading.rewards import Reward, named_reward

__all__ = ["add_env_arguments", "bare_env", "env_arguments", "parse_rewards", "parse_settings", "positive"]


def add_env_arguments(parser: argparse.ArgumentParser) -> None:
    """Define ``--env``, ``--env-set`` and ``--panel``."""
    parser.add_argument("--env", default="sokoban", help=f"environment: {', '.join(ENVIRONMENTS)}, or a Gymnasium id")
    parser.add_argument(
        "--env-set", action="append", default=[], metavar="KEY=VALUE", help="argument of the environment (repeatable)"
    )
    parser.add_argument("--panel", metavar="NAME:SPLIT", help="embedded tasks to use; `creditflow envs` lists them")


def env_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of the environment."""
    settings = parse_settings(args.env_set)
    if args.panel:
        if "panel" in settings:
            raise ConfigError("give the panel once: --panel or --env-set panel=…")
        settings["panel"] = args.panel
    return settings


def bare_env(name: str, settings: dict[str, Any]) -> AgentEnv[Any, Any, Any]:
    """The unwrapped environment.

    Raises:
        ConfigError: unknown environment, or an argument it does not take.
    """
    try:
        env = make(env_id(name), **settings).unwrapped
    except TypeError as error:
        raise ConfigError(f"environment {name!r} does not take these arguments: {error}") from error
    if not isinstance(env, AgentEnv):
        raise ConfigError(f"{name!r} is not a creditflow environment")
    return env


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """``key=value`` pairs; values are JSON where they parse as JSON, else text.

    >>> parse_settings(["discount=1e-1", "key=text", "n=3", "flag=true"])
    {'discount': 0.1, 'key': 'text', 'n': 3, 'flag': True}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"a setting is written KEY=VALUE, got {short_repr(pair)}")
        if key in settings:
            raise ConfigError(f"setting {key!r} is given twice")
        try:
            settings[key] = json.loads(value, object_pairs_hook=unique_keys)
        except RepeatedKeyError as error:
            raise ConfigError(f"{key}: {error}") from error
        except (ValueError, RecursionError):
            settings[key] = value
    return settings


def parse_rewards(names: Iterable[str]) -> dict[str, Reward]:
    """Published rewards by name.

    Raises:
        ConfigError: an unknown name.
    """
    return {name: named_reward(name) for name in names}


def positive(text: str) -> int:
    """An integer ≥ 1, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number ≥ 1, got {short_repr(text)}")
    return number
