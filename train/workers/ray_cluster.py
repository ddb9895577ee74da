"""Workers as actors of a Ray cluster that is running already; extra ``[ray]``.

Every node needs creditflow itself and whatever files the environment reads. An actor takes one CPU; a lost one (a
killed process, a lost node) is replaced by a new one wherever there is room.
"""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import Any

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.workers.play import Player, RolloutSpec
from creditflow.train.workers.pool import Event

__all__ = ["RayExecutor"]

KNOCK_SECONDS = 10.0


class _Actor:
    """What runs on the cluster."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._player: Player | None = None

    def place(self) -> tuple[int, str]:
        """Process id and node."""
        import os

        import ray

        return os.getpid(), str(ray.get_runtime_context().get_node_id())

    def answer(self, task: str) -> tuple[str, str]:
        """(result, error), one of them empty."""
        try:
            self._player = self._player or Player(RolloutSpec.from_text(self._spec))
            return self._player.answer(task), ""
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller reports it and stops
            return "", f"{type(error).__name__}: {error}"


class RayExecutor:
    """N actors.

    Args:
        spec: what they play.
        workers: N ≥ 1.
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
                _knock(address)
                ray.init(address=address, log_to_driver=False)
            except (OSError, ValueError, RuntimeError) as error:
                raise ConfigError(f"cannot reach a Ray cluster at {address!r}: {error}") from error
        self._ray: Any = ray
        self._kind: Any = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_Actor)
        self._spec = spec.to_text()
        self._idle: list[Any] = [self._kind.remote(self._spec) for _ in range(workers)]
        self._under_way: dict[Any, tuple[int, Any]] = {}
        self._size = workers

    @property
    def size(self) -> int:
        """How many units can be under way at once."""
        return self._size

    def pids(self) -> tuple[int, ...]:
        """Process ids of the actors, on whatever node they are; only while nothing is under way."""
        return tuple(pid for pid, _ in self._places())

    def nodes(self) -> set[str]:
        """Nodes that the actors are on; only while nothing is under way."""
        return {node for _, node in self._places()}

    def _places(self) -> list[tuple[int, str]]:
        return list(self._ray.get([actor.place.remote() for actor in self._idle]))

    def submit(self, unit: int, text: str) -> None:
        """Begin a unit on an idle actor."""
        actor = self._idle.pop(0)
        self._under_way[actor.answer.remote(text)] = (unit, actor)

    def wait(self) -> list[Event]:
        """Wait until there is at least one event."""
        from ray.exceptions import RayActorError, RaySystemError, WorkerCrashedError

        [done], _ = self._ray.wait(list(self._under_way), num_returns=1)
        unit, actor = self._under_way.pop(done)
        try:
            result, error = self._ray.get(done)
        except (RayActorError, RaySystemError, WorkerCrashedError) as lost:
            self._idle.append(self._kind.remote(self._spec))
            return [Event(unit, reason=f"Ray: {str(lost).splitlines()[0]}")]
        self._idle.append(actor)
        return [Event(unit, None if error else result, error)]

    def close(self) -> None:
        """Stop all actors, and leave the cluster if it was joined here."""
        for actor in [*self._idle, *(actor for _, actor in self._under_way.values())]:
            self._ray.kill(actor)
        self._idle, self._under_way = [], {}
        if self._connected_here:
            self._ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT: Ray itself would go on trying for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
