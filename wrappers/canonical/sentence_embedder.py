"""Texts as unit vectors by any transformer encoder, embedded once per run. torch is imported only then.

A model is a folder, or a name in the local Hugging Face cache. Nothing is downloaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, require_modules
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import check_model_files
from creditflow.envs.text.encoding.encoder import TextEncoder
from creditflow.envs.text.encoding.settings import folder_settings
from creditflow.wrappers.canonical.merge import DenseVectors, Embedder

__all__ = ["CachedEmbedder", "SentenceEmbedder", "model_folder"]


def model_folder(model: str) -> Path:
    """The folder of a model: the folder itself, or the one in the local Hugging Face cache.

    Raises:
        ConfigError: it is neither; suggests the nearest one.
        DataError: the folder has no model.
    """
    folder = Path(model).expanduser()
    check_model_files(folder)
    if folder.is_dir():
        return folder
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        cache = Path(constants.HF_HUB_CACHE)
        cached = sorted(path.name.removeprefix("models--").replace("--", "/") for path in cache.glob("models--*"))
        beside = sorted(str(path.parent) for path in folder.parent.glob("*/config.json"))
        suggestions = difflib.get_close_matches(model, [*cached, *beside], n=1, cutoff=0.5)
        hint = f"did you mean {suggestions[0]!r}? " if suggestions else ""
        raise ConfigError(
            f"no embedding model {model!r}: it is neither a folder nor in the cache {cache}; {hint}In the cache: "
            f"{', '.join(cached) or 'no model'}. Nothing is downloaded here; fetch a model with: hf download NAME"
        ) from error


class SentenceEmbedder:
    """Encode texts as unit vectors, with the pooling and truncation that the model folder specifies (by default the mean, up to the model's limit).

    Prompts of the folder are not used: they tell queries from passages, and here all texts are of one kind.

    Args:
        model: folder or cached name of a transformer (weights in safetensors; no remote code).
        prefix: text prepended to every text; E5 models need "query: ".
        batch: number of texts in a forward pass.
        device: "auto", "cpu", "cuda", …

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ConfigError: the model is not on this machine.
        DataError: the folder is not an encoder with a tokenizer.
    """

    def __init__(self, model: str, *, prefix: str = "", batch: int = 32, device: str = "auto") -> None:
        require_modules("a text encoder", "train", "torch", "transformers")
        folder = model_folder(model)
        with loading(f"cannot open {model!r} as a text encoder"):
            settings = folder_settings(folder, passage_prefix=prefix, normalise=True)
            self._encoder = TextEncoder(folder, settings, batch=batch, device=device)
        self.prefix, self.batch = prefix, batch

    def embed(self, texts: Sequence[str]) -> DenseVectors:
        """Embed texts; returns float32 (n, d)."""
        return self._encoder.passages(texts)


class CachedEmbedder:
    """Vectors of texts that were embedded before, so that a state is embedded once per run and not once per visit.

    Args:
        embedder: embeds the texts that are new, all of a call together.
        capacity: number of texts that are remembered; beyond it, the ones added first are forgotten.

    Attributes:
        embedded: number of texts that the embedder has embedded.
    """

    def __init__(self, embedder: Embedder, capacity: int = 65_536) -> None:
        if capacity < 1:
            raise ConfigError(f"capacity must be at least 1, got {capacity}")
        self._embedder, self._capacity = embedder, capacity
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self.embedded = 0

    def embed(self, texts: Sequence[str]) -> DenseVectors:
        """Return one row per text; float32 (n, d)."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new or not texts:
            vectors = self._embedder.embed(new)
            if not texts:
                return vectors
            self._vectors.update(zip(new, vectors, strict=True))
            self.embedded += len(new)
        rows = np.stack([self._vectors[text] for text in texts])
        for text in list(self._vectors)[: max(0, len(self._vectors) - self._capacity)]:
            del self._vectors[text]
        return rows
