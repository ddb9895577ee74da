"""Settings of the trained network: a Hugging Face model, or a new one. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from creditflow.envs.errors import ConfigError

__all__ = ["SPECIAL", "ModelConfig", "ScratchConfig"]

SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")


@dataclass(frozen=True, kw_only=True)
class ScratchConfig:
    """A small model with random weights.

    Attributes:
        architecture: "qwen2" or "qwen3".
        hidden, layers, heads, kv_heads, intermediate: sizes; ``heads`` divides ``hidden``, ``kv_heads`` ``heads``.
        vocabulary: at most this many tokens, the 256 bytes and 5 special ones included.
        pattern: regular expression of the pieces that are tokenized separately; no token spans two of them. "" splits
            as the GPT-2 tokenizer does.
        positions: maximum sequence length.
        tied: whether input and output embeddings are one matrix.
        init: standard deviation of the initial weights. The families' 0.02 suits thousands of dimensions; small models
            learn faster from about 1 / √hidden.
    """

    architecture: Literal["qwen2", "qwen3"] = "qwen2"
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    intermediate: int = 384
    vocabulary: int = 320
    pattern: str = ""
    positions: int = 1024
    tied: bool = True
    init: float = 0.02

    def __post_init__(self) -> None:
        if self.hidden % self.heads or self.heads % self.kv_heads or (self.hidden // self.heads) % 2:
            raise ConfigError(
                "model.scratch: heads must divide hidden into an even size, and kv_heads must divide heads; got "
                f"hidden={self.hidden}, heads={self.heads}, kv_heads={self.kv_heads}"
            )
        if self.vocabulary < 256 + len(SPECIAL):
            raise ConfigError(f"model.scratch.vocabulary must be at least {256 + len(SPECIAL)}, got {self.vocabulary}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The policy's network.

    Attributes:
        path: folder or name of a Hugging Face model; "" builds one from ``scratch``.
        scratch: settings of a new model.
        gradient_checkpointing: recompute activations in the backward pass.
        autocast: "none", or "bfloat16" for forward passes over fp32 master weights.
    """

    path: str = ""
    scratch: ScratchConfig = field(default_factory=ScratchConfig)
    gradient_checkpointing: bool = False
    autocast: Literal["none", "bfloat16"] = "none"
