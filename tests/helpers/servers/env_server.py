"""``creditflow serve env`` in a process of its own, as long as a test needs it."""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from helpers.servers.raw_http import connect

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import bound, url_of
from creditflow.train.commands.serve import env as serve_env

# a shell's background jobs ignore SIGINT, and their child processes inherit that
SERVE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from creditflow.train.cli import main; sys.exit(main(sys.argv[1:]))"
)
LEVELS = ("#######\n#@ $ .#\n#     #\n#######", "#######\n#     #\n# $@ .#\n#######", "######\n#.$@ #\n######")


def parsed(*arguments: str) -> argparse.Namespace:
    """Arguments of ``serve env``."""
    parser = argparse.ArgumentParser()
    serve_env.add_arguments(parser)
    return parser.parse_args(arguments)


def free_url() -> str:
    """The URL of a free port of loopback, below those that the system gives to programs which ask for any.

    The port is free again when this returns. One that the system chose could be given to another server meanwhile.
    """
    while True:
        with suppress(ConfigError), bound(20_000 + secrets.randbelow(12_000)) as sock:
            return url_of(sock).rstrip("/")


def start(url: str, *arguments: str, errors: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start a server at a URL and wait until it answers."""
    port = url.rpartition(":")[2]
    process = subprocess.Popen([sys.executable, "-c", SERVE, "serve", "env", *arguments, "--port", port], stderr=errors)
    for _ in range(6000):
        assert process.poll() is None, "the server has ended"
        try:
            with connect(url):
                return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise AssertionError("the server does not listen")


@contextmanager
def env_server(*arguments: str, errors: IO[bytes] | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """URL and process of a server with these arguments of ``serve env``, whose standard error goes to a file."""
    url = free_url()
    process = start(url, *arguments, errors=errors)
    try:
        yield url, process
    finally:
        process.kill()
        process.wait()


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    """Memory of a process in MiB."""
    return int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096 / 2**20
