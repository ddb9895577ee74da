"""Dry run: validate the settings and describe the run, without loading weights or writing files.

A model by name is described from its configuration and tokenizer if they are in the local cache; nothing is downloaded.
Two short episodes of a random agent go through prompt, dialect and credit scheme, to find settings that would fail only
in a rollout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from creditflow.agents.backends.vllm.release import vllm_release
from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.agents.models.vision import VISION_FAMILIES, text_config
from creditflow.envs.errors import ConfigError, DataError, MissingExtraError
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import check_model_files
from creditflow.envs.tasks import Task
from creditflow.train.annotate.scheme import make_scheme
from creditflow.train.rollout.engine import Budget, RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, needs_texts, panel_tasks, training_tasks
from creditflow.train.run import estimate
from creditflow.train.settings.reading import to_plain_data
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Credit, Scheme

__all__ = ["describe", "needs_of", "smoke_credit"]


def describe(settings: TrainConfig) -> None:
    """Check the settings, then print the resolved config to standard output, a summary, the memory and the hours to standard error.

    Raises:
        CreditflowError: the run would fail at its start or in its first rollout.
    """
    scheme = make_scheme(settings)
    lines = []
    if settings.generation.backend == "vllm":  # which may be on the machine that trains, and not here
        try:
            vllm_release()
        except MissingExtraError as error:
            lines.append(f"the sampler was not checked: {error}")
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    smoke_credit(settings, scheme, tasks[0])
    group_env_factory(settings.evaluation_env, 1)()
    model, *needs = needs_of(settings, tasks)
    print(yaml.safe_dump(to_plain_data(settings), sort_keys=False), end="")
    rollout, sft = settings.rollout, settings.sft
    panels = filter(None, (settings.evaluation.panel, settings.evaluation.final_panel))
    lines += [f"{len(panel_tasks(settings.evaluation_env, panel))} tasks in {panel}" for panel in panels]
    lines.append(
        f"{model}; {len(tasks)} training tasks; {sft.steps if sft.episodes else 0} SFT steps; "
        f"{settings.update.iterations} iterations of {rollout.tasks} x {rollout.group_size} episodes"
    )
    print("\n".join(f"# {line}" for line in (*lines, *needs)), file=sys.stderr)


def needs_of(settings: TrainConfig, tasks: list[Task], gpus: int = 1) -> list[str]:
    """A line about the model, one about the memory and one about the GPU hours of a run.

    A random agent plays a few of the ``tasks``; ``gpus`` share weights and work, as verl's do.

    Raises:
        CreditflowError: the model cannot be opened, or does not fit the settings.
    """
    model, sizes, count = _model(settings, tasks)
    if sizes is None:
        models = f"one of {', '.join(estimate.KNOWN)}, or torch and a local model of {', '.join(estimate.FAMILIES)}"
        return [model, f"neither memory nor hours are estimated: that needs {models}"]
    prompts = estimate.measured_prompts(settings, tasks, count)
    # a policy's own prompts are not much longer than those that a random agent is shown
    memory = estimate.memory_text(sizes, settings, gpus=gpus, longest=int(1.25 * prompts.longest))
    on_cpu = "hours are estimated for GPUs only"
    return [model, memory, on_cpu if settings.device == "cpu" else estimate.hours_text(sizes, settings, prompts, gpus)]


def smoke_credit(settings: TrainConfig, scheme: Scheme, task: Task) -> Credit | None:
    """The credit of two short random episodes of a task; None if the scheme needs annotations or tokens.

    Raises:
        CreditflowError: the run would fail in its first rollout.
    """
    engine = RolloutEngine(group_env_factory(settings.env, 2, texts=needs_texts(settings, scheme)), Budget(turns=3))
    [group] = engine.play(estimate.PromptReader(settings), [task], seed=settings.seed)
    missing = ", ".join(name for name in scheme.task_fields if name not in group.task)
    annotated = bool(scheme.needs or scheme.requires_tokens)  # a random agent's episodes have neither
    reason = f"their payload has no {missing}" if missing else ""
    if not missing and not annotated:
        reason = scheme.undefined_on(group)
    if reason:
        raise ConfigError(f"scheme {scheme.name!r} cannot score {settings.env.name!r} tasks: {reason}")
    return None if annotated else scheme.assign(group)


def _model(settings: TrainConfig, tasks: list[Task]) -> tuple[str, estimate.ModelSizes | None, Callable[[str], int]]:
    """Describe the policy; returns a line of text, its sizes if they are known, and what counts the tokens of a text.

    Raises:
        ConfigError: the prompting settings do not fit the model or tokenizer.
        DataError: a folder without a model.
    """
    path, prompting = settings.model.path, settings.prompting
    if find_spec("torch") is None:
        missing = f"the model was not checked: {MissingExtraError('torch', 'train')}"
        return missing, estimate.known_sizes(path), estimate.rough_tokens
    if not path:
        from creditflow.train.run.assemble import make_policy

        model, tokenizer = make_policy(settings, None, tasks)
    elif folder := _local_snapshot(path):
        model, tokenizer = _without_weights(folder)
    else:
        missing = f"{path}, which is not on this machine (the run downloads it; it was not checked)"
        return missing, estimate.known_sizes(path), estimate.rough_tokens
    prompting.conversations(tokenizer)
    limit = getattr(text_config(model), "max_position_embeddings", 0)
    if prompting.max_context > limit > 0:
        raise ConfigError(
            f"prompting.max_context must be at most the model's limit of {limit} tokens, got {prompting.max_context}"
        )
    settings.sampling.check_context(prompting.max_context or limit)
    parameters = sum(p.numel() for p in model.parameters())
    line = f"{type(model).__name__} with {parameters:,} parameters, {len(tokenizer)} tokens"
    return line, estimate.ModelSizes.of(model), lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _without_weights(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a folder; the model has shapes but no weights, and takes no memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    check_model_files(folder)
    with loading(f"cannot open {str(folder)!r} as a causal language model"), torch.device("meta"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        family = AutoModelForImageTextToText if config.model_type in VISION_FAMILIES else AutoModelForCausalLM
        model = family.from_config(config, trust_remote_code=False)
    if not list(folder.glob("*.safetensors")):
        raise DataError(f"{folder}: has no weights (*.safetensors)")
    return model, open_tokenizer(folder)


def _local_snapshot(path: str) -> Path | None:
    """The folder of a model: the path itself, or its snapshot in the Hugging Face cache; None if it must be downloaded.

    Raises:
        ConfigError: neither a folder nor a name.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(path).exists():
        return Path(path)
    try:
        cached = try_to_load_from_cache(path, "config.json")
    except HFValidationError as error:
        what = f"model.path {path!r} is neither a folder nor the name of a Hugging Face model"
        raise ConfigError(f"{what}: {error}") from error
    folder = Path(cached).parent if isinstance(cached, str) else None
    return folder if folder and list(folder.glob("*.safetensors")) else None
