"""Checkpoints: tensors as safetensors, everything else as JSON, a folder that appears under its name when complete.

No random state has to be saved: all random numbers of a run are seeded by (seed, purpose, iteration), and learning
rates are functions of the step. Weights, AdamW's moments and the counters are the whole state.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json

__all__ = [
    "CHECKPOINT_VERSION",
    "PHASES",
    "Progress",
    "checkpoint_at",
    "latest_checkpoint",
    "load_checkpoint",
    "records_at",
    "save_checkpoint",
]

CHECKPOINT_VERSION: Final = 1
Phase = Literal["sft", "rl"]
PHASES: Final = ("sft", "rl")
POLICY: Final = "policy."  # begins the names of the policy's weights beside those of a critic
_NAME: Final = re.compile(r"(sft|rl)-(\d{7})")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run.

    Attributes:
        phase: "sft" or "rl".
        done: number of finished optimiser steps (SFT) or iterations (RL).
    """

    phase: Phase
    done: int

    @property
    def folder(self) -> str:
        """Name of its checkpoint."""
        return f"{self.phase}-{self.done:07d}"

    def __lt__(self, other: Progress) -> bool:
        return (PHASES.index(self.phase), self.done) < (PHASES.index(other.phase), other.done)


def save_checkpoint(
    folder: Path,
    progress: Progress,
    model: Any,
    optimizer: Any,
    *,
    keep: int = 0,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``folder/<phase>-<number>`` completely or not at all, then delete all but the latest ``keep``.

    Raises:
        DataError: it could not be written (a full disk); earlier checkpoints are untouched.
    """
    final = folder / progress.folder
    try:
        with new_folder(final, replace=True) as temporary:
            save_file(_contiguous(_weights(model)), temporary / "weights.safetensors")
            save_file(_contiguous(_moments(optimizer)), temporary / "optimiser.safetensors")
            state = {"format_version": CHECKPOINT_VERSION, **asdict(progress), **(extra or {})}
            (temporary / "state.json").write_text(json.dumps(state, indent=1), encoding="ascii")
    except (OSError, SafetensorError) as error:
        last = latest_checkpoint(folder)
        remaining = f"the latest complete checkpoint is {last}" if last else "there is no earlier one"
        raise DataError(f"could not write checkpoint {final}: {error}; {remaining}") from error
    if keep:
        for old in _found(folder)[:-keep]:
            shutil.rmtree(folder / old.folder)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """The latest complete checkpoint in a folder; None if there is none."""
    checkpoints = _found(folder)
    return folder / checkpoints[-1].folder if checkpoints else None


def checkpoint_at(folder: Path, iterations: int | None = None) -> Path:
    """The checkpoint after a number of iterations of RL; the latest without a number.

    Raises:
        DataError: there is none; lists those that exist.
    """
    checkpoints = _found(folder)
    requested = checkpoints[-1:] if iterations is None else [Progress("rl", iterations)]
    if not requested or requested[0] not in checkpoints:
        names = ", ".join(progress.folder for progress in checkpoints) or "none"
        raise DataError(f"{folder}: no checkpoint after {iterations} iterations; there are: {names}")
    return folder / requested[0].folder


def records_at(path: Path) -> int | None:
    """Number of metrics records when a checkpoint was written; None if it is not stored.

    Raises:
        DataError: it cannot be read.
    """
    with loading(f"{path}: not a readable checkpoint"):
        count = read_json(path / "state.json").get("records")
    return count if type(count) is int and count >= 0 else None


def load_checkpoint(path: Path, model: Any, optimizer: Any | None = None, *, policy_only: bool = False) -> Progress:
    """Load the weights and optimiser state of a checkpoint; with ``policy_only`` the weights of a policy without its critic.

    Raises:
        DataError: not a checkpoint, or a damaged one, one of another version or of another model.
    """
    with loading(f"{path}: not a readable checkpoint"):
        state = read_json(path / "state.json")
        weights = load_file(path / "weights.safetensors")
        moments = load_file(path / "optimiser.safetensors") if optimizer is not None else {}
    version = state.get("format_version") if isinstance(state, dict) else None
    if version != CHECKPOINT_VERSION:
        raise DataError(f"{path}: format_version {version!r}, this version of creditflow reads {CHECKPOINT_VERSION}")
    phase, done = state.get("phase"), state.get("done")
    if phase not in PHASES or type(done) is not int or done < 0:
        raise DataError(
            f"{path}: state.json must contain phase and done, got phase {short_repr(phase, 40)}, done {short_repr(done, 40)}"
        )
    if policy_only and any(name.startswith(POLICY) for name in weights):
        weights = {name.removeprefix(POLICY): values for name, values in weights.items() if name.startswith(POLICY)}
    _load_weights(path, model, weights)
    if optimizer is not None:
        with loading(f"{path}: its optimiser state cannot be read"):
            _load_moments(path, optimizer, moments)
    return Progress(phase, done)


def _found(folder: Path) -> list[Progress]:
    names = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    matches = [_NAME.fullmatch(name) for name in names]
    return sorted(Progress(cast("Phase", m[1]), int(m[2])) for m in matches if m)


def _weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Trained parameters by name (with LoRA the adapter's alone), tied ones once."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _contiguous(tensors: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors}


def _load_weights(path: Path, model: Any, weights: Mapping[str, Any]) -> None:
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if set(parameters) != set(weights) or any(p.shape != weights[name].shape for name, p in parameters.items()):
        raise DataError(f"{path}: its weights are not those of this model; was the model's configuration changed?")
    for name, parameter in parameters.items():
        parameter.detach().copy_(weights[name])


def _moments(optimizer: Any) -> Iterator[tuple[str, Any]]:
    for index, state in optimizer.state_dict()["state"].items():
        for name, tensor in state.items():
            yield f"{index}.{name}", tensor


def _load_moments(path: Path, optimizer: Any, moments: Mapping[str, Any]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in moments.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    groups = optimizer.state_dict()["param_groups"]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    # a parameter that had no gradient yet has no moments
    if any(i >= len(parameters) or tensors["exp_avg"].shape != parameters[i].shape for i, tensors in state.items()):
        raise DataError(f"{path}: its optimiser state belongs to another model")
    try:
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
