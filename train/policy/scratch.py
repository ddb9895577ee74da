"""A small language model and its tokenizer made from nothing: no hub, no download.

The model is a Qwen2 or Qwen3 of ``transformers``, so everything that opens those opens it; the tokenizer is a
byte-level BPE trained on the very texts that will be spoken, with a chat template of one token per role.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from creditflow.envs.errors import ConfigError

__all__ = ["ScratchConfig", "build_model", "build_tokenizer", "parameter_count"]

SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
LIMITS = (50_000, 100_000_000)


@dataclass(frozen=True, kw_only=True)
class ScratchConfig:
    """A model from nothing.

    Attributes:
        architecture: "qwen2" or "qwen3".
        hidden, layers, heads, kv_heads, intermediate: sizes; ``heads`` divides ``hidden``, ``kv_heads`` ``heads``.
        vocabulary: at most this many tokens, the 256 bytes and 5 special ones included.
        pattern: regular expression of what is never merged across: each match is a unit of its own. "" splits as the
            GPT-2 tokenizer does.
        positions: longest sequence.
        tied: whether input and output embeddings are one matrix.
        init: standard deviation of fresh weights. The families' 0.02 suits thousands of dimensions; small models
            learn sooner from about 1 / √hidden.
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


def build_tokenizer(texts: Iterable[str], config: ScratchConfig) -> Any:
    """A byte-level BPE tokenizer trained on ``texts``; the same texts in the same order give the same tokenizer."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    if config.pattern:
        core.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(config.pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    else:
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        additional_special_tokens=list(SPECIAL[2:]),
        chat_template=TEMPLATE,
        model_max_length=config.positions,
        clean_up_tokenization_spaces=False,
    )


def build_model(config: ScratchConfig, tokenizer: Any, *, seed: int, device: Any = "cpu") -> Any:
    """A freshly initialised model that fits the tokenizer; the seed decides its weights.

    Raises:
        ConfigError: fewer than 50 thousand or more than 100 million parameters.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    kinds = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
    make_config, make_model = kinds[config.architecture]
    sizes: dict[str, Any] = {"head_dim": config.hidden // config.heads} if config.architecture == "qwen3" else {}
    settings = make_config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.positions,
        tie_word_embeddings=config.tied,
        initializer_range=config.init,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        attn_implementation="sdpa",
        **sizes,
    )
    with _seeded(seed):
        model = make_model(settings)
    count = parameter_count(model)
    if not LIMITS[0] <= count <= LIMITS[1]:
        raise ConfigError(f"model.scratch has {count:,} parameters; models from nothing have 0.05 to 100 million")
    return model.to(device)


def parameter_count(model: Any) -> int:
    """Number of parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


@contextlib.contextmanager
def _seeded(seed: int) -> Any:
    """torch's global generator set for a moment: ``transformers`` initialises weights from it and takes no other."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
