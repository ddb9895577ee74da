"""The folder of a run: what it holds before the first checkpoint, beside them, and when a run breaks."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer, new_folder
from creditflow.train.policy.checkpoint import (
    CHECKPOINT_VERSION,
    Progress,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from creditflow.train.run.failures import DivergedError
from creditflow.train.run.identity import (
    RUN_FILE,
    Identity,
    contents,
    read_run_file,
    require_same,
    versions,
    write_run_file,
)
from creditflow.train.settings.reading import load_mapping, read_dataclass, to_plain_data, write_yaml

__all__ = [
    "export_whole",
    "init_run_folder",
    "load_or_save_reference",
    "load_run_tokenizer",
    "require_same_run",
    "run_identity",
    "save_diverged_state",
]


def init_run_folder(folder: Path, settings: Any, tokenizer: Any) -> Any:
    """Write what every resumed run needs: the resolved config, the identity and the tokenizer.

    Returns:
        The tokenizer as it was kept: a resumed run opens it too, and a tokenizer that was opened is not saved as one
        that was just made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_yaml(folder / "config.yaml", to_plain_data(settings))
    write_run_file(folder, run_identity(to_plain_data(settings)))
    with new_folder(folder / "tokenizer", replace=True) as place:
        tokenizer.save_pretrained(place)
    return load_run_tokenizer(folder)


def run_identity(settings: Mapping[str, Any]) -> Identity:
    """What determines a run: its resolved settings but for where it lies, versions, and the content of files and models."""
    own = {name: value for name, value in settings.items() if name != "out"}
    return {"versions": versions() | {"checkpoint": CHECKPOINT_VERSION}, "files": contents(own), "settings": own}


def require_same_run(folder: Path, settings: Any) -> None:
    """Compare the settings of a resumed run with those it was begun with.

    More iterations may be asked for, if the learning rate does not depend on their number: the run is then the one
    that would have been begun so, and the folder says so. A run of a version that wrote no ``run.json`` is compared by its ``config.yaml`` alone, and says so.

    Raises:
        OtherRunError: lists every field that differs.
    """
    asked = run_identity(to_plain_data(settings))
    stored = read_run_file(folder)
    if stored is None:
        print(f"{folder}: holds no {RUN_FILE}: only the settings are compared, not the versions it was begun with")
        config = run_identity(to_plain_data(read_dataclass(type(settings), load_mapping(folder / "config.yaml"))))
        stored = {**asked, "settings": config["settings"]}
    grown = _with_iterations_of(asked, stored)
    require_same(grown, asked, str(folder))
    if grown != stored:
        write_yaml(folder / "config.yaml", to_plain_data(settings))
        write_run_file(folder, asked)


def _with_iterations_of(asked: Identity, stored: Identity) -> Identity:
    """The stored identity, with as many iterations as are asked for if a longer run begins like the stored one."""
    try:
        old, new = stored["settings"]["update"], asked["settings"]["update"]
        steady = new["optimizer"]["schedule"] == "constant" and not new["optimizer"]["warmup_fraction"]
        if not steady or not old["iterations"] < new["iterations"]:
            return stored
    except (KeyError, TypeError):  # a success model has no iterations
        return stored
    update = {**old, "iterations": new["iterations"]}
    return {**stored, "settings": {**stored["settings"], "update": update}}


def export_whole(folder: Path, save: Callable[[Path], None]) -> None:
    """Write a model's folder in full or not at all."""
    with new_folder(folder, replace=True) as place:
        save(place)


def load_run_tokenizer(folder: Path) -> Any:
    """The tokenizer of a run that is resumed.

    Raises:
        DataError: it is missing.
    """
    place = folder / "tokenizer"
    if not place.is_dir():
        raise DataError(f"{place}: the run's tokenizer is missing; this folder cannot be resumed")
    return open_tokenizer(place)


def load_or_save_reference(folder: Path, model: Any, optimizer: Any) -> Any:
    """The policy that the KL term stays near to: as it was when reinforcement learning began.

    Args:
        folder: of the run.
        model, optimizer: as they are now; what the reference is if the folder has none yet.
    """
    place = folder / "reference"
    reference = copy.deepcopy(model)
    kept = latest_checkpoint(place)
    if kept is not None:
        load_checkpoint(kept, reference)
    else:
        save_checkpoint(place, Progress("rl", 0), model, optimizer)
    return reference.eval().requires_grad_(False)


def save_diverged_state(folder: Path, progress: Progress, learner: Any, optimizer: Any, error: DivergedError) -> Path:
    """Keep what there is when a loss was not finite, with a report; returns where."""
    place = save_checkpoint(folder / "diverged", progress, learner, optimizer)
    report = {
        "error": str(error), "phase": progress.phase, "done": progress.done, "trajectories": error.trajectories,
    }  # fmt: skip
    with atomic_writer(folder / "diverged" / "report.json") as stream:
        stream.write(json.dumps(report, indent=1) + "\n")
    return place
