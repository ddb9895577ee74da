"""A language of a few tokens and a random model of it, small enough to list every completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from creditflow.agents.backends.base import Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.train.policy.network.scratch import TEMPLATE, ScratchConfig, build_model

__all__ = ["TOKENS", "tiny_agent", "tiny_tokenizer"]

# byte-level: Ġ is a space, Ċ a line break, Â and ł the two bytes of a no-break space
TOKENS = ("up", "u", "p", "U", "down", "Ġ", "Ġup", "Ċ", "Â", "ł")
BOARD = ("#", ".", "_", "P", "X", "O", "A", "G", "x")


def tiny_tokenizer(tokens: Sequence[str] = TOKENS) -> Any:
    """A byte-level tokenizer of these tokens, the symbols of boards, and marks; other characters are one unknown token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    marks = ["<|pad|>", "<|end|>", "<|unk|>", "<|user|>", "<|assistant|>"]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*marks, *tokens, *BOARD]))}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=marks[2]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=marks[0],
        eos_token=marks[1],
        unk_token=marks[2],
        additional_special_tokens=marks[3:],
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_agent(
    seed: int, max_new_tokens: int, *, tokens: Sequence[str] = TOKENS, init: float = 0.3, **prompting: Any
) -> tuple[LanguageModelAgent, Any]:
    """A random model of the tiny language as an agent, and its tokenizer."""
    tokenizer = tiny_tokenizer(tokens)
    config = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=128, vocabulary=280, positions=256, init=init
    )
    model = build_model(config, tokenizer, seed=seed)
    settings: dict[str, Any] = {"prompt": "terse-v1", "dialect": "bare", "history": "window", "window": 0} | prompting
    sampling = Sampling(max_new_tokens=max_new_tokens)
    return PromptingConfig(**settings).agent(TransformersBackend(model), tokenizer, sampling), tokenizer
