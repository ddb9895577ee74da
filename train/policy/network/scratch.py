"""A small language model and its tokenizer, trained from scratch: no hub, no download.

The model is a Qwen2 or Qwen3 of ``transformers``, so everything that opens those opens it; the tokenizer is a
byte-level BPE trained on the texts of the task, with a chat template of one token per role.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.model import SPECIAL, ScratchConfig

__all__ = ["ScratchConfig", "build_model", "build_tokenizer", "parameter_count"]

TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
LIMITS = (50_000, 100_000_000)


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
    with _seeded(seed):
        model = _language_model(config, tokenizer)
    count = parameter_count(model)
    if not LIMITS[0] <= count <= LIMITS[1]:
        raise ConfigError(f"model.scratch has {count:,} parameters; models from scratch have 0.05 to 100 million")
    return model.to(device)


def _language_model(config: ScratchConfig, tokenizer: Any) -> Any:
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
    return make_model(settings)


def parameter_count(model: Any) -> int:
    """Number of parameters; tied parameters are counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


@contextlib.contextmanager
def _seeded(seed: int) -> Any:
    """Seed torch's global generator temporarily: ``transformers`` initialises weights from no other."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
