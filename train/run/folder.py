"""The run folder: files written at the start, beside the checkpoints, and after a divergence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from creditflow.agents.language_model.pretrained import AGENT_FILE, open_tokenizer, write_agent_file
from creditflow.agents.models.lora import has_adapter, merged_weights, save_adapter
from creditflow.agents.models.pictures import save_tokenizer
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import atomic_writer, new_folder
from creditflow.envs.reading.json_text import read_json
from creditflow.train.policy.checkpoint import (
    CHECKPOINT_VERSION,
    Progress,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from creditflow.train.policy.critic import Critic, save_critic
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.network.adapter import BasePolicy
from creditflow.train.rollout.evaluation import Evaluation
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
from creditflow.train.settings.schema import TrainConfig

__all__ = [
    "export_model",
    "export_run",
    "init_run_folder",
    "keep_best",
    "load_or_save_reference",
    "load_run_tokenizer",
    "require_same_run",
    "run_identity",
    "save_diverged_state",
    "save_policy",
    "unfinished_run",
]


BEST_FILE: Final = "creditflow_best.json"


def unfinished_run(folder: Path, *, resume: bool) -> Path | None:
    """The latest checkpoint of a run folder; None for a new run.

    Raises:
        ConfigError: the folder has checkpoints and ``resume`` is False.
    """
    checkpoint = latest_checkpoint(folder / "checkpoints")
    if checkpoint is not None and not resume:
        raise ConfigError(f"{folder} already contains a run; continue it with --resume {folder}, or choose another out")
    return checkpoint


def init_run_folder(folder: Path, settings: Any, tokenizer: Any) -> Any:
    """Write what a resumed run needs: the resolved config, the identity and the tokenizer.

    Returns:
        The tokenizer, opened from the run folder as a resumed run opens it: saving an opened tokenizer gives other files
        than saving a new one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_run_file(folder, run_identity(to_plain_data(settings)))  # first: a config.yaml alone is no run
    write_yaml(folder / "config.yaml", to_plain_data(settings))
    with new_folder(folder / "tokenizer", replace=True) as temporary:
        save_tokenizer(tokenizer, temporary)
    return load_run_tokenizer(folder)


def run_identity(settings: Mapping[str, Any]) -> Identity:
    """What determines a run: resolved settings, versions, and the contents of files and models.

    The run folder is left out, and the settings of the machines that verl trains on.
    """
    determining = {name: value for name, value in settings.items() if name not in ("out", "verl")}
    return {
        "versions": versions() | {"checkpoint": CHECKPOINT_VERSION},
        "files": contents(determining),
        "settings": determining,
    }


def require_same_run(folder: Path, settings: Any) -> None:
    """Compare the settings of a resumed run with those it was started with.

    The number of iterations may grow if the learning rate does not depend on it: the run
    then equals one started with the larger number, which is written to the folder. A run of a version that wrote no ``run.json`` is
    compared by its ``config.yaml`` alone, and a line is printed.

    Raises:
        OtherRunError: lists every field that differs.
    """
    current = run_identity(to_plain_data(settings))
    stored = read_run_file(folder)
    if stored is None:
        print(f"{folder} contains no {RUN_FILE}, so only the settings are compared and not the versions")
        config = run_identity(to_plain_data(read_dataclass(type(settings), load_mapping(folder / "config.yaml"))))
        stored = {**current, "settings": config["settings"]}
    grown = _with_iterations_of(current, stored)
    require_same(grown, current, str(folder))
    if grown != stored:
        write_yaml(folder / "config.yaml", to_plain_data(settings))
        write_run_file(folder, current)


def _with_iterations_of(current: Identity, stored: Identity) -> Identity:
    """The stored identity, with the larger number of iterations if a longer run starts like the stored one."""
    try:
        old, new = stored["settings"]["update"], current["settings"]["update"]
        steady = new["optimizer"]["schedule"] == "constant" and not new["optimizer"]["warmup_fraction"]
        if not steady or not old["iterations"] < new["iterations"]:
            return stored
    except (KeyError, TypeError):  # a success model has no iterations
        return stored
    update = {**old, "iterations": new["iterations"]}
    return {**stored, "settings": {**stored["settings"], "update": update}}


def export_model(folder: Path, save: Callable[[Path], None]) -> None:
    """Write a model folder completely or not at all."""
    with new_folder(folder, replace=True) as temporary:
        save(temporary)


def load_run_tokenizer(folder: Path) -> Any:
    """Open the tokenizer of a run folder.

    Raises:
        DataError: it is missing.
    """
    path = folder / "tokenizer"
    if not path.is_dir():
        raise DataError(f"{path}: the run's tokenizer is missing; this folder cannot be resumed")
    return open_tokenizer(path)


def load_or_save_reference(folder: Path, model: Any, optimizer: Any, *, begun: bool = False) -> Any:
    """The reference policy of the KL term: the policy at the start of RL, with LoRA its base.

    Args:
        folder: the run folder.
        model, optimizer: in their current state, which is saved as the reference if the folder has none yet.
        begun: whether RL has begun, so that the model is no longer the reference.

    Raises:
        DataError: the folder of a run that has begun has lost it.
    """
    if has_adapter(model):
        return BasePolicy(model)
    path = folder / "reference"
    reference = copy.deepcopy(model)
    saved = latest_checkpoint(path)
    if saved is not None:
        load_checkpoint(saved, reference)
    elif begun:
        raise DataError(
            f"{path}: the reference policy of the KL term is missing, the policy before RL, and the trained one cannot stand for it. "
            "Put the folder back, or start the run again with --force"
        )
    else:
        save_checkpoint(path, Progress("rl", 0), model, optimizer)
    return reference.eval().requires_grad_(False)


def save_diverged_state(folder: Path, progress: Progress, learner: Any, optimizer: Any, error: DivergedError) -> Path:
    """Save the state before a loss or gradient that was not finite, with a report; returns the folder."""
    checkpoint = save_checkpoint(folder / "diverged", progress, learner, optimizer)
    report = {"error": str(error), "phase": progress.phase, "done": progress.done, "trajectories": error.trajectories}
    with atomic_writer(folder / "diverged" / "report.json") as stream:
        stream.write(json.dumps(report, indent=1) + "\n")
    return checkpoint


def keep_best(folder: Path, result: Evaluation, iteration: int, save: Callable[[Path], None]) -> None:
    """Save the policy as ``best/`` if no earlier evaluation of the run was as good.

    Args:
        folder: the run folder.
        result: an evaluation on the validation panel; its sampled success counts, or without samples the greedy one.
        iteration: number of finished iterations.
        save: writes the policy into a folder.
    """
    best = folder / "best"
    summary = result.summary()
    success = float(summary.get("sampled", summary["greedy"]))
    if (best / BEST_FILE).is_file() and read_json(best / BEST_FILE)["success"] >= success:
        return

    def save_with_result(temporary: Path) -> None:
        save(temporary)
        (temporary / BEST_FILE).write_text(json.dumps({"iteration": iteration, "success": success}), encoding="ascii")

    export_model(best, save_with_result)


def export_run(folder: Path, model: Any, tokenizer: Any, settings: TrainConfig, critic: Critic | None) -> None:
    """Write the trained policy as ``model/``, its LoRA adapter as ``adapter/`` and its critic as ``critic/``."""
    export_model(folder / "model", partial(save_policy, model, tokenizer, settings))
    if has_adapter(model):

        def save(temporary: Path) -> None:
            save_adapter(model, temporary, settings.model.path)
            write_agent_file(temporary / AGENT_FILE, settings.prompting, settings.sampling)

        export_model(folder / "adapter", save)
    if critic is not None:
        export_model(folder / "critic", partial(save_critic, critic))


def save_policy(model: Any, tokenizer: Any, settings: TrainConfig, folder: Path) -> None:
    """Write a Hugging Face folder that ``hf:PATH`` opens; an adapter is merged."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder, state_dict=merged_weights(model) if has_adapter(model) else None)
    save_tokenizer(tokenizer, folder)
    write_agent_file(folder / AGENT_FILE, settings.prompting, settings.sampling)
