"""The attention of packed micro-batches, registered with ``transformers`` under a name of its own.

A model that has it computes as with ``sdpa`` (``torch``'s scaled dot-product attention, or what the sampler puts in its place)
unless a forward pass names a forest, so sampling and padded micro-batches do not change. The forest is an argument of the pass, not a state of the model: gradient
checkpointing, which repeats layers in the backward pass, repeats them with the same one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from creditflow.agents.models.vision import has_vision
from creditflow.envs.errors import ConfigError
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.packing.forest import Forest
from creditflow.train.policy.packing.fused import Paths, fused_attention, fused_kernel
from creditflow.train.policy.packing.portable import Layout, portable_attention

__all__ = ["NAME", "REMEDY", "PackedForest", "attend_by_forest", "check_packing", "packed_hidden"]

NAME: Final = "creditflow_forest"
UNKNOWN: Final = ("sliding_window", "softcap", "s_aux", "position_bias")  # arguments of other models' attention
REMEDY: Final = "use update.packing=padded"


class PackedForest:
    """A forest with its indices on a device, made when the first layer needs them and kept for the others.

    Args:
        forest: the tokens of a micro-batch.
        device: where its forward pass runs.
    """

    def __init__(self, forest: Forest, device: Any) -> None:
        self.forest, self.device = forest, device

    @cached_property
    def layout(self) -> Layout:
        """Segments as ``portable_attention`` runs them."""
        return Layout.of(self.forest, self.device)

    @cached_property
    def paths(self) -> Paths:
        """Segments as ``fused_attention`` runs them."""
        return Paths.of(self.forest, self.device)


def attend_by_forest(model: Any) -> None:
    """Give a model of ``transformers`` the attention of packed micro-batches, in place; nothing else changes.

    Raises:
        ConfigError: a family of models whose attention cannot be replaced.
    """
    if model.config._attn_implementation == NAME:
        return
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation != NAME:
        raise ConfigError(f"{type(model).__name__} has an attention that cannot be replaced: {REMEDY}")


def packed_hidden(decoder: Any, ids: Any, positions: Any, packed: PackedForest) -> Any:
    """The last hidden states (1, T, hidden) of a forest's tokens; ids and positions int64 (1, T)."""
    attend_by_forest(decoder)
    # a mask with four dimensions is passed on as it is; without one the library makes its own, T × T
    no_mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=ids.device)
    return decoder(
        input_ids=ids, attention_mask=no_mask, position_ids=positions, use_cache=False, forest=packed
    ).last_hidden_state


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    forest: PackedForest | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Any, None]:
    """Attention of one layer, as ``transformers`` calls it: query (1, H, T, D), key and value (1, H_kv, T, D); (1, T, H, D)."""
    if forest is None:
        sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]  # looked up in every call: the sampler replaces it while it samples
        usual: tuple[Any, None] = sdpa(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
        return usual
    unknown = [name for name in UNKNOWN if options.get(name) is not None] + (["dropout"] if dropout else [])
    if unknown:
        raise ConfigError(f"packed micro-batches have no attention with {unknown[0]}, which this model has: {REMEDY}")
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else value.dtype
    q, k, v = (states[0].transpose(0, 1).to(dtype) for states in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    if kernel := fused_kernel(q):
        return fused_attention(q, k, v, forest.paths, scale, kernel)[None], None
    return portable_attention(q, k, v, forest.layout, scale)[None], None


EXACT: Final = 1e-4  # largest difference in float32, of the largest hidden state
ROUNDING: Final = 2.0  # largest error of packed sequences in 16 bits, of the error of the same ones alone
PROMPT: Final = 5


def check_packing(model: Any, precision: str = "none") -> None:
    """Compare packed sequences, which share a prompt, with the same ones alone; gives the model its packed attention.

    In 16 bits the two round differently, and hidden states may be large, so the error of both against float32 is compared.

    Args:
        model: a causal language model of ``transformers``.
        precision: autocast of the training's forward passes.

    Raises:
        ConfigError: a family of models whose attention is not the plain one that packed micro-batches have.
    """
    if has_vision(model):
        raise ConfigError(f"{type(model).__name__} reads pictures, and rows with pictures cannot be packed: {REMEDY}")
    decoder = model.get_decoder()
    weight = next(decoder.parameters())
    device = weight.device
    sequences = _probes(model.config.vocab_size)
    forest = Forest.of(sequences)
    trained = model.training
    model.eval()
    with torch.no_grad():
        with autocast(precision, device):
            ids, positions = (torch.from_numpy(array).to(device)[None] for array in (forest.ids, forest.positions))
            hidden = packed_hidden(decoder, ids, positions, PackedForest(forest, device))[0].float()
            packed = [hidden[torch.from_numpy(places).to(device)] for places in forest.places]
            alone = [_alone(decoder, sequence, device) for sequence in sequences]
        if precision == "none" and weight.dtype == torch.float32:
            allowed = EXACT * max(1.0, float(hidden.abs().max()))
            gap = _largest(packed, alone)
        else:
            exact = decoder if weight.dtype == torch.float32 else copy.deepcopy(decoder).float()
            reference = [_alone(exact, sequence, device) for sequence in sequences]
            allowed = ROUNDING * _largest(alone, reference) + EXACT * max(1.0, float(hidden.abs().max()))
            gap = _largest(packed, reference)
    model.train(trained)
    if not gap <= allowed:  # also nan
        raise ConfigError(
            f"{type(model).__name__} computes other values for packed sequences (off by {gap:.2g}, {allowed:.2g} is "
            f"rounding): {REMEDY}"
        )


def _probes(size: int) -> list[NDArray[np.int64]]:
    """Sequences of ordinary tokens, which share a prompt: special ones, at both ends of a vocabulary, may be untrained."""
    ids = size // 4 + np.arange(1, PROMPT + 10) * 7919 % max(size // 2, 1)
    prompt = ids[:PROMPT]
    return [np.append(prompt, ids[PROMPT + 3 * i : PROMPT + 3 * i + 3]) for i in range(3)] + [prompt[:3]]


def _largest(states: Sequence[Any], references: Sequence[Any]) -> float:
    """The largest difference between hidden states; nan if one is."""
    return float(np.max([float((a - b).abs().max()) for a, b in zip(states, references, strict=True)]))


def _alone(decoder: Any, sequence: NDArray[np.int64], device: Any) -> Any:
    """(L, hidden): the last hidden states of one sequence."""
    ids = torch.from_numpy(sequence).to(device)[None]
    return decoder(input_ids=ids, use_cache=False).last_hidden_state[0].float()
