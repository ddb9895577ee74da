"""Arguments of every server."""

from __future__ import annotations

import argparse

__all__ = ["add_server_arguments"]


def add_server_arguments(parser: argparse.ArgumentParser, limits: str) -> None:
    """Define the address of a server, by default on loopback, the key that its clients send, and its limits.

    Args:
        parser: the command's parser.
        limits: the names of the limits with their defaults, for the help.
    """
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; on any address other than loopback, anyone on the network can send requests",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="additional Host header to accept; * accepts any (repeatable)",
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default 8000)")
    parser.add_argument(
        "--key-variable",
        default="",
        metavar="NAME",
        help="environment variable with a key that clients must send as Authorization: Bearer KEY",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"server limit (repeatable): {limits}",
    )
