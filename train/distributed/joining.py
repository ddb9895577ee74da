"""Join the ranks that ``torchrun`` started, and end together: every rank learns why another one stopped.

A rank that fails writes its reason into the store of ``torchrun`` before it ends. The others find their connection closed, or
are ended by ``torchrun``, and raise that reason. A rank that was killed writes none; it is the one that does not answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from types import FrameType
from typing import Any, Final, NoReturn

from creditflow.envs.errors import ConfigError, CreditflowError
from creditflow.train.distributed.world import ALONE, World
from creditflow.train.settings.distributed import DistributedConfig

__all__ = ["RankFailedError", "joined", "leave", "started_by_torchrun"]

VARIABLES: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # set by torchrun in every process
ANSWER_SECONDS: Final = 5.0  # within which a rank that still runs notices that another is gone
POLL_SECONDS: Final = 0.1
CONNECTION_ERRORS: Final = (
    "gloo",
    "NCCL",
    "Connection closed",
    "connection",
    "Timed out",
    "timed out",
    "TCPStore",
    "socket",
)


class RankFailedError(CreditflowError, RuntimeError):
    """Another rank stopped, so this one cannot continue."""


class _TerminatedError(BaseException):
    """``torchrun`` ends this process; no handler of ordinary errors may swallow it."""


def started_by_torchrun(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is one of several that ``torchrun`` started."""
    return all(name in environment for name in VARIABLES) and int(environment["WORLD_SIZE"]) > 1


@contextlib.contextmanager
def joined(config: DistributedConfig, environment: Mapping[str, str] = os.environ) -> Iterator[World]:
    """Join the other ranks; without ``torchrun`` the world of one rank.

    Args:
        config: settings of the run.
        environment: that of the process.

    Raises:
        ConfigError: the machine has fewer GPUs than processes.
        RankFailedError: another rank stopped; with its reason if it gave one.
    """
    if not started_by_torchrun(environment):
        yield ALONE
        return
    import torch
    import torch.distributed as dist

    on_gpu, local = torch.cuda.is_available(), int(environment.get("LOCAL_RANK", "0"))
    if on_gpu:
        if local >= (gpus := torch.cuda.device_count()):
            raise ConfigError(
                f"process {local} of this machine has no GPU, torch finds {gpus}: start at most as many processes as GPUs "
                f"(torchrun --nproc-per-node {gpus})"
            )
        torch.cuda.set_device(local)
    store, rank, size = next(dist.rendezvous("env://"))
    timeout = timedelta(minutes=config.timeout_minutes)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=size, timeout=timeout
    )
    notices = _Notices(dist.PrefixStore("creditflow", store), rank, size)
    try:
        with _terminated_raises():
            yield World(rank, size, config.shard)
    except BaseException as error:
        other = notices.cause_elsewhere() if _may_come_from_elsewhere(error) else ""
        if other:
            raise RankFailedError(f"rank {rank} stops, because {other}") from error
        if isinstance(error, _TerminatedError):
            raise RankFailedError(f"rank {rank} was terminated (SIGTERM); continue the run with --resume") from None
        notices.leave(f"{type(error).__name__}: {error}")
        raise
    finally:
        dist.destroy_process_group()


def leave() -> NoReturn:
    """End this process at once, with success.

    The threads of gloo outlive ``destroy_process_group`` (torch 2.13, once an optimiser was made), and abort the process if
    they let go of a tensor while the interpreter ends.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Notices:
    """What the ranks leave in the store when they stop."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size

    def leave(self, reason: str) -> None:
        """Tell the others why this rank stops; the store may be gone with the machine that holds it."""
        with contextlib.suppress(RuntimeError):
            self._store.set(f"reason/{self._rank}", reason)

    def cause_elsewhere(self) -> str:
        """Why another rank stopped, in words; "" if all others still answer."""
        try:
            self._store.set(f"answer/{self._rank}", "")
            found = _poll(self._reason, ANSWER_SECONDS)
            if found:
                return found
            unresponsive = [rank for rank in range(self._size) if not self._store.check([f"answer/{rank}"])]
        except RuntimeError:
            return "the store of torchrun does not answer: its process or machine is gone"
        if not unresponsive:
            return ""
        ranks = ", ".join(map(str, unresponsive))
        return f"rank {ranks} ended without a reason (killed, or out of memory?)"

    def _reason(self) -> str:
        for rank in range(self._size):
            if rank != self._rank and self._store.check([f"reason/{rank}"]):
                return f"rank {rank} stopped with {self._store.get(f'reason/{rank}').decode(errors='replace')}"
        return ""


def _poll(read: Callable[[], str], seconds: float) -> str:
    """Read until there is something, or the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := read()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found


def _may_come_from_elsewhere(error: BaseException) -> bool:
    """Whether an error may be the effect of another rank's end: a broken connection, or a signal of ``torchrun``."""
    text = str(error)
    broken = isinstance(error, RuntimeError) and any(word in text for word in CONNECTION_ERRORS)
    return isinstance(error, _TerminatedError) or (broken and not isinstance(error, CreditflowError))


@contextlib.contextmanager
def _terminated_raises() -> Iterator[None]:
    """Turn the signal with which ``torchrun`` ends processes into an exception, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the reason is being found
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
