"""Arguments of every server."""

from __future__ import annotations

import argparse

__all__ = ["add_server_arguments"]


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the address of a server, by default on loopback, and the key that its clients send."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; with any other than loopback, anyone on the network can send requests",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="Host header to accept too; * accepts any (repeatable)",
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default 8000)")
    parser.add_argument(
        "--key-variable",
        default="",
        metavar="NAME",
        help="environment variable with a key that clients must send as Authorization: Bearer KEY",
    )
