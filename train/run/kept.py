"""Groups that were sampled ahead of the update, in a checkpoint: a resumed run needs no weights but the latest.

Beside a checkpoint's weights, ``ahead/`` holds a log for each of the next iterations, with its tokens and texts, and
``ahead.json`` what a log has no place for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json
from creditflow.train.rollout.ahead import AheadGroups
from creditflow.train.rollout.running import RolloutReport
from creditflow.train.rollout.task_sampling import SampledGroups
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl

__all__ = ["read_ahead", "write_ahead"]

FOLDER: Final = "ahead"


def write_ahead(checkpoint: Path, groups: Mapping[int, AheadGroups]) -> None:
    """Write the groups of later iterations, by iteration, into a checkpoint's folder."""
    folder = checkpoint / FOLDER
    folder.mkdir()
    state: dict[str, Any] = {}
    for iteration, one in groups.items():
        write_jsonl(folder / f"{iteration}.jsonl", one.sampled.groups)
        state[str(iteration)] = {
            "version": one.version, "seconds": one.seconds, "groups": len(one.sampled.groups),
            "discarded": one.sampled.discarded, "report": asdict(one.sampled.report),
        }  # fmt: skip
    (folder / "ahead.json").write_text(json.dumps(state, indent=1), encoding="ascii")


def read_ahead(checkpoint: Path, done: int, ahead: int) -> dict[int, AheadGroups]:
    """Read what ``write_ahead`` wrote.

    Args:
        checkpoint: folder of a checkpoint.
        done: number of iterations finished at the checkpoint.
        ahead: number of iterations that must have been sampled ahead.

    Raises:
        DataError: an iteration is missing, or the files cannot be read.
    """
    folder = checkpoint / FOLDER
    with loading(f"{folder}: the rollouts sampled ahead of this checkpoint cannot be read"):
        state = read_json(folder / "ahead.json")
        found = {int(name): _read(folder, name, one) for name, one in state.items()}
    if sorted(found) != list(range(done, done + ahead)):
        raise DataError(
            f"{folder}: expected the rollouts of iterations {done} to {done + ahead - 1}, found those of {sorted(found)}"
        )
    return found


def _read(folder: Path, name: str, state: Mapping[str, Any]) -> AheadGroups:
    groups = list(read_groups(folder / f"{name}.jsonl"))
    if len(groups) != state["groups"]:
        raise DataError(f"{folder}: iteration {name} has {len(groups)} groups, expected {state['groups']}")
    sampled = SampledGroups(groups, RolloutReport(**state["report"]), int(state["discarded"]))
    return AheadGroups(sampled, int(state["version"]), float(state["seconds"]))
