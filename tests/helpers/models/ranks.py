"""Ranks without torchrun: forked from a process that has imported everything, joined by gloo on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditflow.train.distributed.joining import joined
from creditflow.train.distributed.world import World
from creditflow.train.settings.distributed import DistributedConfig


@dataclass(frozen=True)
class Outcome:
    """How a rank ended: by a signal, with the class and text of an error, or with a value that JSON can hold."""

    killed_by: int = 0
    error: str = ""
    message: str = ""
    value: Any = None


def in_ranks(size: int, work: Callable[[World], Any], *, shard: bool = False, seconds: float = 240.0) -> list[Outcome]:
    """Run work in every rank; ranks that still run after ``seconds`` are killed, which is an error."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        children = [_forked(rank, size, port, Path(folder), work, shard) for rank in range(size)]
        deadline = time.monotonic() + seconds
        statuses = [_status(child, deadline) for child in children]
        return [_outcome(Path(folder) / f"{rank}.json", status) for rank, status in enumerate(statuses)]


def values(outcomes: list[Outcome]) -> list[Any]:
    """The values of ranks that all succeeded."""
    assert all(not one.error and not one.killed_by for one in outcomes), outcomes
    return [one.value for one in outcomes]


def _forked(rank: int, size: int, port: int, folder: Path, work: Callable[[World], Any], shard: bool) -> int:
    child = os.fork()
    if child:
        return child
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    try:
        with joined(DistributedConfig(shard=shard, timeout_minutes=2.0)) as world:
            done: dict[str, Any] = {"value": work(world)}
    except BaseException as error:  # noqa: BLE001 - a forked process: whatever ends it, also SystemExit, must reach the parent's test
        traceback.print_exc()
        done = {"error": type(error).__name__, "message": str(error)}
    (folder / f"{rank}.json").write_text(json.dumps(done), encoding="ascii")
    os._exit(0)  # neither the parent's fixtures nor its reports


def _status(child: int, deadline: float) -> int:
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"process {child} still ran at its deadline")


def _outcome(file: Path, status: int) -> Outcome:
    if os.WIFSIGNALED(status):
        return Outcome(killed_by=os.WTERMSIG(status))
    return Outcome(**json.loads(file.read_text(encoding="ascii")))
