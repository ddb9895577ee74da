"""The run folder: files written at the start, beside the checkpoints, and after a divergence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from creditflow.agents.language_model.models.agent_file import write_agent_file
from creditflow.agents.language_model.models.lora import has_adapter, merged_weights, save_adapter
from creditflow.agents.language_model.models.pretrained import AGENT_FILE, open_tokenizer
from creditflow.agents.language_model.pictures import save_tokenizer
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import atomic_writer, new_folder
from creditflow.train.distributed.sharding import layers_of, plain_copy, shard
from creditflow.train.distributed.world import ALONE, World
from creditflow.train.policy.checkpoint import (
    CHECKPOINT_VERSION,
    Progress,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from creditflow.train.policy.critic import Critic, save_critic
from creditflow.train.policy.network.adapter import BasePolicy
from creditflow.train.run.failures import DivergedError
from creditflow.train.run.identity import (
    RUN_FILE,
    Identity,
    contents,
    differences,
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
    "init_shared_folder",
    "load_or_save_reference",
    "load_run_tokenizer",
    "require_same_run",
    "require_same_settings",
    "run_identity",
    "save_diverged_state",
    "save_policy",
    "unfinished_run",
]


def unfinished_run(folder: Path, *, resume: bool, world: World = ALONE) -> Path | None:
    """The latest checkpoint of a run folder; None for a new run. Returns when all ranks have read the folder.

    Raises:
        ConfigError: the folder has checkpoints and ``resume`` is False, or the ranks do not share it.
    """
    checkpoint = latest_checkpoint(folder / "checkpoints")
    _require_shared(folder, "" if checkpoint is None else checkpoint.name, world)
    if checkpoint is not None and not resume:
        raise ConfigError(f"{folder} holds a run already: continue it with --resume {folder}, or choose another out")
    return checkpoint


def _require_shared(folder: Path, seen: str, world: World) -> None:
    """Raise ConfigError in every rank unless all see the same file in the folder ("": none)."""
    found = world.gather(seen)
    if len(set(found)) > 1:
        shown = ", ".join(f"rank {rank}: {name or 'nothing'}" for rank, name in enumerate(found))
        raise ConfigError(
            f"{folder} must be a folder that all ranks share, but they see different files in it ({shown})"
        )


def init_shared_folder(folder: Path, settings: Any, tokenizer: Any, world: World) -> Any:
    """``init_run_folder`` by the first rank; every rank opens the tokenizer.

    Raises:
        ConfigError: the ranks do not share the folder.
    """
    world.run_on_first(partial(init_run_folder, folder, settings, tokenizer))
    _require_shared(folder, RUN_FILE if (folder / RUN_FILE).is_file() else "", world)
    return load_run_tokenizer(folder)


def init_run_folder(folder: Path, settings: Any, tokenizer: Any) -> Any:
    """Write what a resumed run needs: the resolved config, the identity and the tokenizer.

    Returns:
        The tokenizer, opened from the run folder as a resumed run opens it: saving an opened tokenizer gives other files
        than saving a new one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_run_file(folder, run_identity(to_plain_data(settings)))  # first: a config.yaml alone is no run
    write_yaml(folder / "config.yaml", to_plain_data(settings))
    with new_folder(folder / "tokenizer", replace=True) as place:
        save_tokenizer(tokenizer, place)
    return load_run_tokenizer(folder)


def run_identity(settings: Mapping[str, Any]) -> Identity:
    """What determines a run: resolved settings, versions, and the contents of files and models.

    Neither the run folder nor the machines: a run may be resumed by another number of processes.
    """
    own = {name: value for name, value in settings.items() if name not in ("out", "distributed", "verl")}
    return {"versions": versions() | {"checkpoint": CHECKPOINT_VERSION}, "files": contents(own), "settings": own}


def require_same_settings(settings: Any, world: World) -> None:
    """Compare the settings and versions of all ranks; each reads its own files.

    Raises:
        ConfigError: in every rank, if they differ; lists every field. The folder may have another path on another machine.
    """
    own = {name: value for name, value in to_plain_data(settings).items() if name != "out"}
    first, *others = world.gather({"versions": versions(), **own})
    for rank, other in enumerate(others, 1):
        if lines := differences(first, other, "rank 0", f"rank {rank}"):
            raise ConfigError("all ranks must have the same settings and versions:\n" + "\n".join(lines))


def require_same_run(folder: Path, settings: Any) -> None:
    """Compare the settings of a resumed run with those it was started with.

    The number of iterations may grow if neither the learning rate nor rollouts ahead of the update depend on it: the run
    then equals one started with the larger number, which is written to the folder. A run of a version that wrote no ``run.json`` is
    compared by its ``config.yaml`` alone, and a line is printed.

    Raises:
        OtherRunError: lists every field that differs.
    """
    current = run_identity(to_plain_data(settings))
    stored = read_run_file(folder)
    if stored is None:
        print(f"{folder}: holds no {RUN_FILE}: only the settings are compared, not the versions it was started with")
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
        # the last checkpoint has no rollouts that a longer run would have sampled ahead of it
        steady &= not stored["settings"]["rollout"]["max_staleness"]
        if not steady or not old["iterations"] < new["iterations"]:
            return stored
    except (KeyError, TypeError):  # a success model has no iterations
        return stored
    update = {**old, "iterations": new["iterations"]}
    return {**stored, "settings": {**stored["settings"], "update": update}}


def export_model(folder: Path, save: Callable[[Path], None]) -> None:
    """Write a model folder completely or not at all."""
    with new_folder(folder, replace=True) as place:
        save(place)


def load_run_tokenizer(folder: Path) -> Any:
    """Open the tokenizer of a run folder.

    Raises:
        DataError: it is missing.
    """
    place = folder / "tokenizer"
    if not place.is_dir():
        raise DataError(f"{place}: the run's tokenizer is missing; this folder cannot be resumed")
    return open_tokenizer(place)


def load_or_save_reference(folder: Path, model: Any, optimizer: Any, world: World = ALONE) -> Any:
    """The reference policy of the KL term: the policy at the start of RL, with LoRA its base.

    Args:
        folder: the run folder.
        model, optimizer: in their current state, which is saved as the reference if the folder has none yet.
        world: the ranks, over which the reference is divided if the policy is.
    """
    if has_adapter(model):
        return BasePolicy(model)
    place = folder / "reference"
    reference = plain_copy(model)
    kept = latest_checkpoint(place)
    world.wait()  # all ranks have read the folder before the first writes
    if kept is not None:
        load_checkpoint(kept, reference)
    else:
        save_checkpoint(place, Progress("rl", 0), model, optimizer, world=world)
    reference.eval().requires_grad_(False)
    if world.shard:
        shard(reference, layers_of(reference))
    return reference


def save_diverged_state(
    folder: Path, progress: Progress, learner: Any, optimizer: Any, error: DivergedError, world: World = ALONE
) -> Path:
    """Save the state before a loss or gradient that was not finite, with a report; returns the folder."""
    place = save_checkpoint(folder / "diverged", progress, learner, optimizer, world=world)
    if not world.first:
        return place
    report = {
        "error": str(error), "phase": progress.phase, "done": progress.done, "trajectories": error.trajectories,
    }  # fmt: skip
    with atomic_writer(folder / "diverged" / "report.json") as stream:
        stream.write(json.dumps(report, indent=1) + "\n")
    return place


def export_run(folder: Path, model: Any, tokenizer: Any, settings: TrainConfig, critic: Critic | None) -> None:
    """Write the trained policy as ``model/``, its LoRA adapter as ``adapter/`` and its critic as ``critic/``."""
    export_model(folder / "model", partial(save_policy, model, tokenizer, settings))
    if has_adapter(model):

        def save(place: Path) -> None:
            save_adapter(model, place, settings.model.path)
            write_agent_file(place / AGENT_FILE, settings.prompting, settings.sampling)

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
