"""Memory of a training run, estimated from its settings and the sizes of its model before anything is loaded.

Models are of the Llama, Qwen2 or Qwen3 family, also with a vision tower; their parameters follow from their sizes. Weights, gradients,
moments and the key-value cache are exact. Activations and logits are upper estimates, counted from the tensors that autograd stores
in a block, with attention that does not store its matrix (flash).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from creditflow.envs.errors import unknown_name_error
from creditflow.train.policy.packing.forest import KEYS_PER_TOKEN
from creditflow.train.settings.schema import TrainConfig

__all__ = [
    *("BYTES", "FAMILIES", "GB", "KNOWN", "Memory", "ModelSizes", "VisionSizes"),
    *("activation_bytes", "known_sizes", "memory_of", "memory_text"),
]

GB: Final = 1e9
GPUS: Final = (16, 24, 40, 48, 80, 141)  # nominal GB
USABLE: Final = 0.9  # the rest is CUDA's and the allocator's
CACHE_ROOM: Final = 1.25  # slots of the sampler's cache relative to its tokens (transformers_backend.py)
FLOAT: Final = 4  # bytes of a float32
SORTED: Final = 2 * FLOAT + 8 + 3  # sorted probabilities, their cumulative sums, int64 indices, three masks
MEASURED: Final = (
    "an upper bound: smollm2_sokoban took 3.3 GB on a CPU where this says 12, because its micro-batches were not full"
)
LOGITS_COPIES: Final = 8  # float32 logits, scaled, log-softmax, its exponential, their product, and gradients
BYTES: Final = {"float32": 4, "bfloat16": 2}  # of a number
FAMILIES: Final = {
    "llama": (False, False),
    "qwen2": (True, False),
    "qwen3": (False, True),
    "qwen2_5_vl": (True, False),
    "qwen3_vl": (False, True),
}  # biases of q, k, v; norms of q, k


@dataclass(frozen=True, slots=True)
class VisionSizes:
    """Sizes of a vision tower.

    Attributes:
        parameters: all of them, counted on the model.
        layers, hidden, intermediate: as in the model's configuration.
        patches: patches per token.
    """

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    patches: int


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Sizes of a model.

    Attributes:
        family: "llama", "qwen2", "qwen3", "qwen2_5_vl" or "qwen3_vl".
        hidden, layers, intermediate, vocabulary: as in the model's configuration.
        heads, kv_heads, head_dim: query heads, key-value heads, and the size of each.
        tied: whether input and output embeddings are one matrix.
        positions: longest sequence in tokens.
        vision: the vision tower; None without.
    """

    family: str
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

    @classmethod
    def of(cls, config: Any, vision_parameters: int = 0) -> Self | None:
        """Sizes in a configuration of ``transformers``, with the parameters of its vision tower; None for another family."""
        family = str(getattr(config, "model_type", ""))
        if family not in FAMILIES:
            return None
        tied, tower = bool(config.tie_word_embeddings), getattr(config, "vision_config", None)
        config = config.get_text_config()
        return cls(
            family,
            config.hidden_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.num_key_value_heads,
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            config.intermediate_size,
            config.vocab_size,
            tied,
            config.max_position_embeddings,
            None
            if tower is None
            else VisionSizes(
                vision_parameters, tower.depth, tower.hidden_size, tower.intermediate_size, tower.spatial_merge_size**2
            ),
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
    def block(self) -> int:
        """Parameters of one block."""
        bias, norm = FAMILIES[self.family]
        matrices = sum(inputs * outputs for inputs, outputs in self.linear.values())
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim if bias else 0
        return matrices + biases + 2 * self.hidden + (2 * self.head_dim if norm else 0)

    @property
    def decoder(self) -> int:
        """Parameters without output layer."""
        tower = 0 if self.vision is None else self.vision.parameters
        return tower + self.vocabulary * self.hidden + self.layers * self.block + self.hidden

    @property
    def parameters(self) -> int:
        """All parameters, a shared matrix once."""
        return self.decoder + (0 if self.tied else self.vocabulary * self.hidden)

    def adapter(self, rank: int, targets: Sequence[str]) -> int:
        """Parameters of a LoRA adapter on the linear layers of these names, in every block."""
        linear = self.linear
        return self.layers * sum(rank * sum(linear[name]) for name in targets if name in linear)


# config.json of each model on huggingface.co/Qwen, and of SmolLM2-135M in the folder where our recipes expect it; base and Instruct alike but for the longest sequence
KNOWN: Final = {
    "Qwen/Qwen2.5-0.5B": ModelSizes("qwen2", 896, 24, 14, 2, 64, 4864, 151936, True, 32768),
    "Qwen/Qwen2.5-1.5B": ModelSizes("qwen2", 1536, 28, 12, 2, 128, 8960, 151936, True, 32768),
    "Qwen/Qwen2.5-3B": ModelSizes("qwen2", 2048, 36, 16, 2, 128, 11008, 151936, True, 32768),
    "Qwen/Qwen2.5-7B": ModelSizes("qwen2", 3584, 28, 28, 4, 128, 18944, 152064, False, 32768),
    "Qwen/Qwen2.5-VL-3B": ModelSizes(
        "qwen2_5_vl", 2048, 36, 16, 2, 128, 11008, 151936, True, 128000, VisionSizes(668684288, 32, 1280, 3420, 4)
    ),
    "Qwen/Qwen2.5-VL-7B": ModelSizes(
        "qwen2_5_vl", 3584, 28, 28, 4, 128, 18944, 152064, False, 128000, VisionSizes(676550144, 32, 1280, 3420, 4)
    ),
    "Qwen/Qwen3-8B": ModelSizes("qwen3", 4096, 36, 32, 8, 128, 12288, 151936, False, 40960),
    "models/smollm2": ModelSizes("llama", 576, 30, 9, 3, 64, 1536, 49152, True, 8192),
}


def known_sizes(name: str) -> ModelSizes | None:
    """Sizes of a model by its name, without network; None if it is not known here."""
    return KNOWN.get(re.sub(r"-(Instruct|Base)$", "", name))


class Memory(NamedTuple):
    """Bytes on the device.

    Attributes:
        held: what stays: weights, gradients, moments, a reference, a critic, and the sampler's own weights.
        update: what an update adds.
        rollout: what a rollout adds.
        peak: the most that is held at the same time.
    """

    held: int
    update: int
    rollout: int
    peak: int


def memory_of(sizes: ModelSizes, settings: TrainConfig, *, gpu_gb: int = 80, longest: int = 0) -> Memory:
    """Bytes on the device.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        gpu_gb: the GPU's size in GB, of which vLLM takes a fraction.
        longest: tokens of the longest prompt with its completion, where ``prompting.max_context`` sets no limit; 0: as the model's.

    Raises:
        ConfigError: LoRA names a layer that the model lacks.
    """
    model, rollout, update, lora = settings.model, settings.rollout, settings.update, settings.model.lora
    for target in lora.target_modules if lora.rank else ():
        if target not in sizes.linear:
            raise unknown_name_error(f"linear layer of {sizes.family}", target, sorted(sizes.linear))
    base = BYTES[lora.base_dtype] if lora.rank else FLOAT
    adapter = sizes.adapter(lora.rank, lora.target_modules)
    sampled = base if rollout.dtype == "same" else BYTES[rollout.dtype]
    context = settings.prompting.max_context or min(longest or sizes.positions, sizes.positions)

    def trained(parameters: int) -> int:
        """Weights with gradients and two moments, all in float32; of frozen weights only the adapter has these."""
        return parameters * base + 16 * adapter if lora.rank else 16 * parameters

    held = trained(sizes.parameters)
    if settings.critic.kind == "separate":
        held += trained(sizes.decoder)
    if update.loss.kl_weight and not lora.rank:  # the frozen weights are an adapter's reference
        held += sizes.parameters * FLOAT

    cast = model.autocast == "bfloat16"
    product = BYTES["bfloat16"] if cast else base
    converted = 0  # inputs that an adapter keeps in its own type
    if lora.rank and product < FLOAT:
        converted = product if cast else FLOAT
    tokens = max(update.batch_tokens, context)
    truncated = settings.truncation is not None
    chunk = min(update.logits_chunk, tokens)
    updating = chunk * sizes.vocabulary * (product + LOGITS_COPIES * FLOAT + SORTED * truncated)
    updating += 2 * sizes.parameters if cast and base == FLOAT else 0  # the weights that autocast keeps
    updating += activation_bytes(
        sizes, tokens, base=base, product=product, converted=converted, checkpointing=model.gradient_checkpointing,
        packed=update.packing == "packed",
    )  # fmt: skip
    if sizes.vision is not None:
        pictured = tokens * max(0, context - rollout.max_new_tokens) // context
        updating += pictured * _tower_bytes(sizes.vision, base, product, checkpointing=model.gradient_checkpointing)

    vllm, asleep = settings.generation.backend == "vllm", settings.generation.vllm.sleep
    merged = bool(lora.rank) and base == FLOAT
    copies = int(sampled != base or vllm or merged)
    copy = copies * (sizes.parameters + adapter) * sampled
    if vllm:
        engine = settings.generation.vllm
        cache = int(engine.kv_gib * 2**30) if engine.kv_gib else max(0, int(engine.memory * gpu_gb * GB) - copy)
        held, rolling = (held, copy + cache) if asleep else (held + copy + cache, 0)
    else:
        held += copy
        rolling = _sampling_bytes(sizes, settings, context, sampled)
    return Memory(held, updating, rolling, held + max(updating, rolling))


def activation_bytes(
    sizes: ModelSizes, tokens: int, *, base: int, product: int, converted: int = 0, checkpointing: bool, packed: bool
) -> int:
    """Bytes of the activations of a forward and backward pass over ``tokens`` tokens, without logits.

    With gradient checkpointing every block stores its input, and one block at a time all its activations with their gradients.

    Args:
        sizes: sizes of the model.
        tokens: tokens of a micro-batch.
        base: bytes of a number of the weights, and of the residual stream.
        product: bytes of a number that a matrix product gives.
        converted: bytes of a number of those inputs that an adapter converts for itself.
        checkpointing: whether activations are recomputed.
        packed: whether rows share prefixes, for which keys and values are gathered.
    """
    hidden, queries, keys = sizes.hidden, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    # two norms: the input, the normalised input in float32 (and as the residual if narrower), and the next layer's input
    block = 2 * hidden * (base + FLOAT + base * (base < FLOAT) + product)
    if sizes.family.startswith("qwen3"):  # which normalises queries and keys
        block += (queries + keys) * (2 * FLOAT + product)
    # rotated queries, repeated keys and values, attention's result and the output projection's input; gate, activation, up, product
    block += (5 * queries + 4 * sizes.intermediate) * product
    block += sum(inputs for inputs, _ in sizes.linear.values()) * converted
    block += 2 * KEYS_PER_TOKEN * keys * product * packed
    ends = 2 * hidden * (base + FLOAT)
    stored = sizes.layers * hidden * base + 2 * block if checkpointing else (sizes.layers + 1) * block
    return tokens * (stored + ends)


def _tower_bytes(tower: VisionSizes, base: int, product: int, *, checkpointing: bool) -> int:
    """Bytes of the vision tower's activations for one token of a picture."""
    # norms; rotated queries and keys, values and attention's result; gate, activation, up and their product
    block = 2 * tower.hidden * (base + FLOAT) + (6 * tower.hidden + 4 * tower.intermediate) * product
    stored = tower.layers * tower.hidden * base + 2 * block if checkpointing else tower.layers * block
    return tower.patches * stored


def _sampling_bytes(sizes: ModelSizes, settings: TrainConfig, context: int, sampled: int) -> int:
    """Bytes of the key-value cache, of a block's pass over new prompts with their mask, and of the distributions sampled from."""
    rollout, lora = settings.rollout, settings.model.lora
    rows = rollout.concurrent_episodes
    new = context - rollout.max_new_tokens
    turns = rollout.max_turns or settings.env.options.get("max_steps", 1)
    if settings.prompting.history == "append" and isinstance(turns, int) and turns > 1:
        new = -(-new // turns)  # a conversation reads a turn's part
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    cache = rows * int(context * CACHE_ROOM) * 2 * sizes.layers * keys * sampled
    prompt = (3 * sizes.intermediate + 2 * (queries + 2 * keys)) * sampled + 4 * sizes.hidden * FLOAT
    prompt += sizes.intermediate * FLOAT * bool(lora.rank and sampled < FLOAT)
    mask = context  # a byte for each token that a new one may see
    # logits, log-probabilities, and three arrays of float64 with cumulative probabilities
    distribution = sizes.vocabulary * (
        sampled + 2 * FLOAT + 3 * 2 * FLOAT + 2 * SORTED * (settings.truncation is not None)
    )
    return cache + rows * (new * (prompt + mask) + distribution)


def memory_text(sizes: ModelSizes, settings: TrainConfig, *, gpus: int = 1, longest: int = 0) -> str:
    """One line: what a run holds at most on each of its GPUs, and how far an estimate was from a measured run.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        gpus: GPUs that share what is always held, as verl's do.
        longest: as in ``memory_of``.
    """
    memory = memory_of(sizes, settings, longest=longest)
    peak = memory.peak - memory.held + memory.held / gpus
    fits = ""
    if settings.device != "cpu":
        smallest = next((f"one of {size} GB" for size in GPUS if peak <= USABLE * size * GB), "none")
        each = f"each of {gpus} GPUs" if gpus > 1 else "a GPU"
        fits = f" on {each} (fits: {smallest}; vLLM's cache as on 80 GB)"
    terms = ", ".join(
        f"{name} {_gigabytes(value)}" for name, value in zip(("held", "update", "rollout"), memory, strict=False)
    )
    return f"memory: {_gigabytes(peak)} GB at the peak{fits}, in all {terms}; {MEASURED}"


def _gigabytes(size: float) -> str:
    """Two significant digits, and no exponent."""
    return f"{size / GB:.2g}" if size < 99.5 * GB else f"{size / GB:,.0f}"
