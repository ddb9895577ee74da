"""How an index of vectors is built: its encoder, precision and approximate lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.text.encoding.settings import EncoderSettings, folder_settings
from creditflow.envs.text.vectors.approximate import ApproximateSettings
from creditflow.envs.text.vectors.shards import PRECISIONS

__all__ = ["DenseOptions"]


@dataclass(frozen=True, kw_only=True)
class DenseOptions:
    """Options of a build for "dense".

    Attributes:
        encoder: folder of a transformer encoder with its tokenizer.
        pooling: "mean", "cls" or "last"; None, here and below, for what the encoder's folder says, else the default.
        query_prefix: text before queries, such as E5's "query: ".
        passage_prefix: text before passages, such as E5's "passage: ".
        max_tokens: tokens at which texts are truncated.
        normalise: scale vectors to length 1.
        precision: of the stored vectors: "float32", "float16" or "int8".
        approximate: "" for exact search alone, or codes of an approximate index: "pqM" or "sq8".
        lists: inverted lists of the approximate index; 0 for about √rows.
        batch: passages in a forward pass.
        device: "auto", "cpu", "cuda", …

    Raises:
        ConfigError: a wrong value.
    """

    encoder: str
    pooling: str | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    max_tokens: int | None = None
    normalise: bool | None = None
    precision: str = "float16"
    approximate: str = ""
    lists: int = 0
    batch: int = 32
    device: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, str) or not self.encoder:
            raise ConfigError("missing encoder: pass a folder with config.json, a tokenizer and weights in safetensors")
        if not Path(self.encoder).is_dir():
            raise ConfigError(
                f"no encoder folder {short_repr(self.encoder, 200)}. Nothing is downloaded automatically; download one with: "
                "hf download NAME --local-dir FOLDER"
            )
        if self.precision not in PRECISIONS:
            raise unknown_name_error("precision", self.precision, PRECISIONS)
        if self.lists and not self.approximate:
            raise ConfigError("lists requires an approximate index; pass its codes too, such as approximate='pq96'")
        self.codes()

    def codes(self) -> ApproximateSettings | None:
        """The approximate index, or None."""
        return ApproximateSettings(codes=self.approximate, lists=self.lists) if self.approximate else None

    def encoder_settings(self) -> EncoderSettings:
        """The encoder's settings: those given, else the folder's.

        Raises:
            ConfigError: a wrong value.
            DataError: a malformed file in the folder.
        """
        return folder_settings(
            Path(self.encoder),
            pooling=self.pooling,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
            max_tokens=self.max_tokens,
            normalise=self.normalise,
        )
