"""Bytes that one micro-batch of an update, or one call of the sampler, holds for a while: upper estimates.

Counted from the tensors that autograd stores in a block of the family, with attention that does not store its matrix (flash).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from creditflow.train.run.memory.sizes import ModelSizes

__all__ = ["Types", "block_bytes", "logits_bytes", "prefill_bytes", "sampling_bytes", "update_bytes"]

FLOAT: Final = 4
SORTED: Final = 2 * FLOAT + 8 + 3  # float32 probabilities in order and their sums, int64 places, masks
LOGITS_COPIES: Final = 8  # float32 logits, scaled, log-softmax, its exponential, their product, and gradients


@dataclass(frozen=True, slots=True)
class Types:
    """Bytes per number.

    Attributes:
        weight: of the weights that are multiplied.
        stream: of the residual stream: under autocast it is that of the weights.
        product: of the results of matrix products.
        adapter: of the inputs of linear layers that an adapter converts for itself; 0 without.
    """

    weight: int
    stream: int
    product: int
    adapter: int


def block_bytes(sizes: ModelSizes, types: Types) -> int:
    """Bytes that autograd stores per token in one block."""
    hidden, queries = sizes.hidden, sizes.heads * sizes.head_dim
    # of a norm: its input, in float32 what is scaled (in a narrower stream once more), and the next layer's input
    norms = 2 * hidden * (types.stream + FLOAT + types.stream * (types.stream < FLOAT) + types.product)
    head_norms = (queries + sizes.kv_heads * sizes.head_dim) * (2 * FLOAT + types.product) * (sizes.family == "qwen3")
    # rotated queries, repeated keys and values, the result of attention, and the output projection's input
    attention = 5 * queries * types.product
    # gate, its activation, the other branch, and their product
    feed_forward = 4 * sizes.intermediate * types.product
    adapter = sum(inputs for inputs, _ in sizes.linear.values()) * types.adapter
    return norms + head_norms + attention + feed_forward + adapter


def update_bytes(sizes: ModelSizes, types: Types, tokens: int, *, checkpointing: bool) -> int:
    """Bytes of the activations of a forward and backward pass over so many tokens, logits apart.

    With gradient checkpointing every block stores its input, and one block at a time all of it, with gradients.
    """
    block = block_bytes(sizes, types)
    ends = 2 * sizes.hidden * (types.stream + FLOAT)
    stored = sizes.layers * sizes.hidden * types.stream + 2 * block if checkpointing else (sizes.layers + 1) * block
    return tokens * (stored + ends)


def logits_bytes(sizes: ModelSizes, types: Types, chunk: int, *, truncated: bool = False) -> int:
    """Bytes of the output layer's results, for a chunk of target tokens; truncation sorts them."""
    return chunk * sizes.vocabulary * (types.product + LOGITS_COPIES * FLOAT + SORTED * truncated)


def prefill_bytes(sizes: ModelSizes, types: Types, tokens: int) -> int:
    """Bytes of one block's forward pass over so many new tokens, without gradient."""
    queries = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim
    adapter = sizes.intermediate * types.adapter
    feed_forward = 3 * sizes.intermediate * types.product + adapter
    return tokens * (feed_forward + 2 * queries * types.product + 4 * sizes.hidden * FLOAT)


def sampling_bytes(sizes: ModelSizes, types: Types, rows: int, *, truncated: bool = False) -> int:
    """Bytes of the sampler's distributions, one per row: logits, log-probabilities, and float64 cumulative probabilities."""
    return rows * sizes.vocabulary * (types.product + 2 * FLOAT + 3 * 2 * FLOAT + 2 * SORTED * truncated)
