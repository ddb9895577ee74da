"""Serve an environment or a search index over HTTP.

  creditflow serve env sokoban                            an environment, as an OpenEnv server
  creditflow serve search --corpus wiki.jsonl             a search index, with the request formats of search agents

Each has its own help: creditflow serve env --help.
"""

from __future__ import annotations

import argparse

from creditflow.train.commands.serve import env, search

__all__ = ["add_arguments", "run"]

SERVERS = {"env": env, "search": search}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    servers = parser.add_subparsers(dest="server", required=True, metavar="|".join(SERVERS))
    for name, module in SERVERS.items():
        about = module.__doc__ or ""
        module.add_arguments(
            servers.add_parser(name, help=about.partition(":")[0].partition("\n")[0], description=about)
        )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    return int(SERVERS[args.server].run(args))
