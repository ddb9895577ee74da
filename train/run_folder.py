"""The folder of a run: what it holds before the first checkpoint, beside them, and when a run breaks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from creditflow.agents.pretrained import open_tokenizer
from creditflow.envs.atomic import atomic_writer
from creditflow.envs.errors import DataError
from creditflow.train.checkpoint import Progress, load_checkpoint, save_checkpoint
from creditflow.train.config import plain, write_yaml
from creditflow.train.failures import DivergedError
from creditflow.train.settings import TrainConfig

__all__ = ["begin_folder", "kept_reference", "kept_tokenizer", "save_wreck"]


def begin_folder(folder: Path, settings: TrainConfig, tokenizer: Any) -> None:
    """Write what every resumed run needs: the resolved config and the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    write_yaml(folder / "config.yaml", plain(settings))
    tokenizer.save_pretrained(folder / "tokenizer")


def kept_tokenizer(folder: Path) -> Any:
    """The tokenizer of a run that is resumed.

    Raises:
        DataError: it is missing.
    """
    place = folder / "tokenizer"
    if not place.is_dir():
        raise DataError(f"{place}: the run's tokenizer is missing; this folder cannot be resumed")
    return open_tokenizer(place)


def kept_reference(folder: Path, model: Any, optimiser: Any) -> Any:
    """The policy that the KL term stays near to: as it was when reinforcement learning began.

    Args:
        folder: of the run.
        model, optimiser: as they are now; what the reference is if the folder has none yet.
    """
    place = folder / "reference"
    reference = copy.deepcopy(model)
    if place.is_dir():
        load_checkpoint(place / "rl-0000000", reference)
    else:
        save_checkpoint(place, Progress("rl", 0), model, optimiser)
    return reference.eval().requires_grad_(False)


def save_wreck(folder: Path, progress: Progress, learner: Any, optimiser: Any, error: DivergedError) -> Path:
    """Keep what there is when a loss was not finite, with a report; returns where."""
    place = save_checkpoint(folder / "diverged", progress, learner, optimiser)
    report = {
        "error": str(error), "phase": progress.phase, "done": progress.done, "trajectories": error.trajectories,
    }  # fmt: skip
    with atomic_writer(folder / "diverged" / "report.json") as stream:
        stream.write(json.dumps(report, indent=1) + "\n")
    return place
