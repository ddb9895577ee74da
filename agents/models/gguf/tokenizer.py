"""The tokenizer of a GGUF file: byte-level BPE with the pre-tokenizer that llama.cpp names, special tokens and chat template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.failures import loading

__all__ = ["PRETOKENIZERS", "save_gguf_tokenizer", "token_ids"]

KEY: Final = "tokenizer.ggml."
NORMAL, CONTROL, DEFINED, UNUSED = 1, 3, 4, 5  # llama.cpp's types of tokens
# llama.cpp's names, and whether every digit is a token; both split words as GPT-2 does
PRETOKENIZERS: Final = {"gpt-2": False, "smollm": True}
NAMED: Final = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}  # ours, and the file's


def token_ids(fields: Mapping[str, Any]) -> dict[str, int]:
    """Ids of the tokens that the file names ("bos", "eos", "pad", "unk").

    Raises:
        DataError: one is not an id of its vocabulary, or there is no end token.
    """
    size = len(_texts(fields, "tokens"))
    ids = {}
    for name, theirs in NAMED.items():
        number = fields.get(f"{KEY}{theirs}_token_id")
        if number is None:
            continue
        if type(number) is not int or not 0 <= number < size:
            raise DataError(f"{KEY}{theirs}_token_id is {short_repr(number)}, no id of a vocabulary of {size:,} tokens")
        ids[name] = number
    if "eos" not in ids:
        raise DataError(f"the file names no end token ({KEY}eos_token_id)")
    return ids


def save_gguf_tokenizer(fields: Mapping[str, Any], context: int, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` into a folder.

    Args:
        fields: metadata of the file.
        context: the model's longest sequence.
        folder: an existing folder.

    Raises:
        DataError: a tokenizer that is not read, or a damaged one.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    model, name = fields.get(f"{KEY}model"), fields.get(f"{KEY}pre", "")
    if model != "gpt2":
        raise DataError(f"its tokenizer is {short_repr(model)}; read is 'gpt2' (byte-level BPE)")
    if name not in PRETOKENIZERS:
        raise DataError(
            f"its pre-tokenizer ({KEY}pre) is {short_repr(name)}; read are {', '.join(PRETOKENIZERS)}. Another one would give other ids"
        )
    pieces, merges, kinds = _texts(fields, "tokens"), _texts(fields, "merges"), _kinds(fields)
    named = token_ids(fields)
    with loading("its tokenizer cannot be built"):
        bpe = models.BPE({piece: number for number, piece in enumerate(pieces)}, list(map(_pair, merges)))
        core = Tokenizer(bpe)
        steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if PRETOKENIZERS[name] else []
        core.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        core.decoder = decoders.ByteLevel()
        for kind, special in ((CONTROL, True), (DEFINED, False)):
            added = [AddedToken(pieces[at], special=special, normalized=False) for at in np.flatnonzero(kinds == kind)]
            (core.add_special_tokens if special else core.add_tokens)(added)
        if fields.get(f"{KEY}add_bos_token", False):
            bos = pieces[named["bos"]]
            core.post_processor = processors.TemplateProcessing(
                single=f"{bos} $A", special_tokens=[(bos, named["bos"])]
            )
        template = fields.get("tokenizer.chat_template")
        PreTrainedTokenizerFast(
            tokenizer_object=core,
            clean_up_tokenization_spaces=False,
            model_max_length=context,
            **({"chat_template": template} if isinstance(template, str) else {}),
            **{f"{name}_token": pieces[number] for name, number in named.items()},
        ).save_pretrained(folder)


def _texts(fields: Mapping[str, Any], name: str) -> list[str]:
    """A list of different texts."""
    texts = fields.get(KEY + name)
    if not isinstance(texts, list) or not texts or len(set(texts)) < len(texts):
        raise DataError(f"expected a list of different texts under {KEY}{name}")
    return texts


def _kinds(fields: Mapping[str, Any]) -> Any:
    """int (tokens,): the type of every token; all are normal if the file does not say."""
    size = len(_texts(fields, "tokens"))
    kinds = fields.get(f"{KEY}token_type", np.full(size, NORMAL))
    if not isinstance(kinds, np.ndarray) or kinds.shape != (size,):
        raise DataError(f"expected {size:,} numbers under {KEY}token_type")
    if len(unknown := np.setdiff1d(kinds, (NORMAL, CONTROL, DEFINED, UNUSED))):
        raise DataError(f"{KEY}token_type has type {unknown[0]}, which byte-level BPE does not have")
    return kinds


def _pair(merge: str) -> tuple[str, str]:
    first, space, second = merge.partition(" ")
    if not (first and space and second):
        raise DataError(f"a merge is two pieces with a space between them, got {short_repr(merge)}")
    return first, second
