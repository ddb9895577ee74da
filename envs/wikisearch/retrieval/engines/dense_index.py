"""Dense retrieval: passages and queries as vectors of one encoder, ranked by inner product.

The vectors are raw shards that are memory-mapped (``envs/text/vectors``), and search is exact.
Ties are in the order of passages. A blank query finds nothing. The encoder stays outside the folder, which holds its
digest and settings: another encoder is an error. Needs the extra ``[train]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.text.encoding.encoder import TextEncoder, encoder_digest
from creditflow.envs.text.encoding.settings import EncoderSettings, folder_settings, settings_from_json
from creditflow.envs.text.vectors.exact import best_rows
from creditflow.envs.text.vectors.shards import PRECISIONS, SHARD_ROWS, Shard, append_rows, open_shards
from creditflow.envs.wikisearch.retrieval.base import Passage, Ranking, no_ranking

__all__ = ["DenseBuilder", "DenseIndex", "DenseOptions", "open_dense"]


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
        precision: of the stored vectors: "float32" or "float16".
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


PART_ROWS: Final = 4_096  # passages encoded at a time


class _Encoder(Protocol):
    """Encodes queries."""

    dimension: int

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class DenseBuilder:
    """Encodes passages part by part and appends their vectors to the shards of an index folder.

    Args:
        folder: receives the files.
        options: of the build.
        part_rows: passages encoded at a time.
        shard_rows: rows in a shard, a multiple of ``part_rows``.

    Raises:
        ConfigError: wrong options.
        DataError: the encoder cannot be opened.
        MissingExtraError: the extra [train] is not installed.
    """

    def __init__(
        self, folder: Path, options: DenseOptions, part_rows: int = PART_ROWS, shard_rows: int = SHARD_ROWS
    ) -> None:
        self._folder, self._options = folder, options
        self._part_rows, self._shard_rows = part_rows, shard_rows
        settings = options.encoder_settings()
        self._encoder = TextEncoder(options.encoder, settings, batch=options.batch, device=options.device)
        self._facts: dict[str, Any] = {
            "digest": encoder_digest(options.encoder),
            "dimension": self._encoder.dimension,
            **settings.to_json(),
        }
        self._texts: list[str] = []
        self._rows = 0

    def add(self, passage: Passage) -> None:
        """Take the next passage; encodes when a part is full."""
        self._texts.append(passage.contents)
        self._rows += 1
        if len(self._texts) == self._part_rows:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            first = self._rows - len(self._texts)
            vectors = self._encoder.passages(self._texts)
            append_rows(self._folder, first // self._shard_rows, vectors, self._options.precision)
            self._texts = []

    def finish(self) -> dict[str, Any]:
        """Encode what is left; return the facts of the header."""
        self._flush()
        facts = {"rows": self._rows, "precision": self._options.precision, "shard_rows": self._shard_rows}
        return {"encoder": self._facts, "vectors": facts}

    def close(self) -> None:
        """Nothing is open."""


class DenseIndex:
    """Vectors and their encoder as a ``RowIndex``.

    Args:
        encoder: encodes queries.
        shards: the vectors.
        threads: threads that scan vectors.
    """

    def __init__(self, encoder: _Encoder, shards: Sequence[Shard], threads: int = 1) -> None:
        self._encoder, self._shards, self._threads = encoder, shards, threads

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query; a blank query has none.

        Raises:
            DataError: damaged vectors.
        """
        asked = [i for i, query in enumerate(queries) if query.strip()]
        rankings = [no_ranking() for _ in queries]
        if not asked or k <= 0:
            return rankings
        vectors = self._encoder.queries([queries[i] for i in asked])
        for i, ranking in zip(asked, best_rows(vectors, self._shards, k, self._threads), strict=True):
            rankings[i] = ranking
        return rankings


def open_dense(
    files: ChecksummedFolder, passages: int, encoder: str, threads: int = 1, device: str = "auto"
) -> DenseIndex:
    """The index of a folder.

    Args:
        files: the folder.
        passages: the number of passages that it must contain.
        encoder: folder of the encoder that it was built with.
        threads: threads that scan vectors.
        device: where queries are encoded.

    Raises:
        ConfigError: no encoder is named.
        DataError: the encoder is another one, or files are damaged or do not fit together.
        MissingExtraError: the extra [train] is not installed.
    """
    facts, about = files.fact("vectors", dict), files.fact("encoder", dict)
    rows, precision, shard_rows = (_fact(files, facts, name, kind) for name, kind in _VECTOR_FACTS.items())
    dimension = _fact(files, about, "dimension", int)
    if not encoder:
        raise ConfigError(
            f"{files.path}: pass the folder of the encoder that the index was built with (encoder, --encoder)"
        )
    if (digest := encoder_digest(encoder)) != about.get("digest"):
        raise DataError(
            f"{files.path} was built with another encoder (digest {str(about.get('digest'))[:40]}) than {encoder} (digest "
            f"{digest}): vectors of different encoders cannot be compared"
        )
    if rows != passages:
        raise DataError(f"{files.path} has {rows} vectors, expected {passages}; {files.how_to_fix}")
    shards = open_shards(
        files.array, files.path, rows=rows, dimension=dimension, precision=precision, shard_rows=shard_rows,
        how_to_fix=files.how_to_fix,
    )  # fmt: skip
    model = TextEncoder(encoder, settings_from_json(about), device=device)
    if model.dimension != dimension:
        raise DataError(f"{files.path} has vectors of {dimension} numbers, the encoder's have {model.dimension}")
    return DenseIndex(model, shards, threads)


_VECTOR_FACTS: Final = {"rows": int, "precision": str, "shard_rows": int}


def _fact(files: ChecksummedFolder, facts: dict[str, Any], name: str, kind: type) -> Any:
    if type(facts.get(name)) is not kind:
        raise DataError(f"{files.path}: its header must have {name!r}, of type {kind.__name__}; {files.how_to_fix}")
    return facts[name]
