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
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.agents.models.vision import VISION_FAMILIES, text_config
from creditflow.envs.errors import ConfigError, DataError, MissingExtraError, short_repr
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import check_model_files
from creditflow.envs.tasks import Task
from creditflow.train.annotate.scheme import make_scheme
from creditflow.train.rollout.engine import Budget, RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, needs_texts, panel_tasks, training_tasks
from creditflow.train.run.estimate import (
    FAMILIES,
    KNOWN,
    ModelSizes,
    PromptReader,
    hours_text,
    known_sizes,
    measured_prompts,
    memory_text,
    rough_tokens,
)
from creditflow.train.settings.reading import to_plain_data
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Credit, Scheme

__all__ = ["describe", "needs_of", "smoke_credit"]

TURNS = 3  # of the smoke test


def describe(settings: TrainConfig) -> None:
    """Check the settings, then print the resolved config to standard output, a summary, the memory and the hours to standard error.

    Raises:
        CreditflowError: the run would fail at its start or in its first rollout.
    """
    scheme = make_scheme(settings)
    unchecked = []
    if settings.generation.backend == "vllm":  # which may be on the machine that trains, and not here
        try:
            vllm_release()
        except MissingExtraError as error:
            unchecked.append(f"the sampler was not checked: {error}")
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    evaluation = settings.evaluation
    smoke_credit(settings, scheme, tasks[0])
    group_env_factory(settings.evaluation_env, 1)()
    model, *needs = needs_of(settings, tasks)
    print(yaml.safe_dump(to_plain_data(settings), sort_keys=False), end="")
    for spec in filter(None, (evaluation.panel, evaluation.final_panel)):
        print(f"# {len(panel_tasks(settings.evaluation_env, spec))} tasks in {spec}", file=sys.stderr)
    rollout = settings.rollout
    print(
        f"# {model}; {len(tasks)} training tasks; {settings.sft.steps if settings.sft.episodes else 0} SFT steps; "
        f"{settings.update.iterations} iterations of {rollout.tasks} x {rollout.group_size} episodes",
        file=sys.stderr,
    )
    print("\n".join(f"# {line}" for line in (*unchecked, *needs)), file=sys.stderr)


def needs_of(settings: TrainConfig, tasks: list[Task], gpus: int = 1) -> list[str]:
    """A line about the model, one about the memory and one about the GPU hours of a run.

    Args:
        settings: settings of the run.
        tasks: its tasks, of which a random agent plays a few.
        gpus: GPUs that share weights and work, as verl's do.

    Raises:
        CreditflowError: the model cannot be opened, or does not fit the settings.
    """
    model, sizes, count = _model(settings, tasks)
    if sizes is None:
        models = f"one of {', '.join(KNOWN)}, or torch and a local model of {', '.join(FAMILIES)}"
        return [model, f"neither memory nor hours are estimated: that needs {models}"]
    prompts = measured_prompts(settings, tasks, count)
    # a policy's own prompts are not much longer than those that a random agent is shown
    memory = memory_text(sizes, settings, gpus=gpus, longest=int(1.25 * prompts.longest))
    if settings.device == "cpu":
        return [model, memory, "hours are estimated for GPUs only"]
    evaluation = settings.evaluation
    valid, final = (
        len(panel_tasks(settings.evaluation_env, spec)) if spec else 0
        for spec in (evaluation.panel, evaluation.final_panel)
    )
    panels = (min(valid, evaluation.limit or valid), final)
    return [model, memory, hours_text(sizes, settings, prompts, panels, gpus)]


class _SmokeTestAgent(PromptReader):
    """A random agent that also fills every prompt, and writes and parses every action in the run's dialect."""

    def act(self, views: Any) -> Any:
        """One decision per view."""
        dialect = make_dialect(self.settings.prompting.dialect)
        decisions = super().act(views)
        for view, decision in zip(views, decisions, strict=True):
            if isinstance(decision.action, str) and decision.action in view.info["admissible_actions"]:
                parsed = dialect.parse(dialect.write(decision.action, "a thought"))
                if not parsed.valid:
                    raise ConfigError(
                        f"prompting.dialect {self.settings.prompting.dialect!r} cannot write {decision.action!r}: {parsed.reason}"
                    )
        return decisions


def smoke_credit(settings: TrainConfig, scheme: Scheme, task: Task) -> Credit | None:
    """The credit of two short random episodes of a task; None if the scheme needs annotations or tokens.

    Raises:
        CreditflowError: the run would fail in its first rollout.
    """
    engine = RolloutEngine(group_env_factory(settings.env, 2, texts=needs_texts(settings, scheme)), Budget(turns=TURNS))
    [group] = engine.play(_SmokeTestAgent(settings), [task], seed=settings.seed)
    missing = ", ".join(name for name in scheme.task_fields if name not in group.task)
    annotated = bool(scheme.needs or scheme.requires_tokens)  # a random agent's episodes have neither
    reason = f"their payload has no {missing}" if missing else ""
    if not missing and not annotated:
        reason = scheme.undefined_on(group)
    if reason:
        raise ConfigError(f"scheme {scheme.name!r} cannot score {settings.env.name!r} tasks: {reason}")
    return None if annotated else scheme.assign(group)


def _model(settings: TrainConfig, tasks: list[Task]) -> tuple[str, ModelSizes | None, Callable[[str], int]]:
    """Describe the policy; returns a line of text, its sizes if they are known, and what counts the tokens of a text.

    Raises:
        ConfigError: the prompting settings do not fit the model or tokenizer.
        DataError: a folder without a model.
    """
    if find_spec("torch") is None:
        missing = f"the model was not checked: {MissingExtraError('torch', 'train')}"
        return missing, known_sizes(settings.model.path), rough_tokens
    if not settings.model.path:
        from creditflow.train.run.assemble import make_policy

        model, tokenizer = make_policy(settings, None, tasks)
        settings.prompting.conversations(tokenizer)
        _check_context(settings, model)
        return _counted(model, tokenizer), ModelSizes.of(model), _counter(tokenizer)
    folder = _local_snapshot(settings.model.path)
    if folder is None:
        if settings.prompting.chat not in ("template", "plain"):
            raise ConfigError(
                f"prompting.chat must be 'template' or 'plain', got {short_repr(settings.prompting.chat)}"
            )
        missing = f"{settings.model.path}, which is not on this machine (the run downloads it; it was not checked)"
        return missing, known_sizes(settings.model.path), rough_tokens
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    check_model_files(folder)
    with loading(f"cannot open {str(folder)!r} as a causal language model"):
        with torch.device("meta"):  # shapes without weights: a dry run of a large model takes no memory
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            vision = config.model_type in VISION_FAMILIES
            model = (AutoModelForImageTextToText if vision else AutoModelForCausalLM).from_config(
                config, trust_remote_code=False
            )
        tokenizer = open_tokenizer(folder)
    if not list(folder.glob("*.safetensors")):
        raise DataError(f"{folder}: has no weights (*.safetensors)")
    settings.prompting.conversations(tokenizer)
    _check_context(settings, model)
    return _counted(model, tokenizer), ModelSizes.of(model), _counter(tokenizer)


def _counter(tokenizer: Any) -> Callable[[str], int]:
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _check_context(settings: TrainConfig, model: Any) -> None:
    limit = getattr(text_config(model), "max_position_embeddings", 0)
    if settings.prompting.max_context > limit > 0:
        raise ConfigError(
            f"prompting.max_context must be at most the model's limit of {limit} tokens, got {settings.prompting.max_context}"
        )
    settings.sampling.check_context(settings.prompting.max_context or limit)


def _counted(model: Any, tokenizer: Any) -> str:
    parameters = sum(p.numel() for p in model.parameters())
    return f"{type(model).__name__} with {parameters:,} parameters, {len(tokenizer)} tokens"


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
        raise ConfigError(
            f"model.path {path!r} is neither a folder nor the name of a Hugging Face model: {error}"
        ) from error
    if not isinstance(cached, str):
        return None
    folder = Path(cached).parent
    return folder if list(folder.glob("*.safetensors")) else None
