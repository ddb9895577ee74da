"""Small encoder folders with random weights, of several families and the size that a test needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789:?.,'\""


def save_tokenizer(folder: Path, limit: int = 32) -> int:
    """Write a tokenizer of pairs of letters; returns the size of its vocabulary."""
    from transformers import PreTrainedTokenizerFast

    pieces = [*LETTERS, *(a + b for a in LETTERS[:26] for b in LETTERS[:26])]
    words = [*SPECIAL, *pieces, *("##" + piece for piece in pieces)]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token=SPECIAL[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    special = dict(zip(("pad_token", "unk_token"), SPECIAL[:2], strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=limit, **special).save_pretrained(folder)
    return len(words)


def save_encoder(folder: Path, family: str = "bert", seed: int = 0, width: int = 16, limit: int = 32) -> Path:
    """Write an encoder of one of several families with random weights."""
    import torch
    import transformers as hf

    torch.manual_seed(seed)
    size = save_tokenizer(folder, limit)
    shape: dict[str, Any] = {"vocab_size": size, "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": 2,
                             "intermediate_size": 2 * width}  # fmt: skip
    model: Any
    if family == "bert":
        model = hf.BertModel(hf.BertConfig(**shape, max_position_embeddings=limit, pad_token_id=0))
    elif family == "roberta":
        model = hf.RobertaModel(hf.RobertaConfig(**shape, max_position_embeddings=limit + 2, pad_token_id=0))
    elif family == "qwen2":
        model = hf.Qwen2Model(hf.Qwen2Config(**shape, num_key_value_heads=2, max_position_embeddings=limit))
    elif family == "t5":
        config = hf.T5Config(vocab_size=size, d_model=width, d_kv=width // 2, d_ff=2 * width, num_layers=2, num_heads=2)
        model = hf.T5Model(config)
    else:
        raise ValueError(family)
    with torch.no_grad():  # wider than the initialisation, so that different texts have different vectors
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder
