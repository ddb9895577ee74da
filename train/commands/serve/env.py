"""Serve an environment as an OpenEnv server: WebSocket /ws, with one session and one environment per connection.

  creditflow serve env sokoban
  creditflow serve env alfworld --panel standard-v1 --observation text          for clients that show the policy the whole observation

Without --key-variable there is no authentication: listen on addresses other than loopback only if anyone on the network
may play. Needs the extra [openenv]. train/adapters/OPENENV.md describes clients, limits and what a trainer receives.
"""

from __future__ import annotations

import argparse

from creditflow.envs.http import listen
from creditflow.train.arguments.options import add_env_settings, env_arguments
from creditflow.train.arguments.programs import add_code
from creditflow.train.commands.serve.arguments import add_server_arguments
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser,
        "name",
        "environment",
        metavar="NAME",
        help="environment, as `creditflow envs` lists them, or your own: path/to/file.py:NAME",
    )
    add_env_settings(parser)
    parser.add_argument(
        "--observation",
        choices=("full", "text"),
        default="full",
        help="fields of an observation: everything a trainer needs, or only what a policy may see (default full)",
    )
    add_server_arguments(parser, "sessions=64, idle_seconds=600 without a step, message=1048576 bytes")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        ConfigError: a wrong option.
        MissingExtraError: the extra [openenv] is not installed.
    """
    from creditflow.train.adapters.releases import OPENENV

    OPENENV.require()
    from creditflow.train.adapters.openenv.environment import Served
    from creditflow.train.adapters.openenv.server import SessionLimits, make_app

    limits = read_dataclass(SessionLimits, apply_overrides({}, args.limit), "--limit")
    served = Served(name=args.name, options=env_arguments(args), observation=args.observation)
    listen(lambda: make_app(served, limits), args.port, "environment", message_bytes=limits.message)
    return 0
