"""Memory and GPU hours of a training run, estimated from its settings and the sizes of its model before anything is loaded.

Models are of the Llama, Qwen2 or Qwen3 family, also with a vision tower. Each estimate is one function and one line
of text, with its error against what was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from creditflow.agents.base import Decision, View
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.agents.prompts.template import PICTURE
from creditflow.agents.scripted import RandomAgent
from creditflow.envs.errors import unknown_name_error
from creditflow.envs.tasks import Task
from creditflow.train.policy.packing.forest import KEYS_PER_TOKEN
from creditflow.train.rollout.engine import Budget, RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.records.pictures import picture_in

__all__ = [
    *(
        "ARITHMETIC",
        "EPISODES",
        "FAMILIES",
        "GPUS",
        "KNOWN",
        "Gpu",
        "ModelSizes",
        "PromptReader",
        "Prompts",
        "VisionSizes",
    ),
    *("activation_bytes", "forward_flops", "hours", "hours_text", "known_sizes", "measured_prompts", "memory_gb"),
    *("memory_text", "passes", "range_text", "rough_tokens", "trained_bytes"),
]

FLOAT: Final = 4  # bytes of a float32
BYTES: Final = {"float32": FLOAT, "bfloat16": 2}  # of a number
FAMILIES: Final = ("llama", "qwen2", "qwen3", "qwen2_5_vl", "qwen3_vl")


class VisionSizes(NamedTuple):
    """Sizes of a vision tower.

    Attributes:
        layers, hidden, intermediate: as in the model's configuration.
        patches: patches per token.
    """

    layers: int
    hidden: int
    intermediate: int
    patches: int


class ModelSizes(NamedTuple):
    """Sizes of a model.

    Attributes:
        parameters: all of them, a shared matrix once.
        hidden, layers, intermediate, vocabulary: as in the model's configuration.
        heads, kv_heads, head_dim: query heads, key-value heads, and the size of each.
        tied: whether input and output embeddings are one matrix.
        positions: longest sequence in tokens.
        vision: the vision tower; None without.
        head_norms: whether queries and keys are normalised, as in Qwen3.
    """

    parameters: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    positions: int
    vision: VisionSizes | None = None
    head_norms: bool = False

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Sizes of a model of ``transformers``; None if it is of no family whose estimates were tested."""
        if model.config.model_type not in FAMILIES:
            return None
        text, tower = model.config.get_text_config(), getattr(model.config, "vision_config", None)
        vision = None
        if tower is not None:
            vision = VisionSizes(tower.depth, tower.hidden_size, tower.intermediate_size, tower.spatial_merge_size**2)
        return cls(
            sum(p.numel() for name, p in model.named_parameters() if "lora_" not in name),
            text.hidden_size,
            text.num_hidden_layers,
            text.num_attention_heads,
            text.num_key_value_heads,
            getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
            text.intermediate_size,
            text.vocab_size,
            bool(model.config.tie_word_embeddings),
            text.max_position_embeddings,
            vision,
            model.config.model_type.startswith("qwen3"),
        )

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of the linear layers of one block, by name."""
        hidden, queries, keys = self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (hidden, queries),
            "k_proj": (hidden, keys),
            "v_proj": (hidden, keys),
            "o_proj": (queries, hidden),
            "gate_proj": (hidden, self.intermediate),
            "up_proj": (hidden, self.intermediate),
            "down_proj": (self.intermediate, hidden),
        }

    @property
    def decoder(self) -> int:
        """Parameters without output layer."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)

    def adapter(self, rank: int, targets: Sequence[str]) -> int:
        """Parameters of a LoRA adapter on the linear layers of these names, in every block.

        Raises:
            ConfigError: the model lacks one of these layers.
        """
        for name in targets:
            if name not in self.linear:
                raise unknown_name_error("linear layer", name, sorted(self.linear))
        return self.layers * sum(rank * sum(self.linear[name]) for name in targets)


# config.json and the number of parameters of each model on huggingface.co/Qwen, and of SmolLM2-135M in the folder where our recipes expect it
KNOWN: Final = {
    "Qwen/Qwen2.5-0.5B": ModelSizes(494032768, 896, 24, 14, 2, 64, 4864, 151936, True, 32768),
    "Qwen/Qwen2.5-1.5B": ModelSizes(1543714304, 1536, 28, 12, 2, 128, 8960, 151936, True, 32768),
    "Qwen/Qwen2.5-3B": ModelSizes(3085938688, 2048, 36, 16, 2, 128, 11008, 151936, True, 32768),
    "Qwen/Qwen2.5-7B": ModelSizes(7615616512, 3584, 28, 28, 4, 128, 18944, 152064, False, 32768),
    "Qwen/Qwen2.5-VL-3B": ModelSizes(
        3754622976, 2048, 36, 16, 2, 128, 11008, 151936, True, 128000, VisionSizes(32, 1280, 3420, 4)
    ),
    "Qwen/Qwen2.5-VL-7B": ModelSizes(
        8292166656, 3584, 28, 28, 4, 128, 18944, 152064, False, 128000, VisionSizes(32, 1280, 3420, 4)
    ),
    "Qwen/Qwen3-8B": ModelSizes(8190735360, 4096, 36, 32, 8, 128, 12288, 151936, False, 40960, head_norms=True),
    "models/smollm2": ModelSizes(134515008, 576, 30, 9, 3, 64, 1536, 49152, True, 8192),
}


def known_sizes(name: str) -> ModelSizes | None:
    """Sizes of a model by its name, without network; None if it is not known here."""
    return KNOWN.get(re.sub(r"-(Instruct|Base)$", "", name))


def trained_bytes(sizes: ModelSizes, settings: TrainConfig) -> int:
    """Exact bytes of what the trainer always holds: weights with gradients and two moments, a critic, a reference."""
    lora = settings.model.lora
    adapter = sizes.adapter(lora.rank, lora.target_modules) if lora.rank else 0

    def trained(parameters: int) -> int:
        # four float32 per trained number; of frozen weights only the adapter has gradients and moments
        return parameters * BYTES[lora.base_dtype] + 4 * FLOAT * adapter if lora.rank else 4 * FLOAT * parameters

    total = trained(sizes.parameters)
    if settings.critic.kind == "separate":
        total += trained(sizes.decoder)
    if settings.update.loss.kl_weight and not lora.rank:  # the frozen weights are an adapter's reference
        total += FLOAT * sizes.parameters
    return total


def activation_bytes(
    sizes: ModelSizes, tokens: int, *, base: int, product: int, converted: int = 0, checkpointing: bool, packed: bool
) -> int:
    """An upper estimate of the activations that a pass over ``tokens`` tokens stores, without logits and attention matrices.

    Args:
        sizes: sizes of the model.
        tokens: tokens of a micro-batch.
        base: bytes of a number of the weights, and of the residual stream.
        product: bytes of a number that a matrix product gives.
        converted: bytes of a number of those inputs that an adapter converts for itself.
        checkpointing: whether a block stores its input only, and activations are recomputed one block at a time.
        packed: whether rows share prefixes, for which keys and values are gathered.
    """

    def stored(layers: int, hidden: int, block: int) -> int:
        return layers * hidden * base + 2 * block if checkpointing else (layers + 1) * block

    hidden, queries, keys = sizes.hidden, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    block = 2 * hidden * 3 * FLOAT  # two norms: the input, the normalised input in float32, and the result
    block += (queries + keys) * (2 * FLOAT * sizes.head_norms + product)  # normalised and rotated queries and keys
    block += (
        5 * queries + 4 * sizes.intermediate
    ) * product  # attention and its projection; gate, activation, up, product
    block += sum(inputs for inputs, _ in sizes.linear.values()) * converted
    block += 2 * KEYS_PER_TOKEN * keys * product * packed
    total = stored(sizes.layers, hidden, block) + 2 * hidden * (base + FLOAT)
    if (tower := sizes.vision) is not None:  # as if every token were one of a picture
        block = 4 * FLOAT * tower.hidden + (6 * tower.hidden + 4 * tower.intermediate) * product
        total += tower.patches * stored(tower.layers, tower.hidden, block)
    return tokens * total


LOGITS_COPIES: Final = 8  # float32 logits, scaled, log-softmax, its exponential, their product, and gradients
SORTED: Final = 2 * FLOAT + 8 + 3  # sorted probabilities, their cumulative sums, int64 indices, three masks
CACHE_ROOM: Final = 1.25  # slots of the sampler's cache relative to its tokens (transformers_backend.py)
MEMORY_MEASURED: Final = (
    "an upper bound: smollm2_sokoban took 3.3 GB on a CPU where this says 12, because its micro-batches were not full"
)


def memory_gb(
    sizes: ModelSizes, settings: TrainConfig, *, gpus: int = 1, gpu_gb: float = 80.0, longest: int = 0
) -> float:
    """GB that a run holds at most on its device.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        gpus: GPUs that share what is always held, as verl's do.
        gpu_gb: the GPU's size in GB, of which vLLM takes a fraction.
        longest: tokens of the longest prompt with its completion, where ``prompting.max_context`` sets no limit; 0: as the model's.

    Raises:
        ConfigError: LoRA names a layer that the model lacks.
    """
    model, rollout, update, lora = settings.model, settings.rollout, settings.update, settings.model.lora
    base = BYTES[lora.base_dtype] if lora.rank else FLOAT
    sampled = base if rollout.dtype == "same" else BYTES[rollout.dtype]
    cast = model.autocast == "bfloat16"
    product = BYTES["bfloat16"] if cast else base
    context = settings.prompting.max_context or min(longest or sizes.positions, sizes.positions)
    sorts = SORTED * (settings.truncation is not None)
    tokens = max(update.batch_tokens, context)

    # an update: logits of a chunk, the weights that autocast keeps, activations of a micro-batch
    updating = min(update.logits_chunk, tokens) * sizes.vocabulary * (product + LOGITS_COPIES * FLOAT + sorts)
    updating += 2 * sizes.parameters if cast and base == FLOAT else 0
    converted = 0  # inputs that an adapter keeps in its own type
    if lora.rank and product < FLOAT:
        converted = product if cast else FLOAT
    updating += activation_bytes(
        sizes, tokens, base=base, product=product, converted=converted, checkpointing=model.gradient_checkpointing,
        packed=update.packing == "packed",
    )  # fmt: skip

    # a rollout: keys and values of all episodes, a block's pass over their new tokens, the distributions that are sampled from
    episodes, queries, keys = rollout.concurrent_episodes, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    turns = rollout.max_turns or settings.env.options.get("max_steps", 1)
    new = context - rollout.max_new_tokens
    if settings.prompting.history == "append" and isinstance(turns, int) and turns > 1:
        new = -(-new // turns)  # a conversation reads a turn's part
    cache = int(CACHE_ROOM * context) * 2 * sizes.layers * keys * sampled
    token = (3 * sizes.intermediate + 2 * (queries + 2 * keys)) * sampled + (
        4 * sizes.hidden + sizes.intermediate
    ) * FLOAT
    distribution = sizes.vocabulary * (sampled + 8 * FLOAT + 2 * sorts)
    playing = float(episodes * (cache + new * (token + context) + distribution))

    # the sampler's own weights, where it does not read the trainer's
    vllm, merged = settings.generation.vllm, bool(lora.rank) and base == FLOAT
    copied = sampled != base or merged or settings.generation.backend == "vllm"
    copy = float(copied * sizes.parameters * sampled)
    held = trained_bytes(sizes, settings)
    if settings.generation.backend == "vllm":
        playing = copy + vllm.kv_gib * 2**30 if vllm.kv_gib else max(copy, vllm.memory * gpu_gb * 1e9)
        most = max(updating, playing) if vllm.sleep else updating + playing
    else:
        most = copy + max(updating, playing)
    return (held / gpus + most) / 1e9


def memory_text(sizes: ModelSizes, settings: TrainConfig, *, gpus: int = 1, longest: int = 0) -> str:
    """One line: what a run holds at most on each of its GPUs, and how far an estimate was from a measured run.

    Args:
        sizes, settings, gpus, longest: as in ``memory_gb``.
    """
    place = ""
    if settings.device != "cpu":
        place = f" on each of {gpus} GPUs" if gpus > 1 else " on a GPU"
    if settings.generation.backend == "vllm":
        place += " of 80 GB, of which vLLM takes its fraction"
    return f"memory: {_short(memory_gb(sizes, settings, gpus=gpus, longest=longest))} GB at the peak{place}; {MEMORY_MEASURED}"


class Gpu(NamedTuple):
    """Peak speeds of a GPU: FLOP/s of dense matrix products in bfloat16, and bytes/s of its memory."""

    flops: float
    bandwidth: float


# NVIDIA's data sheets, SXM boards of 80 GB; an A800 computes as an A100
GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({"A100": Gpu(312e12, 2.04e12), "H100": Gpu(989e12, 3.35e12)})
# of the peak FLOP/s, which leaves room for padding; 0.58 were measured on an H200 with packed rows
ARITHMETIC: Final = 0.4
BANDWIDTH: Final = 0.5  # of the peak bytes/s while sampling, assumed
# seconds of a layer in a step of sampling: measured on an H200 with vLLM (tests/evidence/gpu); without graphs of kernels 1.5 times
CAPTURED: Final = 4e-4
STARTED: Final = 6e-4
SPREAD: Final = 2.0  # how far a measured run may lie above or below: a range within a factor of four
HOURS_MEASURED: Final = (
    "one iteration on an H200 took 1.6 times the middle of its range, and RewardFlow's ALFWorld run 1.3 times"
)
EPISODES: Final = 8  # of a random agent, whose prompts are measured; tasks at equal distances in the list
TURNS: Final = 8  # of each
PIXELS: Final = 28 * 28  # that one token of a picture stands for in the Qwen-VL families


class Prompts(NamedTuple):
    """Lengths in tokens, means over a random agent's episodes.

    Attributes:
        limit: most turns that the environment, or the run's own budget, allows.
        first: the first prompt with the system message.
        later: what every later turn adds: a prompt of its own (history "window"), or a message ("append").
        longest: tokens of the longest prompt with its completion, in an episode of ``limit`` turns.
    """

    limit: int
    first: float
    later: float
    longest: int = 0


def rough_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer: one per word, digit and mark.

    >>> rough_tokens("You see a drawer 12.")
    7
    """
    return len(re.findall(r"[^\W\d_]+|\d|[^\w\s]|_", text))


@dataclass
class PromptReader(RandomAgent):
    """A random agent that fills every prompt that a model would be shown, and counts their tokens."""

    settings: TrainConfig
    count: Callable[[str], int] = rough_tokens
    limit: int = 0
    first: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        prompting = self.settings.prompting
        prompt = make_prompt(prompting.prompt)
        windowed = prompting.history == "window"
        for view in views:
            self.limit = view.env.max_steps
            slots = slots_of(prompt, view, prompting.window)
            part = "first"
            if view.turns:
                part = "windowed" if windowed else "later"
            system = prompt.fill("system", slots) if windowed or not view.turns else ""
            pixels = picture_in(view.observation)
            shown = 0 if pixels is None else prompt.pictures(part) * (pixels.shape[0] * pixels.shape[1] // PIXELS)
            length = self.count((system + prompt.fill(part, slots)).replace(PICTURE, "")) + shown
            (self.later if view.turns else self.first).append(length)
        return super().act(views)


def measured_prompts(
    settings: TrainConfig, tasks: Sequence[Task], count: Callable[[str], int] = rough_tokens
) -> Prompts:
    """Play a random agent on a few tasks, and fill the run's prompts on the way.

    Args:
        settings: settings of the run.
        tasks: the run's tasks.
        count: number of tokens of a text.

    Raises:
        CreditflowError: the prompt does not fit the environment.
    """
    agent = PromptReader(settings, count)
    few = tasks[:: max(1, len(tasks) // EPISODES)][:EPISODES]
    RolloutEngine(group_env_factory(settings.env, 1), Budget(turns=TURNS)).play(agent, few, seed=settings.seed)
    limit = min(filter(None, (agent.limit, settings.rollout.max_turns)))
    completion = settings.rollout.max_new_tokens
    if settings.prompting.history == "window":
        longest = max(agent.first + agent.later) + completion
    else:
        longest = max(agent.first) + (limit - 1) * max(agent.later, default=0) + limit * completion
    later = agent.later or agent.first
    return Prompts(limit, float(np.mean(agent.first)), float(np.mean(later)), longest)


def hours(
    sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, gpu: Gpu, panels: tuple[int, int] = (0, 0)
) -> float:
    """GPU hours of a run, with every turn that is allowed and completions half as long as allowed.

    The environments' own time, annotators and checkpoints are not counted. All groups are trained on, and prefixes that
    rows share are counted in each, unless rows are whole episodes or packed.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        prompts: lengths of prompts and episodes.
        gpu: the GPU.
        panels: tasks of the panel that is evaluated again and again, and of the final one.
    """
    update, rollout, evaluation = settings.update, settings.rollout, settings.evaluation
    context = settings.prompting.max_context or math.inf
    turns, completion = float(prompts.limit), rollout.max_new_tokens / 2
    first, later = prompts.first, prompts.later
    if settings.prompting.history == "window":
        first, later = (min(length, max(0.0, context - completion)) for length in (first, later))
        read = first + (turns - 1) * later
        rows = read + turns * completion
        length = rows / turns
    else:
        read = first + (turns - 1) * later
        fits = min(1.0, context / (read + turns * completion))  # a conversation that fills the context ends
        turns, read = fits * turns, fits * read
        length = read + turns * completion
        unrepeated = update.row_layout == "trajectory" or update.packing == "packed"
        rows = length * (1.0 if unrepeated else (1 + turns) / 2)

    captured = settings.generation.backend == "vllm" and not settings.generation.vllm.eager
    weights = settings.model.lora.base_dtype if settings.model.lora.rank else "float32"
    number = BYTES[weights if rollout.dtype == "same" else rollout.dtype]
    cache = sizes.layers * sizes.kv_heads * sizes.head_dim * length  # keys and values, half full on average

    def computing(tokens: float, length: float) -> float:
        return forward_flops(sizes, tokens, length) / (gpu.flops * ARITHMETIC)

    def sampling(episodes: int) -> float:
        """Seconds in which episodes take their turns together; a turn lasts as long as its longest completion."""
        step = max(
            sizes.layers * (CAPTURED if captured else STARTED),  # starting kernels
            number * (sizes.parameters + episodes * cache) / (gpu.bandwidth * BANDWIDTH),  # reading weights and cache
            computing(episodes, length),
        )
        return computing(episodes * read, length) + turns * rollout.max_new_tokens * step

    def panel(tasks: int) -> float:
        """Seconds of the greedy and the sampled rounds on a panel."""
        together = min(tasks, settings.concurrent_evaluations)
        return -(-tasks // together) * (1 + evaluation.samples) * sampling(together) if tasks else 0.0

    episodes = rollout.tasks * max(rollout.group_size, rollout.branching.max_trajectories)
    together = rollout.concurrent_episodes
    sampled = -(-episodes // together) * sampling(together)
    trained = passes(settings) * computing(episodes * rows, length)
    imitated = 0.0
    if settings.sft.episodes:
        imitated = 3.0 * settings.sft.steps * computing(settings.sft.batch_tokens, length)
    times = 1 + -(-update.iterations // evaluation.every) if evaluation.every else 2
    seconds = update.iterations * (sampled + trained) + imitated
    return (seconds + times * panel(panels[0]) + panel(panels[1])) / 3600.0


def passes(settings: TrainConfig) -> float:
    """Forward passes over all training rows that an iteration's arithmetic is worth; a critic's count as the policy's."""
    update, critic = settings.update, settings.critic
    again = float(settings.model.gradient_checkpointing)
    gradient = (
        1.0 + again + (1.0 if settings.model.lora.rank else 2.0)
    )  # a backward pass is two, through an adapter one
    in_reward = update.loss.kl_weight > 0.0 and update.loss.kl_in == "reward"
    old = update.old_logprobs == "trainer" and (in_reward or not update.one_step)
    passes_of_policy = (
        update.epochs * gradient + float(old) + float(update.loss.kl_weight > 0.0) + float(critic.kind != "none")
    )
    return passes_of_policy + (update.epochs * gradient if critic.kind == "separate" else 0.0)


def forward_flops(sizes: ModelSizes, tokens: float, length: float) -> float:
    """FLOP of a forward pass over sequences of this length.

    2 per weight and token, and 2 · layers · heads · head size · length per token of a causal sequence.
    """
    weights = sizes.decoder  # one matrix of embeddings: looking them up is free, and the output layer is not
    return tokens * (2.0 * weights + 2.0 * sizes.layers * sizes.heads * sizes.head_dim * length)


def hours_text(
    sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, panels: tuple[int, int] = (0, 0), gpus: int = 1
) -> str:
    """One line: the range of GPU hours on each kind of GPU, and how far such estimates were from measured runs.

    Args:
        sizes, settings, prompts, panels: as in ``hours``.
        gpus: GPUs that share the work.
    """
    ranges = ", ".join(
        f"{name} {range_text(hours(sizes, settings, prompts, gpu, panels))}" for name, gpu in GPUS.items()
    )
    clock = f", on the clock at least a {gpus}th of that" if gpus > 1 else ""
    return f"GPU hours: {ranges}{clock}, without the environments' own time; {HOURS_MEASURED}"


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
