"""The memory table of a dry run: what the GPU of a training run holds.

Weights, gradients, moments and the key-value cache (with its room to grow, or what vLLM takes) are exact, from the sizes of the model.
Activations and logits are upper estimates. The peak is what is always held plus the larger of what an update and what a rollout add, or, with
rollouts ahead of the update, which overlap with it, plus both. An evaluation plays no more episodes at the same time than a rollout.
The memory that CUDA and its allocator reserve is not included.

The bytes that one micro-batch of an update, or one call of the sampler, holds temporarily are upper estimates.
They are counted from the tensors that autograd stores in a block of the family, with attention that does not store its
matrix (flash).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.envs.errors import unknown_name_error
from creditflow.train.policy.packing.forest import KEYS_PER_TOKEN
from creditflow.train.run.estimate.sizes import BYTES, ModelSizes
from creditflow.train.settings.schema import TrainConfig
from creditflow.train.text_table import text_table

__all__ = [
    "Memory",
    "NumberBytes",
    "block_bytes",
    "logits_bytes",
    "mask_bytes",
    "memory_of",
    "memory_table",
    "prefill_bytes",
    "sampling_bytes",
    "update_bytes",
]

GB: Final = 1e9
GPUS: Final = (16, 24, 40, 48, 80, 141)  # nominal GB
CACHE_ROOM: Final = (
    1.25  # slots of the sampler's cache relative to its tokens (agents/backends/transformers_backend.py)
)
USABLE: Final = 0.9  # the rest is CUDA's and the allocator's
VLLM_GPUS: Final = (24, 48, 80, 141)  # those of a table with vLLM, which takes a fraction of each
FLOAT: Final = 4  # bytes of a float32
SORTED: Final = 2 * FLOAT + 8 + 3  # sorted float32 probabilities, their cumulative sums, int64 indices, three masks
LOGITS_COPIES: Final = 8  # float32 logits, scaled, log-softmax, its exponential, their product, and gradients


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the GPU.

    Attributes:
        weights, gradients, moments: of the policy, with its adapter.
        reference, critic: the reference policy; a separate critic with gradients and moments.
        sampler: the sampler's own weights.
        casts: weights in bfloat16 that autocast keeps during a pass.
        checkpointed, stored: activations with and without gradient checkpointing; with a vision tower, those of pictures in all
            prompt tokens.
        logits: results of the output layer in an update.
        cache, prefill: the sampler's key-value cache, with vLLM all that it takes beside weights; its pass over prompts with their
            mask, and its distributions.
        checkpointing: whether the run recomputes activations.
        overlapping: whether rollouts run during updates.
        engine: whether vLLM samples, and whether it is "awake" or "asleep" (without memory) during updates.
    """

    weights: int
    gradients: int
    moments: int
    reference: int
    critic: int
    sampler: int
    casts: int
    checkpointed: int
    stored: int
    logits: int
    cache: int
    prefill: int
    checkpointing: bool
    overlapping: bool = False
    engine: Literal["none", "awake", "asleep"] = "none"

    @property
    def permanent(self) -> int:
        """Bytes that are always held."""
        trained = self.weights + self.gradients + self.moments + self.reference + self.critic
        return trained + self.sampler * (self.engine != "asleep") + self.cache * (self.engine == "awake")

    @property
    def update(self) -> int:
        """Bytes that an update adds."""
        return self.casts + (self.checkpointed if self.checkpointing else self.stored) + self.logits

    @property
    def rollout(self) -> int:
        """Bytes that a rollout adds."""
        return self.prefill + self.cache * (self.engine != "awake") + self.sampler * (self.engine == "asleep")

    @property
    def peak(self) -> int:
        """Largest number of bytes held at once."""
        return self.permanent + (sum if self.overlapping else max)((self.update, self.rollout))


def memory_of(sizes: ModelSizes, settings: TrainConfig, gpu_gb: int = 0, *, longest: int = 0) -> Memory:
    """Bytes on the GPU.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        gpu_gb: the GPU's size in GB, of which vLLM takes a fraction.
        longest: tokens of the longest prompt with its completion, where ``prompting.max_context`` sets no limit; 0: as the model's.
    """
    model, rollout, lora = settings.model, settings.rollout, settings.model.lora
    check_targets(sizes, settings)
    base = BYTES[lora.base_dtype] if lora.rank else BYTES["float32"]
    adapter = sizes.adapter(lora.rank, lora.target_modules)
    trained = adapter if lora.rank else sizes.parameters
    cast = model.autocast == "bfloat16"
    product = BYTES["bfloat16"] if cast else base
    converted = 0
    if lora.rank and product != BYTES["float32"]:
        converted = product if cast else BYTES["float32"]
    types = NumberBytes(base, base, product, converted)
    weights = sizes.parameters * base + (adapter * BYTES["float32"] if lora.rank else 0)
    sampled = base if rollout.dtype == "same" else BYTES[rollout.dtype]
    vllm = settings.generation.backend == "vllm"
    merged = bool(lora.rank) and base == BYTES["float32"]
    copies = int(sampled != base or vllm or merged) + (0 if vllm else rollout.max_staleness)
    critic = 0
    if settings.critic.kind == "separate":
        of_critic = sizes.adapter(lora.rank, lora.target_modules) if lora.rank else sizes.decoder
        critic = sizes.decoder * base + (of_critic * 4 if lora.rank else 0) + of_critic * 12
    context = settings.prompting.max_context or min(longest or sizes.positions, sizes.positions)
    rows = rollout.concurrent_episodes
    per_token = 2 * sizes.layers * sizes.kv_heads * sizes.head_dim * sampled
    truncated = settings.truncation is not None
    tokens = max(settings.update.batch_tokens, context)
    gathered = KEYS_PER_TOKEN if settings.update.packing == "packed" else 0
    sampler_bytes = NumberBytes(sampled, sampled, sampled, 4 if lora.rank and sampled < 4 else 0)
    of_sampler = copies * (sizes.parameters + adapter) * sampled
    new = _new_tokens(settings, context)
    pictured = tokens * (context - min(rollout.max_new_tokens, context)) // context
    return Memory(
        weights=weights,
        gradients=trained * 4,
        moments=trained * 8,
        reference=_reference_bytes(sizes, settings),
        critic=critic,
        sampler=of_sampler,
        casts=2 * sizes.parameters if cast and base > BYTES["bfloat16"] else 0,
        checkpointed=update_bytes(sizes, types, tokens, checkpointing=True, gathered=gathered)
        + tower_bytes(sizes, types, pictured, checkpointing=True),
        stored=update_bytes(sizes, types, tokens, checkpointing=False, gathered=gathered)
        + tower_bytes(sizes, types, pictured, checkpointing=False),
        logits=logits_bytes(sizes, types, min(settings.update.logits_chunk, tokens), truncated=truncated),
        cache=_vllm_bytes(settings.generation.vllm, gpu_gb, of_sampler) if vllm
        else rows * int(context * CACHE_ROOM) * per_token,
        prefill=0 if vllm
        else prefill_bytes(sizes, sampler_bytes, rows * new) + mask_bytes(rows, new, context)
        + sampling_bytes(sizes, sampler_bytes, rows, truncated=truncated),
        checkpointing=model.gradient_checkpointing,
        overlapping=bool(rollout.max_staleness),
        engine=_engine(settings),
    )  # fmt: skip


def _reference_bytes(sizes: ModelSizes, settings: TrainConfig) -> int:
    loss = settings.update.loss
    if not loss.kl_weight or settings.model.lora.rank:
        return 0
    return sizes.parameters * BYTES["float32" if loss.reference_dtype == "same" else loss.reference_dtype]


def _engine(settings: TrainConfig) -> Literal["none", "awake", "asleep"]:
    if settings.generation.backend != "vllm":
        return "none"
    return "asleep" if settings.generation.vllm.sleep else "awake"


def _vllm_bytes(vllm: VllmConfig, gpu_gb: int, weights: int) -> int:
    """What vLLM takes beside its weights: a cache of the given size, or what they leave of its fraction of the GPU."""
    if vllm.kv_gib:
        return int(vllm.kv_gib * 2**30)
    return max(0, int(vllm.memory * gpu_gb * GB) - weights)


def check_targets(sizes: ModelSizes, settings: TrainConfig) -> None:
    """Raise ConfigError if a layer that LoRA names is not one of the model's."""
    for target in settings.model.lora.target_modules if settings.model.lora.rank else ():
        if target not in sizes.linear:
            raise unknown_name_error(f"linear layer of {sizes.family}", target, sorted(sizes.linear))


def _new_tokens(settings: TrainConfig, context: int) -> int:
    """Tokens of one row that a call of the sampler has not seen: a windowed prompt, or a turn's part of a conversation."""
    prompt = context - settings.rollout.max_new_tokens
    turns = settings.rollout.max_turns or settings.env.options.get("max_steps", 1)
    whole = settings.prompting.history == "window" or not isinstance(turns, int) or turns < 1
    return prompt if whole else -(-prompt // turns)


def memory_table(sizes: ModelSizes, settings: TrainConfig, *, longest: int = 0) -> str:
    """The table, in GB of 10⁹ bytes; ``longest`` as in ``memory_of``."""
    gpus = VLLM_GPUS if settings.generation.backend == "vllm" else (0,)
    found = [memory_of(sizes, settings, gb, longest=longest) for gb in gpus]
    kept = {True: "activations, checkpointed", False: "activations, all stored"}
    names = {
        "weights": "weights", "gradients": "gradients", "moments": "optimiser states", "reference": "reference policy",
        "critic": "critic", "sampler": "sampler's weights", "casts": "autocast weights",
        "checkpointed": kept[True], "stored": kept[False],
        "logits": "logits", "cache": "KV cache", "prefill": "prompts, sampling",
    }  # fmt: skip
    other = "stored" if found[0].checkpointing else "checkpointed"
    phases = {"casts": "update", "checkpointed": "update", "stored": "update", "logits": "update",
              "cache": "rollout", "prefill": "rollout"}  # fmt: skip
    if found[0].engine != "none":
        vllm = settings.generation.vllm
        size = f"{vllm.kv_gib} GiB" if vllm.kv_gib else f"{vllm.memory:.0%} with the weights"
        names["cache"] = f"vLLM's cache, {size}"
        phases |= {"cache": "always"} if found[0].engine == "awake" else {"sampler": "rollout"}
    rows = [["GB on the GPU", *(f"of {gb}" if gb else "" for gb in gpus), ""]]
    for name, title in names.items():
        values = [getattr(one, name) for one in found]
        if any(values):
            note = _other_setting(found[0]) if name == other else phases.get(name, "always")
            rows.append([title, *(f"{value / GB:.2f}" for value in values), note])
    rule = len(rows) - 1
    added = "update + rollout" if found[0].overlapping else "the larger of update and rollout"
    rows.append(["peak", *(f"{one.peak / GB:.2f}" for one in found), f"always + {added}"])
    if gpus[0]:
        fits = [one.peak <= USABLE * gb * GB for one, gb in zip(found, gpus, strict=True)]
        rows.append(["fits", *("yes" if fit else "no" for fit in fits), ""])
    else:
        rows.append(["fits a GPU of", *map(_smallest_gpu, found), ""])
    return text_table(rows, rule)


def _other_setting(memory: Memory) -> str:
    return f"with gradient_checkpointing: {str(not memory.checkpointing).lower()}"


def _smallest_gpu(memory: Memory) -> str:
    return next((f"{size} GB" for size in GPUS if memory.peak <= USABLE * size * GB), "none")


@dataclass(frozen=True, slots=True)
class NumberBytes:
    """Bytes per number.

    Attributes:
        weight: of the weights.
        residual: of the residual stream; under autocast it has the type of the weights.
        product: of the results of matrix products.
        adapter: of the inputs of linear layers that an adapter converts for itself; 0 without.
    """

    weight: int
    residual: int
    product: int
    adapter: int


def block_bytes(sizes: ModelSizes, types: NumberBytes) -> int:
    """Bytes that autograd stores per token in one block."""
    hidden, queries = sizes.hidden, sizes.heads * sizes.head_dim
    # two norms: the input, the normalised input in float32 (and in the residual's type if narrower), and the next layer's input
    norms = 2 * hidden * (types.residual + FLOAT + types.residual * (types.residual < FLOAT) + types.product)
    head_norms = (
        (queries + sizes.kv_heads * sizes.head_dim) * (2 * FLOAT + types.product) * (sizes.family.startswith("qwen3"))
    )
    # rotated queries, repeated keys and values, the result of attention, and the output projection's input
    attention = 5 * queries * types.product
    # gate projection, its activation, up projection, and their product
    feed_forward = 4 * sizes.intermediate * types.product
    adapter = sum(inputs for inputs, _ in sizes.linear.values()) * types.adapter
    return norms + head_norms + attention + feed_forward + adapter


def update_bytes(sizes: ModelSizes, types: NumberBytes, tokens: int, *, checkpointing: bool, gathered: int = 0) -> int:
    """Bytes of the activations of a forward and backward pass over ``tokens`` tokens, without the logits.

    With gradient checkpointing every block stores its input, and one block at a time stores all activations, with their gradients.

    Args:
        sizes: sizes of the model.
        types: bytes per number.
        tokens: tokens of the micro-batch that are computed.
        checkpointing: whether activations are recomputed.
        gathered: keys and values per token that packed rows with common prefixes gather for the kernels of CUDA, at most.
    """
    block = block_bytes(sizes, types) + gathered * 2 * sizes.kv_heads * sizes.head_dim * types.product
    ends = 2 * sizes.hidden * (types.residual + FLOAT)
    stored = sizes.layers * sizes.hidden * types.residual + 2 * block if checkpointing else (sizes.layers + 1) * block
    return tokens * (stored + ends)


def tower_bytes(sizes: ModelSizes, types: NumberBytes, tokens: int, *, checkpointing: bool) -> int:
    """Bytes of the activations of the vision tower for pictures of ``tokens`` tokens; 0 without a tower."""
    tower = sizes.vision
    if tower is None:
        return 0
    # norms, rotated queries and keys, values, the result of attention; gate, its activation, up, and their product
    block = 2 * tower.hidden * (types.residual + FLOAT) + (6 * tower.hidden + 4 * tower.intermediate) * types.product
    kept = tower.layers * tower.hidden * types.residual + 2 * block if checkpointing else tower.layers * block
    return tokens * tower.patches * kept


def logits_bytes(sizes: ModelSizes, types: NumberBytes, chunk: int, *, truncated: bool = False) -> int:
    """Bytes of the output layer's results, for a chunk of target tokens; truncation sorts them."""
    return chunk * sizes.vocabulary * (types.product + LOGITS_COPIES * FLOAT + SORTED * truncated)


def prefill_bytes(sizes: ModelSizes, types: NumberBytes, tokens: int) -> int:
    """Bytes of one block's forward pass over ``tokens`` new tokens, without gradient."""
    queries = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim
    adapter = sizes.intermediate * types.adapter
    feed_forward = 3 * sizes.intermediate * types.product + adapter
    return tokens * (feed_forward + 2 * queries * types.product + 4 * sizes.hidden * FLOAT)


def mask_bytes(rows: int, tokens: int, context: int) -> int:
    """Bytes of the attention mask of a call of the sampler: whether each of a row's new tokens sees each token of its context."""
    return rows * tokens * context


def sampling_bytes(sizes: ModelSizes, types: NumberBytes, rows: int, *, truncated: bool = False) -> int:
    """Bytes of the sampler's distributions, one per row: logits, log-probabilities, and float64 cumulative probabilities."""
    return rows * sizes.vocabulary * (types.product + 2 * FLOAT + 3 * 2 * FLOAT + 2 * SORTED * truncated)
