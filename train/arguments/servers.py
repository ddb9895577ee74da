"""Arguments of commands that serve over HTTP."""

from __future__ import annotations

import argparse
from typing import Protocol

from creditflow.train.arguments.options import positive

__all__ = ["add_address_arguments", "add_key_argument", "add_server_arguments"]


class ServerLimits(Protocol):
    """Limits that every server has."""

    @property
    def pending(self) -> int:
        """Items that may wait or run."""
        ...

    @property
    def seconds(self) -> float:
        """Longest time of a request."""
        ...

    @property
    def body(self) -> int:
        """Bytes of a request."""
        ...


def add_server_arguments(parser: argparse.ArgumentParser, limits: ServerLimits, *, port: int, queued: str) -> None:
    """Define the address and the limits of a server.

    Args:
        parser: the command's parser.
        limits: default limits.
        port: default port.
        queued: what waits in the queue, in the plural ("queries").
    """
    add_address_arguments(parser, port=port)
    add_key_argument(parser)
    parser.add_argument(
        "--max-pending",
        type=positive,
        default=limits.pending,
        help=f"maximum number of queued {queued}; more get status 503 (default {limits.pending})",
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=limits.seconds,
        help=f"time limit of a request in seconds; then status 504 (default {limits.seconds:g})",
    )
    parser.add_argument(
        "--max-body",
        type=positive,
        default=limits.body,
        help=f"maximum size of a request in bytes; larger ones get status 413 (default {limits.body})",
    )


def add_address_arguments(parser: argparse.ArgumentParser, *, port: int) -> None:
    """Define the address of a server, by default on loopback."""
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
    parser.add_argument("--port", type=int, default=port, help=f"port to listen on (default {port})")


def add_key_argument(parser: argparse.ArgumentParser) -> None:
    """Define the key of a server."""
    parser.add_argument(
        "--key-variable",
        default="",
        metavar="NAME",
        help="environment variable with a key that clients must send as Authorization: Bearer KEY",
    )
