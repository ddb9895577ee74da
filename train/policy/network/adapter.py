"""The LoRA adapter of a trained policy: its start, its dropout in SFT, and the base as the reference policy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from creditflow.agents.models.lora import adapter_disabled, inject_adapter, lora_layers, require_peft
from creditflow.agents.models.vision import decoder_of
from creditflow.train.settings.model import LoraSettings

__all__ = ["BasePolicy", "add_adapter", "seeded_dropout", "stop_dropout"]


def add_adapter(model: Any, settings: LoraSettings, seed: int) -> None:
    """Put an untrained adapter into a model, in place: A is random by the seed, B is zero, so the model computes the same.

    Raises:
        MissingExtraError: peft is not installed.
        ConfigError: a target module is not a linear layer of the model.
    """
    require_peft()
    from peft import LoraConfig

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules),
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        inject_adapter(model, config)


def stop_dropout(model: Any) -> None:
    """Turn dropout off: a ratio of two forward passes with random masks is not 1 for equal policies."""
    for _, layer in lora_layers(model):
        for dropout in layer.lora_dropout.values():
            if isinstance(dropout, torch.nn.Dropout):
                dropout.p = 0.0


@contextlib.contextmanager
def seeded_dropout(model: Any, seed: Sequence[int]) -> Iterator[None]:
    """Seed the masks of dropout, so that a resumed run repeats them; without dropout nothing is drawn."""
    if not any(isinstance(module, torch.nn.Dropout) and module.p > 0.0 for module in model.modules()):
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)[0] >> 1))
        yield


class BasePolicy:
    """A policy without its adapter, as the reference policy: the same weights, no second copy.

    Args:
        model: the policy.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.training = False

    def parameters(self) -> Iterator[Any]:
        """The policy's parameters."""
        return iter(self._model.parameters())

    def train(self, mode: bool = True) -> BasePolicy:  # noqa: ARG002 - as torch.nn.Module.train
        """Do nothing: there is no dropout."""
        return self

    @property
    def config(self) -> Any:
        """The policy's configuration."""
        return self._model.config

    def set_attn_implementation(self, name: str) -> None:
        """Replace the policy's attention."""
        self._model.set_attn_implementation(name)

    def get_decoder(self) -> BasePolicy:
        """The decoder, run without adapter."""
        return self

    def get_output_embeddings(self) -> Any:
        """The output layer, which has no adapter."""
        return self._model.get_output_embeddings()

    def __call__(self, **inputs: Any) -> Any:
        """Run the decoder."""
        with adapter_disabled(self._model):
            return decoder_of(self._model)(**inputs)
