"""Rollouts ahead of the update: while the policy is updated, the groups of later iterations are sampled.

The schedule does not depend on the clock. The groups of iteration i are sampled by the weights after max(0, i − k)
iterations, k being the lag: they start when those weights are ready, and are all sampled by them. So a run with lag is as
repeatable as one without, and is k iterations behind from iteration k on. Published systems instead let a sampler take new
weights in the middle of an episode, whenever they arrive; the update needs nothing for that but the sampler's
log-probabilities, but no such run can be repeated.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json
from creditflow.train.rollout.running import RolloutReport
from creditflow.train.rollout.task_sampling import SampledGroups
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl
from creditflow.wrappers.records.picture_folder import PictureFolder
from creditflow.wrappers.records.pictures import EncodedPicture
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["AheadGroups", "RolloutsAhead", "read_ahead", "write_ahead"]

OnTurn = Callable[[int, int], None]


class _ClosedError(Exception):
    """The run has ended, so nobody needs these rollouts."""


@dataclass(frozen=True, slots=True)
class AheadGroups:
    """The groups of an iteration that were sampled ahead.

    Attributes:
        sampled: the groups.
        version: the number of iterations that the weights which sampled them had been trained for.
        seconds: time that sampling took.
    """

    sampled: SampledGroups
    version: int
    seconds: float


class RolloutsAhead:
    """Samples the groups of later iterations in one background thread, in the order of iterations.

    There are k slots, each with weights of its own: slot i mod k holds those that sample iteration i.

    Args:
        lag: k ≥ 1.
        total: number of iterations of the run.
        refresh: gives the sampler of a slot the present weights; called in the caller's thread while the slot is idle.
        sample: samples the groups of an iteration (second argument) with the sampler of a slot (first); its last argument
            is to be called after every turn, and raises once the run has ended.
    """

    def __init__(
        self,
        lag: int,
        total: int,
        *,
        refresh: Callable[[int], None],
        sample: Callable[[int, int, OnTurn], SampledGroups],
    ) -> None:
        self.lag, self.total = lag, total
        self._refresh, self._sample = refresh, sample
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="creditflow-rollout")
        self._pending: dict[int, Future[AheadGroups]] = {}
        self._closing = threading.Event()

    def begin(self, done: int, kept: Mapping[int, AheadGroups]) -> None:
        """Start with what a checkpoint kept, or, at the beginning of a run, with the present weights.

        Args:
            done: number of finished iterations.
            kept: groups of the next iterations.
        """
        for iteration in range(done, min(done + self.lag, self.total)):
            if iteration in kept:
                self._pending[iteration] = Future()
                self._pending[iteration].set_result(kept[iteration])
            else:
                self._start(iteration, done)

    def take(self, iteration: int) -> AheadGroups:
        """Wait for the groups of an iteration; then start those of iteration + k with the present weights.

        Raises:
            Exception: what their sampling raised.
        """
        groups = self._pending[iteration].result()
        del self._pending[iteration]
        if iteration + self.lag < self.total:
            self._start(iteration + self.lag, iteration)
        return groups

    def settle(self) -> dict[int, AheadGroups]:
        """Wait until nothing is being sampled; returns the groups of later iterations."""
        return {iteration: groups.result() for iteration, groups in self._pending.items()}

    def close(self) -> None:
        """Let running episodes finish their current turn, then stop the thread."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)

    def _start(self, iteration: int, version: int) -> None:
        slot = iteration % self.lag
        self._refresh(slot)
        self._pending[iteration] = self._pool.submit(self._run, slot, iteration, version)

    def _run(self, slot: int, iteration: int, version: int) -> AheadGroups:
        began = time.perf_counter()
        sampled = self._sample(slot, iteration, self._check)
        return AheadGroups(sampled, version, time.perf_counter() - began)

    def _check(self, _running: int, _episodes: int) -> None:
        if self._closing.is_set():
            raise _ClosedError


FOLDER: Final = "ahead"
PICTURES: Final = "pictures"  # within it


def write_ahead(checkpoint: Path, groups: Mapping[int, AheadGroups]) -> None:
    """Write the groups of later iterations, by iteration, into a checkpoint's folder.

    A log names the pictures of an observation. Here the pictures themselves stand beside it, since the update reads them.
    """
    folder = checkpoint / FOLDER
    folder.mkdir()
    pictures = PictureFolder(folder / PICTURES)
    state: dict[str, Any] = {}
    for iteration, sampled_ahead in groups.items():
        sampled = sampled_ahead.sampled
        write_jsonl(folder / f"{iteration}.jsonl", sampled.groups)
        tokens = [trajectory.tokens for group in sampled.groups for trajectory in group.trajectories]
        for encoded in {p.name: p for of in tokens if of is not None for turn in of.pictures for p in turn}.values():
            pictures.write(encoded.picture)
        state[str(iteration)] = {
            "version": sampled_ahead.version, "seconds": sampled_ahead.seconds, "groups": len(sampled.groups),
            "discarded": sampled.discarded, "report": asdict(sampled.report),
            "pictures": [() if of is None else of.picture_names for of in tokens],
        }  # fmt: skip
    (folder / "ahead.json").write_text(json.dumps(state, indent=1), encoding="ascii")


def read_ahead(
    checkpoint: Path, done: int, ahead: int, encode: Callable[[Any], EncodedPicture] | None = None
) -> dict[int, AheadGroups]:
    """Read what ``write_ahead`` wrote.

    Args:
        checkpoint: folder of a checkpoint.
        done: number of iterations finished at the checkpoint.
        ahead: number of iterations that must have been sampled ahead.
        encode: encodes pixels for the model; None for a model that reads text only.

    Raises:
        DataError: an iteration is missing, or the files cannot be read.
    """
    folder = checkpoint / FOLDER
    with loading(f"{folder}: the rollouts sampled ahead of this checkpoint cannot be read"):
        state = read_json(folder / "ahead.json")
        stored = {int(name): _read(folder, name, entry, encode) for name, entry in state.items()}
    if sorted(stored) != list(range(done, done + ahead)):
        raise DataError(
            f"{folder}: expected the rollouts of iterations {done} to {done + ahead - 1}, found those of {sorted(stored)}"
        )
    return stored


def _read(
    folder: Path, name: str, state: Mapping[str, Any], encode: Callable[[Any], EncodedPicture] | None
) -> AheadGroups:
    groups = list(read_groups(folder / f"{name}.jsonl"))
    if len(groups) != state["groups"]:
        raise DataError(f"{folder}: iteration {name} has {len(groups)} groups, expected {state['groups']}")
    if any(state["pictures"]):
        if encode is None:
            raise DataError(f"{folder}: iteration {name} has pictures, but the model reads text only")
        groups = _with_pictures(groups, state["pictures"], PictureFolder(folder / PICTURES), encode)
    sampled = SampledGroups(groups, RolloutReport(**state["report"]), int(state["discarded"]))
    return AheadGroups(sampled, int(state["version"]), float(state["seconds"]))


def _with_pictures(
    groups: Sequence[Group],
    names: Sequence[Sequence[Sequence[str]]],
    folder: PictureFolder,
    encode: Callable[[Any], EncodedPicture],
) -> list[Group]:
    """The groups with the pictures that their tokens had; ``names`` are those of every trajectory and turn."""
    encoded = {name: encode(folder.read(name).pixels) for turns in names for turn in turns for name in turn}

    def restored(trajectory: Trajectory, turns: Sequence[Sequence[str]]) -> Trajectory:
        if trajectory.tokens is None:
            return trajectory
        pictures = tuple(tuple(encoded[name] for name in turn) for turn in turns)
        return replace(trajectory, tokens=replace(trajectory.tokens, pictures=pictures))

    every = [trajectory for group in groups for trajectory in group.trajectories]
    members = iter([restored(trajectory, turns) for trajectory, turns in zip(every, names, strict=True)])
    return [replace(group, trajectories=tuple(islice(members, len(group)))) for group in groups]
