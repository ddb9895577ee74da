"""Workers as actors of a Ray cluster that is running already; extra ``[ray]``.

Every node needs creditflow itself and whatever files the environment reads. An actor takes one CPU; a lost one (a
killed process, a lost node) is replaced by a new one on any free CPU. An actor gets work once it is ready; one that
cannot be scheduled, because a node is gone or because there are fewer CPUs than workers, blocks nothing.
"""

from __future__ import annotations

import socket
import zlib
from importlib.util import find_spec
from typing import Any

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.progress import note
from creditflow.train.rollout.workers.play import RolloutSpec, RolloutWorker
from creditflow.train.rollout.workers.pool import MAX_ATTEMPTS, Event, WorkerError

__all__ = ["RayExecutor"]

CONNECT_TIMEOUT = 10.0  # seconds
NO_CPU_WARNING_SECONDS = 30.0  # without any actor; then a message is printed


class _Actor:
    """The worker on the cluster."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._worker: RolloutWorker | None = None

    def location(self) -> tuple[int, str]:
        """Process id and node id."""
        import os

        import ray

        return os.getpid(), str(ray.get_runtime_context().get_node_id())

    def play(self, task: str) -> tuple[bytes, str]:
        """Play a task; returns (result, error), one of them empty.

        The result is compressed, so that Ray sends it instead of keeping it in this node's object store.
        """
        try:
            self._worker = self._worker or RolloutWorker(RolloutSpec.from_text(self._spec))
            return zlib.compress(self._worker.play(task).encode("ascii"), 1), ""
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller reports it and stops
            return b"", f"{type(error).__name__}: {error}"


class RayExecutor:
    """Runs work items on N actors.

    Args:
        spec: determines the episodes.
        workers: N ≥ 1; as many of them as there are free CPUs run at once.
        address: address of the cluster, as ``ray.init`` takes it ("auto", "HOST:PORT", "ray://HOST:PORT").

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: no cluster can be reached there.
    """

    def __init__(self, spec: RolloutSpec, workers: int, address: str) -> None:
        if find_spec("ray") is None:
            raise MissingExtraError("ray", "ray")
        import ray

        if workers < 1:
            raise ConfigError(f"workers must be at least 1, got {workers}")
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            try:
                _check_reachable(address)
                ray.init(address=address, log_to_driver=False)
            except (OSError, ValueError, RuntimeError) as error:
                raise ConfigError(f"cannot reach a Ray cluster at {address!r}: {error}") from error
        self._ray: Any = ray
        self._kind: Any = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_Actor)
        self._spec = spec.to_text()
        self._starting: dict[Any, Any] = {}  # pending location -> the actor, which is ready once it resolves
        self._idle: list[Any] = []
        self._in_flight: dict[Any, tuple[int, Any]] = {}
        self._failed_starts = 0  # consecutive
        for _ in range(workers):
            self._start()

    @property
    def size(self) -> int:
        """Number of items that can run at once: the number of ready actors."""
        return len(self._idle) + len(self._in_flight)

    def pids(self) -> tuple[int, ...]:
        """Process ids of the actors, on whatever node they are, once all are ready; only while no item is running."""
        return tuple(pid for pid, _ in self._locations())

    def nodes(self) -> tuple[str, ...]:
        """The node of each actor, in the order of ``pids``; only while no item is running."""
        return tuple(node for _, node in self._locations())

    def _locations(self) -> list[tuple[int, str]]:
        while self._starting:
            self.wait()
        return list(self._ray.get([actor.location.remote() for actor in self._idle]))

    def _start(self) -> None:
        actor = self._kind.remote(self._spec)
        self._starting[actor.location.remote()] = actor

    def submit(self, item: int, text: str) -> None:
        """Start a work item on an idle actor."""
        actor = self._idle.pop(0)
        self._in_flight[actor.play.remote(text)] = (item, actor)

    def wait(self) -> list[Event]:
        """Wait until an item has ended or an actor is ready.

        Raises:
            WorkerError: several actors in succession failed to start, or none can ever be scheduled.
        """
        done = self._wait_for_one()
        if done in self._starting:
            actor = self._starting.pop(done)
            _, lost = self._get(done, actor)
            if lost:
                self._failed_starts += 1
                if self._failed_starts >= MAX_ATTEMPTS:
                    raise WorkerError(f"{MAX_ATTEMPTS} Ray actors in succession did not start: {lost}")
                self._start()
                return []
            self._failed_starts = 0
            self._idle.append(actor)
            return []
        item, actor = self._in_flight.pop(done)
        reply, lost = self._get(done, actor)
        if lost:
            self._start()
            return [Event(item, reason=f"Ray: {lost.splitlines()[0]}")]
        result, error = reply
        self._idle.append(actor)
        return [Event(item, None if error else zlib.decompress(result).decode("ascii"), error)]

    def _get(self, ref: Any, actor: Any) -> tuple[Any, str]:
        """Get an actor's reply; returns (reply, why the actor was lost). A lost actor is killed.

        Raises:
            WorkerError: an error that every other actor would meet too.
        """
        from ray.exceptions import (
            ActorUnschedulableError,
            NodeDiedError,
            ObjectLostError,
            OutOfMemoryError,
            RayActorError,
            RaySystemError,
            RuntimeEnvSetupError,
            WorkerCrashedError,
        )

        try:
            return self._ray.get(ref), ""
        except (ActorUnschedulableError, RuntimeEnvSetupError) as error:
            raise WorkerError(f"the Ray cluster cannot run an actor of this program: {error}") from error
        except RayActorError as lost:
            return None, str(lost) or type(lost).__name__
        except (NodeDiedError, ObjectLostError, OutOfMemoryError, RaySystemError, WorkerCrashedError) as lost:
            self._ray.kill(actor)  # it may still run: only its reply was lost, for example with the node that kept it
            return None, str(lost) or type(lost).__name__

    def _wait_for_one(self) -> Any:
        """The first reference to resolve: the result of an item, or the location of a starting actor."""
        while True:
            done, _ = self._ray.wait([*self._in_flight, *self._starting], num_returns=1, timeout=NO_CPU_WARNING_SECONDS)
            if done:
                return done[0]
            if not self.size:
                note("the Ray cluster has no free CPU: waiting for one")

    def close(self) -> None:
        """Stop all actors, and disconnect from the cluster if this object connected to it."""
        for actor in [*self._idle, *self._starting.values(), *(actor for _, actor in self._in_flight.values())]:
            self._ray.kill(actor)
        self._idle, self._starting, self._in_flight = [], {}, {}
        if self._connected_here:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT: Ray itself would keep trying for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT).close()
