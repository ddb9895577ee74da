"""Does a model compute the same for packed sequences? Asked before training, with the kernels that the training will use."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.language_model.models.vision import has_vision
from creditflow.envs.errors import ConfigError
from creditflow.train.policy.network.precision import autocast
from creditflow.train.policy.packing.attention import REMEDY, PackedForest, packed_hidden
from creditflow.train.policy.packing.forest import Forest

__all__ = ["check_packing"]

EXACT, ROUGH = 1e-4, 0.05  # largest difference, of the largest hidden state: in float32, and in 16 bits
PROMPT: Final = 5


def check_packing(model: Any, precision: str = "none") -> None:
    """Compare packed sequences, which share a prompt, with the same ones alone; gives the model its packed attention.

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
    device, size = weight.device, model.config.vocab_size
    prompt = np.arange(PROMPT) % size
    sequences = [np.append(prompt, (7 * i + np.arange(1, 4)) % size) for i in range(3)] + [prompt[:3]]
    forest = Forest.of(sequences)
    trained = model.training
    model.eval()
    with torch.no_grad(), autocast(precision, device):
        ids, positions = (torch.from_numpy(one).to(device)[None] for one in (forest.ids, forest.positions))
        found = packed_hidden(decoder, ids, positions, PackedForest(forest, device))[0].float()
        gaps = [
            float((found[torch.from_numpy(places).to(device)] - _alone(decoder, sequence, device)).abs().max())
            for sequence, places in zip(sequences, forest.places, strict=True)
        ]
    gap = float(np.max(gaps))  # nan if one is
    model.train(trained)
    exact = precision == "none" and weight.dtype == torch.float32
    if not gap <= (EXACT if exact else ROUGH) * max(1.0, float(found.abs().max())):
        raise ConfigError(
            f"{type(model).__name__} computes something else for packed sequences (off by {gap:.2g}): {REMEDY}"
        )


def _alone(decoder: Any, sequence: NDArray[np.int64], device: Any) -> Any:
    """(L, hidden): the last hidden states of one sequence."""
    ids = torch.from_numpy(sequence).to(device)[None]
    return decoder(input_ids=ids, use_cache=False).last_hidden_state[0].float()
