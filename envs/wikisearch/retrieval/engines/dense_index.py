"""Dense retrieval: passages and queries as vectors of one encoder, ranked by inner product.

The vectors are raw shards that are memory-mapped (``envs/text/vectors``); search is exact, or approximate if the index was built so.
Ties are in the order of passages. A blank query finds nothing. The encoder stays outside the folder, which holds its
digest and settings: another encoder is an error. Needs the extra ``[dense]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.files.linking import link_or_copy
from creditflow.envs.text.encoding.encoder import TextEncoder, encoder_digest
from creditflow.envs.text.encoding.settings import settings_from_json
from creditflow.envs.text.vectors.approximate import (
    ApproximateIndex,
    approximate_name,
    build_approximate,
    open_approximate,
    require_faiss,
)
from creditflow.envs.text.vectors.exact import best_rows
from creditflow.envs.text.vectors.shards import SHARD_ROWS, Shard, join_parts, open_shards, unfinished
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.engines.base import Ranking, no_ranking
from creditflow.envs.wikisearch.retrieval.engines.dense_options import DenseOptions
from creditflow.envs.wikisearch.retrieval.engines.vector_parts import PART_ROWS, VectorParts

__all__ = ["DEFAULT_PROBES", "DenseBuilder", "DenseIndex", "open_dense"]

DEFAULT_PROBES: Final = 64


class _Encoder(Protocol):
    """Encodes queries."""

    dimension: int

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class DenseBuilder:
    """Encodes passages part by part and writes the vectors of an index folder.

    Args:
        folder: receives the files.
        parts: folder of the parts, from which an interrupted build goes on.
        options: of the build.
        part_rows: passages in a part.
        shard_rows: rows in a shard, a multiple of ``part_rows``.

    Raises:
        ConfigError: wrong options.
        DataError: the encoder cannot be opened, or the parts are of another build.
        MissingExtraError: the extra [dense] is not installed.
    """

    def __init__(
        self, folder: Path, parts: Path, options: DenseOptions, part_rows: int = PART_ROWS, shard_rows: int = SHARD_ROWS
    ) -> None:
        self._folder, self._options = folder, options
        self._part_rows, self._shard_rows = part_rows, shard_rows
        settings = options.encoder_settings()
        self._encoder = TextEncoder(options.encoder, settings, batch=options.batch, device=options.device)
        self._codes = options.codes()
        if self._codes is not None:
            require_faiss()
            self._codes.check(self._encoder.dimension)
        self._facts: dict[str, Any] = {
            "digest": encoder_digest(options.encoder),
            "dimension": self._encoder.dimension,
            **settings.to_json(),
        }
        codes = {"codes": self._codes.codes, "lists": self._codes.lists} if self._codes else None
        plan = {"encoder": self._facts, "precision": options.precision, "approximate index": codes,
                "batch size": options.batch, "part size": part_rows}  # fmt: skip
        self.parts = VectorParts(parts, plan)
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
            self.parts.add(self._texts, self._encoder.passages)
            self._texts = []

    def finish(self) -> dict[str, Any]:
        """Join the parts to shards and build the approximate index."""
        self._flush()
        join_parts(self.parts.files, self._folder, self._options.precision, self._shard_rows // self._part_rows)
        facts: dict[str, Any] = {
            "rows": self._rows,
            "precision": self._options.precision,
            "shard_rows": self._shard_rows,
        }
        if self._codes is not None:
            shards = open_shards(unfinished(self._folder), self._folder, dimension=self._encoder.dimension, **facts)
            aside = self.parts.aside("approximate")
            for path in build_approximate(shards, self._codes, aside):
                link_or_copy(path, self._folder / path.name)
        return {"encoder": self._facts, "vectors": {**facts, "approximate": self._codes.codes if self._codes else ""}}

    def close(self) -> None:
        """Release the folder of the parts."""
        self.parts.close()


class DenseIndex:
    """Vectors and their encoder as a ``RowIndex``.

    Args:
        encoder: encodes queries.
        shards: the vectors.
        approximate: finds candidates; None to scan all vectors.
        threads: threads that scan vectors or search queries.
    """

    def __init__(
        self, encoder: _Encoder, shards: Sequence[Shard], approximate: ApproximateIndex | None = None, threads: int = 1
    ) -> None:
        self._encoder, self._shards, self._approximate, self._threads = encoder, shards, approximate, threads

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query; a blank query has none.

        Raises:
            DataError: damaged vectors.
            ServiceError: faiss failed.
        """
        asked = [i for i, query in enumerate(queries) if query.strip()]
        rankings = [no_ranking() for _ in queries]
        if not asked or k <= 0:
            return rankings
        vectors = self._encoder.queries([queries[i] for i in asked])
        if self._approximate is None:
            best = best_rows(vectors, self._shards, k, self._threads)
        else:
            best = self._approximate.best_rows(vectors, k, self._threads)
        for i, ranking in zip(asked, best, strict=True):
            rankings[i] = ranking
        return rankings


def open_dense(
    files: ChecksummedFolder, passages: int, encoder: str, probes: int = 0, threads: int = 1, device: str = "auto"
) -> DenseIndex:
    """The index of a folder.

    Args:
        files: the folder.
        passages: the number of passages that it must contain.
        encoder: folder of the encoder that it was built with.
        probes: lists of an approximate index that are searched; 0 for ``DEFAULT_PROBES``.
        threads: threads that scan vectors or search queries.
        device: where queries are encoded.

    Raises:
        ConfigError: no encoder is named, or probes for an index without lists.
        DataError: the encoder is another one, or files are damaged or do not fit together.
        MissingExtraError: the extra [dense] is not installed.
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
    if not facts.get("approximate") and probes:
        raise ConfigError(f"{files.path} is searched exactly and has no lists to probe; got probes={probes}")
    model = TextEncoder(encoder, settings_from_json(about), device=device)
    if model.dimension != dimension:
        raise DataError(f"{files.path} has vectors of {dimension} numbers, the encoder's have {model.dimension}")
    approximate = _open_lists(files, shards, probes) if facts.get("approximate") else None
    return DenseIndex(model, shards, approximate, threads)


_VECTOR_FACTS: Final = {"rows": int, "precision": str, "shard_rows": int}


def _open_lists(files: ChecksummedFolder, shards: Sequence[Shard], probes: int) -> ApproximateIndex:
    names = [approximate_name(number) for number in range(len(shards))]
    paths = [files.file(name) for name in names]
    files.verify(names)
    return open_approximate(paths, shards, probes or DEFAULT_PROBES, files.how_to_fix)


def _fact(files: ChecksummedFolder, facts: dict[str, Any], name: str, kind: type) -> Any:
    if type(facts.get(name)) is not kind:
        raise DataError(f"{files.path}: its header must have {name!r}, of type {kind.__name__}; {files.how_to_fix}")
    return facts[name]
