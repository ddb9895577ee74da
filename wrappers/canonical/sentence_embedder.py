"""Embedders by name: ``hash``, or ``hf:MODEL`` with any transformer encoder. torch is imported only then.

A model is a folder, or a name in the local Hugging Face cache. Nothing is downloaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from creditflow.envs.errors import ConfigError, require_modules, unknown_name_error
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import check_model_files
from creditflow.envs.text.encoding.encoder import TextEncoder
from creditflow.envs.text.encoding.settings import folder_settings
from creditflow.wrappers.canonical.embedding import DenseVectors, Embedder, HashingEmbedder

__all__ = ["SentenceEmbedder", "make_embedder", "model_folder"]


def make_embedder(name: str) -> Embedder:
    """Make an embedder by name: "hash" or "hf:MODEL".

    Raises:
        ConfigError: an unknown name, or the model is not on this machine; suggests the nearest one.
        MissingExtraError: "hf:" without torch and transformers.
    """
    kind, colon, model = name.partition(":")
    if name == "hash":
        return HashingEmbedder()
    if kind == "hf" and colon:
        return SentenceEmbedder(model)
    raise unknown_name_error("embedder", name, ["hash", "hf:MODEL"])


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
