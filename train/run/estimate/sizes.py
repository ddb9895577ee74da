"""Sizes of a language model of the Llama, Qwen2 or Qwen3 family, also with a vision tower, and the parameters that follow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

__all__ = ["BYTES", "FAMILIES", "KNOWN", "ModelSizes", "VisionSizes", "known_sizes"]

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
