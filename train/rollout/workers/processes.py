"""Workers as processes of this machine, each at the end of a pipe that carries text."""

from __future__ import annotations

import json
import multiprocessing
import signal
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from creditflow.envs.errors import ConfigError
from creditflow.train.rollout.workers.play import RolloutSpec, RolloutWorker
from creditflow.train.rollout.workers.pool import Event

__all__ = ["ProcessExecutor"]

STOP_SECONDS = 5.0  # a worker that does not end within this after SIGTERM is killed


class _Worker:
    """One process, its pipe, and the unit it is at."""

    def __init__(self, spec: RolloutSpec) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads and open files of whoever calls
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, spec.to_text()), daemon=True)
        self.process.start()
        theirs.close()  # so that the worker's end shows here as an end of file
        self.unit: int | None = None


class ProcessExecutor:
    """N processes.

    Args:
        spec: what they play.
        workers: N ≥ 1.
    """

    def __init__(self, spec: RolloutSpec, workers: int) -> None:
        if workers < 1:
            raise ConfigError(f"workers must be at least 1, got {workers}")
        self._spec = spec
        self._workers = [_Worker(spec) for _ in range(workers)]

    @property
    def size(self) -> int:
        """How many units can be under way at once."""
        return len(self._workers)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the present workers."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def submit(self, unit: int, text: str) -> None:
        """Begin a unit on an idle worker."""
        worker = next(worker for worker in self._workers if worker.unit is None)
        worker.unit = unit
        with suppress(OSError):  # it is gone: the next wait() reads the end of its pipe and reports the unit as lost
            worker.pipe.send_bytes(text.encode("ascii"))

    def wait(self) -> list[Event]:
        """Wait until there is at least one event."""
        events: list[Event] = []
        while not events:
            ends = set(wait([worker.pipe for worker in self._workers]))
            for at, worker in enumerate(self._workers):
                if worker.pipe not in ends:
                    continue
                try:
                    kind, _, text = worker.pipe.recv_bytes().decode("ascii").partition("\n")
                except (EOFError, OSError):
                    event = self._replace(at)
                else:
                    error = str(json.loads(text)) if kind == "error" else ""
                    event = Event(-1 if worker.unit is None else worker.unit, None if error else text, error)
                    worker.unit = None
                if event is not None:
                    events.append(event)
        return events

    def _replace(self, at: int) -> Event | None:
        """Put a new worker in the place of a lost one; the lost one's unit, if it had any."""
        worker = self._workers[at]
        worker.pipe.close()
        worker.process.join(STOP_SECONDS)
        code = worker.process.exitcode
        self._workers[at] = _Worker(self._spec)
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return None if worker.unit is None else Event(worker.unit, reason=f"process {worker.process.pid}: {reason}")

    def close(self) -> None:
        """Stop all workers at once."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()


def _serve(pipe: Connection, spec: str) -> None:
    """A worker's life: read a task, answer with its group, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's business; it closes the pipe
    worker: RolloutWorker | None = None
    while True:
        try:
            task = pipe.recv_bytes().decode("ascii")
        except EOFError:
            return
        try:
            worker = worker or RolloutWorker(RolloutSpec.from_text(spec))
            answer = "result\n" + worker.play(task)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it and stops
            answer = "error\n" + json.dumps(f"{type(error).__name__}: {error}")
        try:
            pipe.send_bytes(answer.encode("ascii"))
        except BrokenPipeError:
            return  # the parent is gone (killed, or it left early): nobody waits for this group
