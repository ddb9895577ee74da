"""Build the parts of a run from its settings: tasks, environments, model, tokenizer, sampler, engines and agent."""

from __future__ import annotations

from typing import Any

import torch

from creditflow.agents.backends.base import Sampling, TrainedBackend
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.agents.models.lora import has_adapter
from creditflow.agents.models.vision import decoder_of
from creditflow.agents.scripted import RandomAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.policy.critic import Critic
from creditflow.train.policy.logprobs import check_model
from creditflow.train.policy.network.adapter import add_adapter
from creditflow.train.policy.network.options import freeze_vision, pick_device, recompute_activations
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.packing.attention import check_packing
from creditflow.train.progress import note
from creditflow.train.rollout.engine import Budget, RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, needs_texts
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Scheme

__all__ = [
    "describe_model",
    "make_backend",
    "make_critic",
    "make_eval_engine",
    "make_policy",
    "make_policy_agent",
    "make_rollout_engine",
    "pick_device",
    "scratch_tokenizer",
]

TOKENIZER_EPISODES = 512


def scratch_tokenizer(settings: TrainConfig, tasks: list[Task]) -> Any:
    """A tokenizer trained on the prompts and completions of a random agent on the first tasks."""
    from creditflow.agents.prompts import make_prompt, slots_of
    from creditflow.agents.prompts.template import PICTURE

    prompt, dialect = make_prompt(settings.prompting.prompt), make_dialect(settings.prompting.dialect)
    texts: list[str] = []

    class _Reader(RandomAgent):
        """A random agent that collects every prompt, and the completion of every admissible action."""

        def act(self, views: Any) -> Any:
            for view in views:
                if not view.info["admissible_actions"]:
                    raise ConfigError(
                        f"model.scratch makes its tokenizer from the actions of a random agent, but environment {settings.env.name!r} lists "
                        "no actions in info['admissible_actions']. List them (AgentEnv._admissible), or set model.path to a model "
                        "that has a tokenizer"
                    )
                slots = slots_of(prompt, view, settings.prompting.window)
                template = "later" if view.turns and settings.prompting.history == "append" else "first"
                texts.append(prompt.fill(template, slots).replace(PICTURE, ""))
                texts.extend(dialect.write(action) for action in view.info["admissible_actions"])
            return super().act(views)

    RolloutEngine(group_env_factory(settings.env, 1, texts=True), Budget(turns=4)).play(
        _Reader(), tasks[:TOKENIZER_EPISODES], seed=settings.seed
    )
    return build_tokenizer(texts, settings.model.scratch)


def make_policy(settings: TrainConfig, tokenizer: Any | None, tasks: list[Task]) -> tuple[Any, Any]:
    """Model (fp32 master weights, with LoRA an adapter of them on a frozen base; on its device) and tokenizer.

    Args:
        settings: settings of the run.
        tokenizer: tokenizer of a resumed run, else None.
        tasks: tasks whose texts a new tokenizer is trained on.
    """
    device = pick_device(settings.device)
    if settings.model.path:
        lora = settings.model.lora
        dtype = lora.base_dtype if lora.rank else "float32"
        model, stored_tokenizer = open_pretrained(settings.model.path, device=str(device), dtype=dtype)
        if has_adapter(model):
            raise ConfigError(f"model.path {settings.model.path!r} is an adapter; start from the merged model instead")
        tokenizer = tokenizer or stored_tokenizer
    else:
        scratch: ScratchConfig = settings.model.scratch
        tokenizer = tokenizer or scratch_tokenizer(settings, tasks)
        model = build_model(scratch, tokenizer, seed=settings.seed, device=device)
    check_model(model)
    if settings.update.packing == "packed":
        check_packing(model, settings.model.autocast)
    if settings.model.lora.rank:
        add_adapter(model, settings.model.lora, settings.seed)
    if settings.model.freeze_vision:
        freeze_vision(model)
    if settings.model.gradient_checkpointing:
        recompute_activations(model)
    return model, tokenizer


def describe_model(model: Any) -> str:
    """Class and number of parameters, and of those that are trained if not all are."""
    count = sum(p.numel() for p in model.parameters())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return f"{type(model).__name__}, {count:,} parameters" + (f" ({trained:,} trained)" if trained < count else "")


def make_critic(model: Any, settings: TrainConfig) -> Critic | None:
    """A new critic of a policy; None if the settings have none."""
    return None if settings.critic.kind == "none" else Critic(settings.critic, decoder_of(model))


def make_backend(model: Any, settings: TrainConfig) -> TrainedBackend:
    """The sampler of a run.

    Raises:
        MissingExtraError, ConfigError: vLLM is requested but not installed, or its release is not supported.
    """
    rollout, generation = settings.rollout, settings.generation
    trained = str(next(model.parameters()).dtype).removeprefix("torch.")
    sampled = trained if rollout.dtype == "same" else rollout.dtype
    updated = trained if settings.model.autocast == "none" else settings.model.autocast
    if settings.update.old_logprobs == "sampler" and (sampled, updated) != ("float32", "float32"):
        note(
            f"old_logprobs are those of the sampler, which computes in {sampled}, and the trainer in {updated}: a token's may differ "
            "by some tenths of a nat, so the first step is off-policy already; update.old_logprobs=trainer computes them again"
        )
    if generation.backend == "vllm":
        from creditflow.agents.backends.vllm.trained import VllmTrainedBackend

        return VllmTrainedBackend(model, dtype=sampled, config=generation.vllm, seed=settings.seed)
    dtype = None if rollout.dtype == "same" else getattr(torch, rollout.dtype)
    return TransformersBackend(model, dtype=dtype)


def make_rollout_engine(settings: TrainConfig, scheme: Scheme) -> RolloutEngine:
    """The engine that plays training groups."""
    texts = needs_texts(settings, scheme)
    return RolloutEngine(
        group_env_factory(settings.env, settings.rollout.group_size, texts=texts),
        Budget(settings.rollout.max_turns, settings.rollout.max_tokens),
        branching=settings.rollout.branching,
        make_branch=group_env_factory(settings.env, 1, texts=texts),
        threads=settings.rollout.env_threads,
    )


def make_eval_engine(settings: TrainConfig) -> RolloutEngine:
    """The engine that plays evaluation episodes, one per group."""
    return RolloutEngine(
        group_env_factory(settings.evaluation_env, 1, texts=settings.prompting.history == "window"),
        threads=settings.rollout.env_threads,
    )


def make_policy_agent(
    settings: TrainConfig,
    backend: TrainedBackend,
    tokenizer: Any,
    *,
    temperature: float,
    top_p: float = 1.0,
    top_k: int = 0,
    entropies: int = 0,
) -> LanguageModelAgent:
    """The policy as an agent at one temperature (0: greedy); the other arguments as in ``Sampling``."""
    sampling = Sampling(settings.rollout.max_new_tokens, temperature, top_p, top_k, entropies)
    return settings.prompting.agent(backend, tokenizer, sampling, name="policy")
