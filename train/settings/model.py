"""Settings of the trained network: a Hugging Face model, or a new one. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least

__all__ = ["SPECIAL", "LoraSettings", "ModelConfig", "ScratchConfig"]

SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")


@dataclass(frozen=True, kw_only=True)
class ScratchConfig:
    """A small model with random weights.

    Attributes:
        architecture: "qwen2" or "qwen3".
        hidden: width; a multiple of ``heads``.
        layers: number of layers.
        heads: number of attention heads; a multiple of ``kv_heads``.
        kv_heads: number of key-value heads.
        intermediate: width of the feed-forward layers.
        vocabulary: maximum number of tokens, including the 256 bytes and 5 special ones.
        pattern: regular expression for the pieces that are tokenized separately; no token spans two pieces. "" splits
            like the GPT-2 tokenizer.
        positions: maximum sequence length.
        tied: share one matrix between input and output embeddings.
        init: standard deviation of the initial weights. The usual 0.02 suits widths of thousands; small models learn
            faster with about 1 / √hidden.
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
        require_at_least(self, 1, "hidden", "layers", "heads", "kv_heads", "intermediate", "positions")
        if not self.init > 0.0:
            raise ConfigError(f"init must be positive, got {self.init}")
        if self.hidden % self.heads or self.heads % self.kv_heads or (self.hidden // self.heads) % 2:
            raise ConfigError(
                "model.scratch: heads must divide hidden into an even size, and kv_heads must divide heads; got "
                f"hidden={self.hidden}, heads={self.heads}, kv_heads={self.kv_heads}"
            )
        if self.vocabulary < 256 + len(SPECIAL):
            raise ConfigError(f"model.scratch.vocabulary must be at least {256 + len(SPECIAL)}, got {self.vocabulary}")


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """A LoRA adapter: low-rank updates of some layers are trained, and the base is frozen.

    Attributes:
        rank: rank of the updates; 0 trains all weights.
        alpha: the update is multiplied by alpha / rank.
        dropout: dropout on the adapter's input in SFT; the policy update uses none.
        target_modules: names of the linear layers to adapt.
        base_dtype: dtype of the frozen base. In bfloat16 it takes half the memory and the sampler needs no copy of it.
            The adapter is always float32.
    """

    rank: int = 0
    alpha: float = 32.0
    dropout: float = 0.0
    target_modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    base_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if self.rank < 0 or not self.alpha > 0.0 or not 0.0 <= self.dropout < 1.0 or not self.target_modules:
            raise ConfigError(
                "model.lora: rank must not be negative, alpha be positive, dropout lie in [0, 1) and target_modules name layers; "
                f"got {self.rank}, {self.alpha}, {self.dropout}, {list(self.target_modules)}"
            )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The policy network.

    Attributes:
        path: folder or name of a Hugging Face model; "" builds one from ``scratch``.
        scratch: settings of a new model.
        lora: settings of a LoRA adapter.
        gradient_checkpointing: recompute activations in the backward pass.
        autocast: "none", or "bfloat16" for forward passes over float32 weights.
        freeze_vision: do not train the vision tower of a vision-language model.
    """

    path: str = ""
    scratch: ScratchConfig = field(default_factory=ScratchConfig)
    lora: LoraSettings = field(default_factory=LoraSettings)
    gradient_checkpointing: bool = False
    autocast: Literal["none", "bfloat16"] = "none"
    freeze_vision: bool = False

    def __post_init__(self) -> None:
        if self.lora.rank and not self.path:
            raise ConfigError(
                "model.lora adapts a pretrained model: set model.path; a model from scratch is trained whole"
            )
