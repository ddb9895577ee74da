"""Dense retrieval: passages and queries as vectors of one encoder, ranked by inner product.

The vectors are one memory-mapped file, and search is exact (``envs/text/vectors``).
Ties are in the order of passages. A blank query finds nothing. The encoder stays outside the folder, which holds its
digest and settings: another encoder is an error. Needs the extra ``[train]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from creditflow.envs.wikisearch.retrieval.base import Passage, Ranking, no_ranking

__all__ = ["DenseBuilder", "DenseIndex", "DenseOptions", "open_dense"]

PRECISIONS: Final[Mapping[str, str]] = {"float32": "<f4", "float16": "<f2"}


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


VECTORS: Final = "vectors.raw"  # rows of little-endian numbers
PART_ROWS: Final = 4_096  # passages encoded at a time


class _Encoder(Protocol):
    """Encodes queries."""

    dimension: int

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class DenseBuilder:
    """Encodes passages part by part and appends their vectors to a file of an index folder.

    Args:
        folder: receives the file.
        options: of the build.

    Raises:
        ConfigError: wrong options.
        DataError: the encoder cannot be opened.
        MissingExtraError: the extra [train] is not installed.
    """

    def __init__(self, folder: Path, options: DenseOptions) -> None:
        self._file, self._precision = folder / VECTORS, options.precision
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
        if len(self._texts) == PART_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._texts:
            rows = encoded_rows(self._encoder.passages(self._texts), self._precision)
            with self._file.open("ab") as out:
                out.write(rows)
            self._texts = []

    def finish(self) -> dict[str, Any]:
        """Encode what is left; return the facts of the header."""
        self._flush()
        return {"encoder": self._facts, "vectors": {"rows": self._rows, "precision": self._precision}}

    def close(self) -> None:
        """Nothing is open."""


def encoded_rows(vectors: NDArray[np.float32], precision: str) -> bytes:
    """The bytes of rows.

    Raises:
        DataError: a value that is not finite, or too large for the precision.
    """
    with np.errstate(over="ignore"):
        rows = vectors.astype(PRECISIONS[precision])
    if not np.isfinite(rows).all():
        raise DataError(f"vectors must be finite in {precision}; one has a value that is not")
    return rows.tobytes()


class DenseIndex:
    """Vectors and their encoder as a ``RowIndex``.

    Args:
        encoder: encodes queries.
        vectors: float32 or float16 (n, d).
        threads: threads that scan vectors.
    """

    def __init__(self, encoder: _Encoder, vectors: NDArray[Any], threads: int = 1) -> None:
        self._encoder, self._vectors, self._threads = encoder, vectors, threads

    def __len__(self) -> int:
        return len(self._vectors)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query; a blank query has none.

        Raises:
            DataError: damaged vectors.
        """
        asked = [i for i, query in enumerate(queries) if query.strip()]
        rankings = [no_ranking() for _ in queries]
        if not asked or k <= 0:
            return rankings
        encoded = self._encoder.queries([queries[i] for i in asked])
        for i, ranking in zip(asked, best_rows(encoded, self._vectors, k, self._threads), strict=True):
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
    rows, precision = _fact(files, facts, "rows", int), _fact(files, facts, "precision", str)
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
    if precision not in PRECISIONS or dimension < 1:
        raise DataError(
            f"{files.path}: vectors of {dimension} numbers in {precision[:40]!r} are not what this package writes; {files.how_to_fix}"
        )
    vectors = files.array(VECTORS, PRECISIONS[precision])
    if len(vectors) != rows * dimension:
        raise DataError(
            f"{files.path / VECTORS} has {len(vectors)} numbers, expected {rows} rows of {dimension}; {files.how_to_fix}"
        )
    model = TextEncoder(encoder, settings_from_json(about), device=device)
    if model.dimension != dimension:
        raise DataError(f"{files.path} has vectors of {dimension} numbers, the encoder's have {model.dimension}")
    return DenseIndex(model, vectors.reshape(rows, dimension), threads)


def _fact(files: ChecksummedFolder, facts: dict[str, Any], name: str, kind: type) -> Any:
    if type(facts.get(name)) is not kind:
        raise DataError(f"{files.path}: its header must have {name!r}, of type {kind.__name__}; {files.how_to_fix}")
    return facts[name]
