"""Workers as actors of a Ray cluster that is running already; extra ``[ray]``.

Every node needs creditflow itself and whatever files the environment reads. An actor takes one CPU; a lost one (a
killed process, a lost node) is replaced by a new one wherever there is room. An actor is given work once it stands: one
that finds no room, because a node is gone or because more were asked for than there are CPUs, holds nothing up.
"""

from __future__ import annotations

import socket
import sys
import zlib
from importlib.util import find_spec
from typing import Any

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.rollout.workers.play import RolloutSpec, RolloutWorker
from creditflow.train.rollout.workers.pool import MAX_ATTEMPTS, Event, WorkerError

__all__ = ["RayExecutor"]

CONNECT_TIMEOUT = 10.0
NO_CPU_WARNING_SECONDS = 30.0  # a person is told after so long without any actor


class _Actor:
    """What runs on the cluster."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._worker: RolloutWorker | None = None

    def place(self) -> tuple[int, str]:
        """Process id and node."""
        import os

        import ray

        return os.getpid(), str(ray.get_runtime_context().get_node_id())

    def answer(self, task: str) -> tuple[bytes, str]:
        """(result, error), one of them empty; the result small, so that Ray sends it instead of keeping it here."""
        try:
            self._worker = self._worker or RolloutWorker(RolloutSpec.from_text(self._spec))
            return zlib.compress(self._worker.play(task).encode("ascii"), 1), ""
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller reports it and stops
            return b"", f"{type(error).__name__}: {error}"


class RayExecutor:
    """N actors.

    Args:
        spec: what they play.
        workers: N ≥ 1; as many of them as there is room for play.
        address: of the cluster, as ``ray.init`` takes it ("auto", "HOST:PORT", "ray://HOST:PORT").

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: there is no such cluster.
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
        self._starting: dict[Any, Any] = {}  # what an actor says once it stands -> the actor
        self._idle: list[Any] = []
        self._in_flight: dict[Any, tuple[int, Any]] = {}
        self._failed_starts = 0  # in succession
        for _ in range(workers):
            self._start()

    @property
    def size(self) -> int:
        """How many units can be under way at once: the actors that stand."""
        return len(self._idle) + len(self._in_flight)

    def pids(self) -> tuple[int, ...]:
        """Process ids of the actors, on whatever node they are, once all stand; only while nothing is under way."""
        return tuple(pid for pid, _ in self._places())

    def nodes(self) -> tuple[str, ...]:
        """The node of each actor, in the order of ``pids``; only while nothing is under way."""
        return tuple(node for _, node in self._places())

    def _places(self) -> list[tuple[int, str]]:
        while self._starting:
            self.wait()
        return list(self._ray.get([actor.place.remote() for actor in self._idle]))

    def _start(self) -> None:
        actor = self._kind.remote(self._spec)
        self._starting[actor.place.remote()] = actor

    def submit(self, unit: int, text: str) -> None:
        """Begin a unit on an idle actor."""
        actor = self._idle.pop(0)
        self._in_flight[actor.answer.remote(text)] = (unit, actor)

    def wait(self) -> list[Event]:
        """Wait until a unit has ended or an actor stands.

        Raises:
            WorkerError: actors end before they stand, again and again, or can never stand.
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
        unit, actor = self._in_flight.pop(done)
        answer, lost = self._get(done, actor)
        if lost:
            self._start()
            return [Event(unit, reason=f"Ray: {lost.splitlines()[0]}")]
        result, error = answer
        self._idle.append(actor)
        return [Event(unit, None if error else zlib.decompress(result).decode("ascii"), error)]

    def _get(self, ref: Any, actor: Any) -> tuple[Any, str]:
        """(an actor's answer, why it was lost); a lost actor is gone afterwards.

        Raises:
            WorkerError: no other actor would fare better.
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
            self._ray.kill(actor)  # it may live: the answer alone was lost, say with the node that kept it
            return None, str(lost) or type(lost).__name__

    def _wait_for_one(self) -> Any:
        """What was finished first: a unit's or a starting actor's answer."""
        while True:
            done, _ = self._ray.wait([*self._in_flight, *self._starting], num_returns=1, timeout=NO_CPU_WARNING_SECONDS)
            if done:
                return done[0]
            if not self.size:
                print("the Ray cluster has no free CPU: waiting for one", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Stop all actors, and leave the cluster if it was joined here."""
        for actor in [*self._idle, *self._starting.values(), *(actor for _, actor in self._in_flight.values())]:
            self._ray.kill(actor)
        self._idle, self._starting, self._in_flight = [], {}, {}
        if self._connected_here:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT: Ray itself would go on trying for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT).close()
