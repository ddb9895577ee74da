"""Arguments of several commands: environments, tasks, rewards."""

from __future__ import annotations

import argparse
from typing import Any, Final

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.foreign.env import DEFAULT_LIMIT
from creditflow.envs.registration import ENVIRONMENTS, limit_option
from creditflow.train.arguments.programs import add_code
from creditflow.train.settings.bounds import MAX_SEED
from creditflow.train.settings.overrides import apply_overrides, with_variables

__all__ = [
    "add_env_arguments",
    "add_env_settings",
    "add_seed",
    "add_workers",
    "env_arguments",
    "non_negative",
    "positive",
    "seed",
    "workers",
]

MAX_WORKERS: Final = 256


def add_env_arguments(parser: argparse.ArgumentParser) -> None:
    """Define ``--env`` and the settings of an environment."""
    add_code(
        parser,
        "--env",
        "environment",
        default="sokoban",
        help=f"environment: {', '.join(ENVIRONMENTS)}, a Gymnasium id, or your own: path/to/file.py:NAME",
    )
    add_env_settings(parser)


def add_env_settings(parser: argparse.ArgumentParser) -> None:
    """Define ``--env-set``, ``--max-turns`` and ``--panel``."""
    parser.add_argument(
        "--env-set", action="append", default=[], metavar="KEY=VALUE", help="argument of the environment (repeatable)"
    )
    parser.add_argument(
        "--max-turns",
        type=positive,
        metavar="N",
        help=f"end every episode after N turns, including invalid ones (default: the environment's own limit, or {DEFAULT_LIMIT} if it has none)",
    )
    parser.add_argument("--panel", metavar="NAME:SPLIT", help="built-in tasks to use; `creditflow envs` lists them")


def add_seed(parser: argparse.ArgumentParser, draws: str) -> None:
    """Define ``--seed``."""
    parser.add_argument("--seed", type=seed, default=0, help=f"random seed of {draws} (default 0)")


def add_workers(parser: argparse.ArgumentParser, work: str) -> None:
    """Define ``--workers``."""
    parser.add_argument(
        "--workers",
        type=workers,
        default=0,
        metavar="N",
        help=f"number of worker processes (default: {work} in this process)",
    )


def env_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of the environment."""
    settings: dict[str, Any] = with_variables(apply_overrides({}, args.env_set), "--env-set")
    if args.max_turns:
        name = limit_option(args.env if "env" in args else args.name)
        if name in settings:
            raise ConfigError(f"pass the limit only once: --max-turns or --env-set {name}=…")
        settings[name] = args.max_turns
    if args.panel:
        if "panel" in settings:
            raise ConfigError("pass the panel only once: --panel or --env-set panel=…")
        settings["panel"] = args.panel
    return settings


def positive(text: str) -> int:
    """An integer ≥ 1, for argparse."""
    return _integer(text, 1)


def non_negative(text: str) -> int:
    """An integer ≥ 0, for argparse."""
    return _integer(text, 0)


def seed(text: str) -> int:
    """A random seed, 0 to ``MAX_SEED``, for argparse."""
    return _integer(text, 0, MAX_SEED)


def workers(text: str) -> int:
    """A number of processes, 1 to ``MAX_WORKERS``, for argparse."""
    return _integer(text, 1, MAX_WORKERS)


def _integer(text: str, minimum: int, maximum: int | None = None) -> int:
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum or (maximum is not None and number > maximum):
        expected = f"≥ {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise argparse.ArgumentTypeError(f"expected a whole number {expected}, got {short_repr(text)}")
    return number
