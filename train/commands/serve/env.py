"""Serve an environment as an OpenEnv server: WebSocket /ws, with one session and one environment per connection.

  creditflow serve env sokoban
  creditflow serve env alfworld --panel standard-v1 --observation text          for clients that show the policy the whole observation
  creditflow serve env wikisearch --potential gdcr --gamma 1                    potential-based rewards per step
  creditflow serve env sokoban --potential rewardflow --gamma 0.99 --log old.jsonl

There is no authentication: listen on addresses other than loopback only if anyone on the network may play. Needs the extra
[openenv]; train/adapters/OPENENV.md has clients, limits, and what a trainer receives. `creditflow new hub-package` writes a
package for OpenEnv's tools.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import listen
from creditflow.train.arguments.options import add_env_settings, env_arguments, positive
from creditflow.train.arguments.outputs import add_input
from creditflow.train.arguments.plugins import add_code
from creditflow.train.commands.serve.arguments import add_server_arguments
from creditflow.wrappers.history_potential import HISTORY
from creditflow.wrappers.potentials import POTENTIALS

if TYPE_CHECKING:
    from creditflow.train.adapters.openenv.environment import Served

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser, "name", "environment", metavar="NAME",
        help="environment, as `creditflow envs` lists them, or your own: path/to/file.py:NAME",
    )  # fmt: skip
    add_env_settings(parser)
    parser.add_argument(
        "--observation", choices=("full", "text"), default="full",
        help="fields of an observation: everything a trainer needs, or only what a policy may see (default full)",
    )  # fmt: skip
    parser.add_argument(
        "--potential",
        choices=(*HISTORY, *POTENTIALS),
        help="add the difference of this scheme's potential to each reward",
    )
    parser.add_argument("--gamma", type=float, help="the trainer's discount, with which --potential changes no optimum")
    add_input(parser, "--log", help="trajectory log from which --potential is learned (not for gdcr)")
    parser.add_argument(
        "--max-sessions", type=positive, default=64, help="maximum number of open sessions (default 64)"
    )
    parser.add_argument(
        "--idle-seconds",
        type=float,
        default=600.0,
        help="close a session after this many seconds without a message (default 600)",
    )
    parser.add_argument(
        "--max-seconds", type=float, default=60.0, help="time limit of an HTTP request in seconds (default 60)"
    )
    parser.add_argument(
        "--max-message", type=positive, default=2**20, help="maximum size of a message in bytes (default 1048576)"
    )
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        ConfigError: a wrong option.
        DataError: the log is malformed.
        MissingExtraError: the extra [openenv] is not installed.
    """
    from creditflow.train.adapters.releases import OPENENV

    OPENENV.require()
    from creditflow.train.adapters.openenv.server import SessionLimits, make_app

    limits = SessionLimits(
        sessions=args.max_sessions, idle_seconds=args.idle_seconds, seconds=args.max_seconds, message=args.max_message
    )
    listen(
        lambda: make_app(_served(args), limits, args.allow_host), args.host, args.port, "environment",
        message_bytes=limits.message, key_variable=args.key_variable,
    )  # fmt: skip
    return 0


def _served(args: argparse.Namespace) -> Served:
    """Return what the arguments say is served."""
    from creditflow.train.adapters.openenv.environment import Served
    from creditflow.train.adapters.shaping import Shaping

    if args.potential is None:
        if args.gamma is not None or args.log:
            raise ConfigError("--gamma and --log have no effect without --potential")
        shaping = None
    else:
        if args.gamma is None:
            raise ConfigError(
                "--potential needs --gamma, the trainer's discount; another one changes the optimal policy"
            )
        shaping = Shaping.learned(args.potential, gamma=args.gamma, log=args.log or "")
    return Served(name=args.name, options=env_arguments(args), observation=args.observation, shaping=shaping)
