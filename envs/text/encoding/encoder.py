"""A transformer encoder of a folder: texts in, float32 vectors out. torch and transformers are imported only here.

Nothing in the folder is executed and weights are read from safetensors only. Queries are encoded one at a time, without
padding, so that a vector depends on its text alone and not on what arrives with it; passages are encoded in batches of similar
length, whose padding changes a vector by some 1e-6 of its length (the order of sums).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError, MissingExtraError, short_repr
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import check_model_files, saved_tokenizer
from creditflow.envs.text.encoding.settings import EncoderSettings
from creditflow.envs.text.plain_text import plain_text

__all__ = ["TextEncoder", "encoder_digest"]

_FILES: Final = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)
_CHUNK: Final = 1 << 22


def encoder_digest(folder: str | Path) -> str:
    """blake2b-128 of the names and bytes of configuration, tokenizer and weights: equal digests, equal vectors.

    Raises:
        DataError: the folder has no configuration or no weights in safetensors.
    """
    folder = Path(folder)
    weights = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file() or not weights:
        raise DataError(
            f"{folder} is not an encoder folder; expected config.json, a tokenizer and weights in safetensors, as "
            "save_pretrained() writes them"
        )
    digest = blake2b(digest_size=16)
    for path in [*(folder / name for name in _FILES if (folder / name).is_file()), *weights]:
        inner = blake2b(digest_size=32)
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                inner.update(chunk)
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0" + inner.digest())
    return digest.hexdigest()


class TextEncoder:
    """Encodes texts by a transformer and pooling.

    Args:
        folder: what ``save_pretrained`` wrote: configuration, tokenizer, weights in safetensors.
        settings: pooling, prefixes, length.
        batch: passages in a forward pass.
        device: "auto", "cpu", "cuda", …

    Attributes:
        dimension: length of the vectors.
        max_tokens: tokens at which texts are truncated.

    Raises:
        ConfigError: ``max_tokens`` above the model's limit, or a wrong batch or device.
        DataError: the folder is not an encoder with a tokenizer, or lacks weights.
        MissingExtraError: torch or transformers is not installed.
    """

    def __init__(self, folder: str | Path, settings: EncoderSettings, *, batch: int = 32, device: str = "auto") -> None:
        for package in ("torch", "transformers"):
            if find_spec(package) is None:
                raise MissingExtraError(package, "train")
        if type(batch) is not int or not 1 <= batch <= 65_536:
            raise ConfigError(f"batch must be from 1 to 65536, got {short_repr(batch)}")
        self.settings, self.batch, self._lock = settings, batch, Lock()
        check_model_files(folder)
        self._network = _open_network(folder, device)
        self._tokenizer = _open_tokenizer(folder)
        config = self._network.config
        limits = [self._tokenizer.model_max_length, _positions(self._network)]
        limit = min(int(value) for value in (*limits, 1 << 30) if isinstance(value, int) and value > 0)
        if settings.max_tokens > limit:
            raise ConfigError(f"{folder} reads at most {limit} tokens, but max_tokens is {settings.max_tokens}")
        self.max_tokens = settings.max_tokens or limit
        self.dimension = int(getattr(config, "hidden_size", None) or config.d_model)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 (n, d): the vectors of queries; each depends on its own text alone."""
        return self._stacked([self._forward([self._prepared(text, query=True)]) for text in texts])

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 (n, d): the vectors of passages, in order."""
        ready = [self._prepared(text, query=False) for text in texts]
        order = sorted(range(len(ready)), key=lambda i: (len(ready[i]), i))
        out = np.zeros((len(ready), self.dimension), np.float32)
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            out[chosen] = self._forward([ready[i] for i in chosen])
        return out

    def _prepared(self, text: str, *, query: bool) -> list[int]:
        """Token ids of a text with its prefix."""
        prefix = self.settings.query_prefix if query else self.settings.passage_prefix
        prefixed = plain_text(prefix + text)
        if self.settings.lower_case:
            prefixed = prefixed.lower()
        with (
            self._lock
        ):  # tokenizers keep the limit of truncation in themselves, and refuse to be shared while they set it
            ids = self._tokenizer(prefixed, truncation=True, max_length=self.max_tokens)["input_ids"]
        return list(ids) or [self._tokenizer.pad_token_id]

    def _forward(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import torch

        longest = max(len(row) for row in rows)
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(longest)[None] < lengths[:, None]).long()
        where = self._network.device
        with torch.inference_mode(), loading("the encoder failed", DataError):
            out = self._network(input_ids=ids.to(where), attention_mask=mask.to(where))
            hidden = out.last_hidden_state.float().cpu()
        pooled = _pooled(hidden, mask, lengths, self.settings.pooling)
        if self.settings.normalise:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        vectors: NDArray[np.float32] = pooled.numpy()
        if not np.isfinite(vectors).all():
            raise DataError("the encoder returns non-finite values; its weights are damaged")
        return vectors

    def _stacked(self, rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *rows])


def _pooled(hidden: Any, mask: Any, lengths: Any, pooling: str) -> Any:
    """(n, d) from hidden states (n, t, d), padded on the right."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[range(len(hidden)), lengths - 1]
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)


def _open_network(folder: str | Path, device: str) -> Any:
    import torch
    from transformers import AutoModel

    where = device
    if device == "auto":
        where = "cuda" if torch.cuda.is_available() else "cpu"
    with loading(f"cannot open {str(folder)!r} as a text encoder"):
        network, report = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
        if network.config.is_encoder_decoder:
            network = network.get_encoder()
    # the pooler of BERT-class models is a layer after the hidden states, which many encoders are saved without
    if missing := sorted(name for name in report["missing_keys"] if not name.startswith("pooler.")):
        raise DataError(
            f"{folder}: its weights lack {len(missing)} tensors, such as {missing[0]}; get the encoder again"
        )
    with loading(f"cannot use the device {device!r}", ConfigError):
        return network.to(where).eval()


def _positions(network: Any) -> Any:
    """Tokens that a network has positions for; RoBERTa's family counts them from behind the id of the padding token."""
    limit = getattr(network.config, "max_position_embeddings", None)
    table = getattr(getattr(network, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return limit - padding - 1 if isinstance(limit, int) and isinstance(padding, int) else limit


def _open_tokenizer(folder: str | Path) -> Any:
    tokenizer = saved_tokenizer(folder)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token_id is None:
        raise DataError(f"{folder}: its tokenizer has neither a padding, an end nor an unknown token")
    return tokenizer
