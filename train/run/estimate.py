"""Memory and GPU hours of a training run, estimated from its settings and the sizes of its model before anything is loaded.

Models are of the Llama, Qwen2 or Qwen3 family, also with a vision tower. Each estimate is one function and one line
of text, with its error against what was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np

from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.agents.prompts.template import PICTURE
from creditflow.agents.scripted import RandomAgent
from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import Budget, RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, panel_tasks
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.records.pictures import picture_in

__all__ = ["ARITHMETIC", "FAMILIES", "GPUS", "KNOWN", "ModelSizes", "PromptReader", "Prompts", "activation_bytes"]
__all__ += ["forward_flops", "hours", "hours_text", "known_sizes", "measured_prompts", "memory_gb", "memory_text"]
__all__ += ["passes", "range_text", "rough_tokens", "trained_bytes"]

FLOAT: Final = 4  # bytes of a float32
BYTES: Final = {"float32": FLOAT, "bfloat16": 2}  # of a number
FAMILIES: Final = ("llama", "qwen2", "qwen3", "qwen2_5_vl", "qwen3_vl")


class ModelSizes(NamedTuple):
    """Sizes of a model: its parameters, and the rest of its text part."""

    parameters: int  # a shared matrix once
    hidden: int
    layers: int
    queries: int  # numbers per token and layer
    keys: int
    intermediate: int
    vocabulary: int
    tied: bool  # whether input and output embeddings are one matrix
    positions: int  # longest sequence in tokens
    vision: bool = False  # whether it has a vision tower

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Sizes of a model of ``transformers``; None if it is of no family whose estimates were tested."""
        config, text = model.config, model.config.get_text_config()
        if config.model_type not in FAMILIES:
            return None
        parameters = sum(p.numel() for name, p in model.named_parameters() if "lora_" not in name)
        head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        queries, keys = text.num_attention_heads * head, text.num_key_value_heads * head
        block = (text.hidden_size, text.num_hidden_layers, queries, keys, text.intermediate_size)
        tied, vision = bool(config.tie_word_embeddings), hasattr(config, "vision_config")
        return cls(parameters, *block, text.vocab_size, tied, text.max_position_embeddings, vision)

    @property
    def decoder(self) -> int:
        """Parameters without output layer."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)


# config.json and the number of parameters of each model on huggingface.co/Qwen, and of SmolLM2-135M in the folder where our recipes expect it
KNOWN: Final = {
    "Qwen/Qwen2.5-0.5B": ModelSizes(494032768, 896, 24, 896, 128, 4864, 151936, True, 32768),
    "Qwen/Qwen2.5-1.5B": ModelSizes(1543714304, 1536, 28, 1536, 256, 8960, 151936, True, 32768),
    "Qwen/Qwen2.5-3B": ModelSizes(3085938688, 2048, 36, 2048, 256, 11008, 151936, True, 32768),
    "Qwen/Qwen2.5-7B": ModelSizes(7615616512, 3584, 28, 3584, 512, 18944, 152064, False, 32768),
    "Qwen/Qwen2.5-VL-3B": ModelSizes(3754622976, 2048, 36, 2048, 256, 11008, 151936, True, 128000, vision=True),
    "Qwen/Qwen3-8B": ModelSizes(8190735360, 4096, 36, 4096, 1024, 12288, 151936, False, 40960),
    "models/smollm2": ModelSizes(134515008, 576, 30, 576, 192, 1536, 49152, True, 8192),
}


def known_sizes(name: str) -> ModelSizes | None:
    """Sizes of a model by its name, without network; None if it is not known here."""
    return KNOWN.get(re.sub(r"-(Instruct|Base)$", "", name))


def trained_bytes(sizes: ModelSizes, settings: TrainConfig) -> int:
    """Exact bytes of what the trainer always holds: weights with gradients and two moments, a critic, a reference.

    Raises:
        ConfigError: LoRA names a layer that the model lacks.
    """
    lora, critic = settings.model.lora, settings.critic.kind == "separate"
    weights = sizes.parameters + critic * sizes.decoder
    if not lora.rank:
        return 4 * FLOAT * weights + (FLOAT * sizes.parameters if settings.update.loss.kl_weight else 0)
    # gradients and moments of the adapters alone, in every block; the frozen weights are the reference
    widths = dict.fromkeys(("q_proj", "o_proj"), sizes.queries) | dict.fromkeys(("k_proj", "v_proj"), sizes.keys)
    widths |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), sizes.intermediate)
    if unknown := [name for name in lora.target_modules if name not in widths]:
        raise unknown_name_error("linear layer", unknown[0], sorted(widths))
    adapter = sizes.layers * lora.rank * sum(sizes.hidden + widths[name] for name in lora.target_modules)
    return weights * BYTES[lora.base_dtype] + (1 + critic) * 4 * FLOAT * adapter


def block_bytes(sizes: ModelSizes, number: int) -> int:
    """Bytes per token that a block stores at most, if a matrix product gives numbers of ``number`` bytes.

    Each of two norms stores three vectors: its input, a float32 copy and the result. Attention stores queries, keys and
    values, their rotations and its result; the MLP gate, activation, up and product. Matrices of attention are not stored.
    """
    return 6 * sizes.hidden * FLOAT + number * (7 * sizes.queries + 4 * sizes.intermediate)


def activation_bytes(sizes: ModelSizes, tokens: int, number: int, *, checkpointing: bool) -> int:
    """An upper estimate of what a pass over ``tokens`` tokens stores for the gradient, without logits and vision tower.

    With checkpointing a block stores its input only, and one block at a time is computed again. An adapter converts its
    inputs, so that a ``number`` has 4 bytes.
    """
    block = block_bytes(sizes, number)
    return tokens * (sizes.layers * sizes.hidden * FLOAT + 2 * block if checkpointing else (sizes.layers + 1) * block)


MEMORY_MEASURED: Final = (
    "an upper bound: smollm2_sokoban took 3.3 GB on a CPU where this says 11, because its micro-batches were not full"
)


def memory_gb(
    sizes: ModelSizes, settings: TrainConfig, *, gpus: int = 1, gpu_gb: float = 80.0, longest: int = 0
) -> float:
    """GB that a run holds at most on each of ``gpus`` GPUs of ``gpu_gb``; they share what is always held, as verl's do.

    ``longest`` is the longest prompt with its completion in tokens, for a run without ``prompting.max_context``; 0 for the
    model's own limit. Raises as ``trained_bytes``.
    """
    rollout, update, lora, vllm = settings.rollout, settings.update, settings.model.lora, settings.generation.vllm
    weight = BYTES[lora.base_dtype] if lora.rank else FLOAT
    sampled = weight if rollout.dtype == "same" else BYTES[rollout.dtype]
    context = settings.prompting.max_context or min(longest or sizes.positions, sizes.positions)
    # float32 logits, scaled, normalised, with gradients; a truncated distribution is also sorted
    distribution = sizes.vocabulary * FLOAT * (14 if settings.truncation else 9)

    # an update: logits of a chunk, activations of a micro-batch, and the bfloat16 copy of the weights that autocast keeps
    cast = settings.model.autocast == "bfloat16"
    tokens, number = max(update.batch_tokens, context), 2 if cast and not lora.rank else FLOAT
    updating = min(update.logits_chunk, tokens) * distribution + 2 * sizes.parameters * (cast and weight == FLOAT)
    updating += activation_bytes(sizes, tokens, number, checkpointing=settings.model.gradient_checkpointing)

    # a rollout: keys and values of all episodes with a quarter of room, a block's pass over what is read, distributions
    read = context - rollout.max_new_tokens
    if settings.prompting.history == "append":  # a conversation reads a turn's part
        read = math.ceil(read / (rollout.max_turns or settings.env.options.get("max_steps") or 1))
    cache = int(1.25 * context) * 2 * sizes.layers * sizes.keys * sampled
    playing = rollout.concurrent_episodes * (cache + read * block_bytes(sizes, sampled) + distribution)

    # the sampler's own weights, where it does not read the trainer's
    most, copy = float(max(updating, playing)), sizes.parameters * sampled
    if settings.generation.backend == "vllm":
        engine = copy + vllm.kv_gib * 2**30 if vllm.kv_gib else max(copy, vllm.memory * gpu_gb * 1e9)
        most = max(updating, engine) if vllm.sleep else updating + engine
    elif sampled != weight or (lora.rank and weight == FLOAT):  # an adapter is merged into a copy
        most += copy
    return (trained_bytes(sizes, settings) / gpus + most) / 1e9


def memory_text(sizes: ModelSizes, settings: TrainConfig, *, gpus: int = 1, longest: int = 0) -> str:
    """One line: what ``memory_gb`` says of each of a run's GPUs, and how far an estimate was from a measured run."""
    gpu = f" on each of {gpus} GPUs" if gpus > 1 else " on a GPU"
    place = "" if settings.device == "cpu" else gpu
    if settings.generation.backend == "vllm":
        place += " of 80 GB, of which vLLM takes its fraction"
    if sizes.vision:
        place += ", without the activations of the vision tower"
    peak = _short(memory_gb(sizes, settings, gpus=gpus, longest=longest))
    return f"memory: {peak} GB at the peak{place}; {MEMORY_MEASURED}"


# FLOP/s of dense matrix products in bfloat16 by NVIDIA's data sheets; an A800 computes as an A100
GPUS: Final = {"A100": 312e12, "H100": 989e12}
ARITHMETIC: Final = 0.4  # of the peak, which leaves room for padding; 0.58 were measured on an H200 with packed rows
STEP: Final = 6e-4  # seconds of a layer in a step of sampling, measured on an H200 (tests/evidence/gpu); with vLLM 4e-4
SPREAD: Final = 2.0  # how far a measured run may lie above or below: a range within a factor of four
HOURS_MEASURED: Final = (
    "one iteration on an H200 took 1.6 times the middle of its range, and RewardFlow's ALFWorld run 1.3 times"
)
EPISODES: Final = 8  # of a random agent, whose prompts are measured; tasks at equal distances in the list
TURNS: Final = 8  # of each
PIXELS: Final = 28 * 28  # that one token of a picture stands for in the Qwen-VL families


def rough_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer: one per word, digit and mark."""
    return len(re.findall(r"[^\W\d_]+|\d|[^\w\s]|_", text))


class PromptReader(RandomAgent):
    """A random agent that counts the tokens of every prompt that a model would be shown, and writes actions in the run's dialect."""

    def __init__(self, settings: TrainConfig, count: Callable[[str], int] = rough_tokens) -> None:
        self.prompting, self.count = settings.prompting, count
        self.limit, self.first, self.later = 0, list[int](), list[int]()

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view.

        Raises:
            CreditflowError: the prompt or the dialect does not fit the environment.
        """
        prompting, prompt = self.prompting, make_prompt(self.prompting.prompt)
        dialect, decisions = make_dialect(prompting.dialect), super().act(views)
        for view, decision in zip(views, decisions, strict=True):
            self.limit, slots = view.env.max_steps, slots_of(prompt, view, prompting.window)
            if view.turns and prompting.history == "append":
                text = prompt.fill("later", slots)
            else:
                text = prompt.fill("system", slots) + prompt.fill("windowed" if view.turns else "first", slots)
            tokens = self.count(text.replace(PICTURE, ""))
            if (picture := picture_in(view.observation)) is not None:
                tokens += text.count(PICTURE) * (picture.shape[0] * picture.shape[1] // PIXELS)
            (self.later if view.turns else self.first).append(tokens)
            if decision.action in view.info["admissible_actions"]:
                parsed = dialect.parse(dialect.write(decision.action, "a thought"))
                if not parsed.valid:
                    name = f"prompting.dialect {prompting.dialect!r}"
                    raise ConfigError(f"{name} cannot write {decision.action!r}: {parsed.reason}")
        return decisions


class Prompts(NamedTuple):
    """Lengths in tokens, measured in a random agent's episodes."""

    limit: int  # most turns that the environment, or the run's own budget, allows
    first: float  # the first prompt with the system message, on average
    later: float  # what a later turn adds on average: a prompt of its own (history "window"), or a message ("append")
    longest: int = 0  # the longest prompt with its completion, in an episode of ``limit`` turns


def measured_prompts(
    settings: TrainConfig, tasks: Sequence[Task], count: Callable[[str], int] = rough_tokens
) -> Prompts:
    """Play a random agent on a few of the run's tasks, and count the tokens of its prompts with ``count``.

    Raises:
        CreditflowError: the prompt or the dialect does not fit the environment.
    """
    agent = PromptReader(settings, count)
    few = tasks[:: max(1, len(tasks) // EPISODES)][:EPISODES]
    RolloutEngine(group_env_factory(settings.env, 1), Budget(turns=TURNS)).play(agent, few, seed=settings.seed)
    limit, completion = min(agent.limit, settings.rollout.max_turns or agent.limit), settings.rollout.max_new_tokens
    later = agent.later or agent.first
    longest = max(agent.first + agent.later) + completion
    if settings.prompting.history == "append":
        longest = max(agent.first) + (limit - 1) * max(later) + limit * completion
    return Prompts(limit, float(np.mean(agent.first)), float(np.mean(later)), longest)


def hours(sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, peak: float) -> float:
    """GPU hours of a run at a peak in FLOP/s, with every turn that is allowed and completions half as long as allowed.

    The environments' own time, annotators and checkpoints are not counted. All groups are trained on, and prefixes that
    rows share are counted in each, unless rows are whole episodes or packed.
    """
    update, rollout, evaluation, sft = settings.update, settings.rollout, settings.evaluation, settings.sft
    turns, read = float(prompts.limit), prompts.first + (prompts.limit - 1) * prompts.later
    rows = read + turns * rollout.max_new_tokens / 2  # tokens of an episode's rows
    length = rows / turns
    if settings.prompting.history == "append":  # an episode that fills the context ends
        fits = min(1.0, (settings.prompting.max_context or math.inf) / rows)
        turns, read, length = fits * turns, fits * read, fits * rows
        rows = length * ((1 + turns) / 2 if update.row_layout == "turn" and update.packing != "packed" else 1)
    forward = forward_flops(sizes, 1.0, length) / (peak * ARITHMETIC)  # seconds per token

    # episodes that play together read their prompts, and wait in every turn for the longest completion
    together = rollout.concurrent_episodes
    sampling = together * read * forward + turns * rollout.max_new_tokens * sizes.layers * STEP
    trained = update.iterations * rollout.tasks * max(rollout.group_size, rollout.branching.max_trajectories)
    panels = ((evaluation.panel, evaluation.limit), (evaluation.final_panel, evaluation.final_limit))
    valid, final = (len(panel_tasks(settings.evaluation_env, *panel)) if panel[0] else 0 for panel in panels)
    times = 1 + math.ceil(update.iterations / evaluation.every) if evaluation.every else 2
    played = trained + (1 + evaluation.samples) * (times * valid + final)  # greedy and sampled
    forwards = passes(settings) * trained * rows + (3 * sft.steps * sft.batch_tokens if sft.episodes else 0)
    return (played / together * sampling + forwards * forward) / 3600


def passes(settings: TrainConfig) -> float:
    """Forward passes over all training rows that an iteration's arithmetic is worth; a critic's count as the policy's."""
    update, critic, kl = settings.update, settings.critic.kind, settings.update.loss.kl_weight > 0.0
    # forward, again with checkpointing, and backward: two, but through frozen weights one
    gradient = 1 + settings.model.gradient_checkpointing + (1 if settings.model.lora.rank else 2)
    needed = not update.one_step or (kl and update.loss.kl_in == "reward")
    trained = update.epochs * gradient * (2 if critic == "separate" else 1)
    return float(trained + (needed and update.old_logprobs == "trainer") + kl + (critic != "none"))


def forward_flops(sizes: ModelSizes, tokens: float, length: float) -> float:
    """FLOP of a forward pass over causal sequences of this length: 2 per weight, with one matrix of embeddings, and attention."""
    return tokens * (2.0 * sizes.decoder + 2.0 * sizes.layers * sizes.queries * length)


def hours_text(sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, gpus: int = 1) -> str:
    """One line: the range of GPU hours on each kind of GPU, and how far such estimates were from measured runs."""
    ranges = (f"{name} {range_text(hours(sizes, settings, prompts, peak))}" for name, peak in GPUS.items())
    clock = f", on the clock at least a {gpus}th of that" if gpus > 1 else ""
    return f"GPU hours: {', '.join(ranges)}{clock}, without the environments' own time; {HOURS_MEASURED}"


def range_text(middle: float) -> str:
    """The range around an estimate in hours.

    >>> range_text(62.0), range_text(0.1), range_text(0.01)
    ('31 to 120', '0.05 to 0.2', 'under 0.1')
    """
    low, high = middle / SPREAD, middle * SPREAD
    return f"{_short(low)} to {_short(high)}" if high >= 0.1 else "under 0.1"


def _short(x: float) -> str:
    """Two significant digits, and no exponent."""
    return f"{float(f'{x:.2g}'):,g}"
