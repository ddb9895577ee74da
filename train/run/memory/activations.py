"""Bytes that one micro-batch of an update, or one call of the sampler, holds temporarily: upper estimates.

Counted from the tensors that autograd stores in a block of the family, with attention that does not store its matrix (flash).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from creditflow.train.run.memory.sizes import ModelSizes

__all__ = [
    "NumberBytes",
    "block_bytes",
    "logits_bytes",
    "mask_bytes",
    "prefill_bytes",
    "sampling_bytes",
    "tower_bytes",
    "update_bytes",
]

FLOAT: Final = 4  # bytes of a float32
SORTED: Final = 2 * FLOAT + 8 + 3  # sorted float32 probabilities, their cumulative sums, int64 indices, three masks
LOGITS_COPIES: Final = 8  # float32 logits, scaled, log-softmax, its exponential, their product, and gradients


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
