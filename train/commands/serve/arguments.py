"""Arguments of every server."""

from __future__ import annotations

import argparse

__all__ = ["add_server_arguments"]


def add_server_arguments(parser: argparse.ArgumentParser, limits: str) -> None:
    """Define the port of a server, which listens on loopback, and its limits.

    Args:
        parser: the command's parser.
        limits: the names of the limits with their defaults, for the help.
    """
    parser.add_argument("--port", type=int, default=8000, help="port of this machine to listen on (default 8000)")
    parser.add_argument(
        "--limit", action="append", default=[], metavar="NAME=VALUE", help=f"server limit (repeatable): {limits}"
    )
