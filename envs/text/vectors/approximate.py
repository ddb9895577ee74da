"""Approximate candidates by faiss: inverted lists around centroids, compressed vectors in them.

Centroids and codebooks are learned once from a sample; then every shard is a file of its own, with the lists of its rows, so a build
holds one shard's codes and goes on after the last complete file. Opened lists stay on disk and are read as one.
Candidates are scored exactly from the shards' own rows (``exact``), so an approximate result is a part of the exact ranking.

Trust: faiss reads its files without checking all of their content, and damaged ones can abort the process. So every byte is compared
with the folder's checksums before it is opened. They detect damage, not tampering: open only folders from sources whose programs
you would run, or build the index from the passages, which may come from any source.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError, MissingExtraError, ServiceError, short_repr
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.reading.failures import loading
from creditflow.envs.text.vectors.exact import Best, checked_queries, ordered, scores_of
from creditflow.envs.text.vectors.shards import Shard

__all__ = ["ApproximateIndex", "ApproximateSettings", "approximate_name", "build_approximate", "open_approximate"]

MAX_LISTS: Final = 1 << 18
SAMPLE_PER_LIST: Final = 64  # training vectors; faiss asks for 39 to 256
MIN_SAMPLE: Final = 65_536  # for the codebooks of 256 words
SEED: Final = 1234
REFINE: Final = 10  # candidates scored exactly for each row wanted
MIN_CANDIDATES: Final = 100
_CODES: Final = re.compile(r"sq8|pq([1-9][0-9]{0,3})")
MIN_ROWS: Final = 16  # that product quantisation can learn a codebook from
_BLOCK: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class ApproximateSettings:
    """How an approximate index is built.

    Attributes:
        codes: "pqM" (product quantisation to M bytes, a divisor of the dimension) or "sq8" (a byte per number).
        lists: number of inverted lists; 0 for about √rows.

    Raises:
        ConfigError: a wrong value.
    """

    codes: str
    lists: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.codes, str) or not _CODES.fullmatch(self.codes):
            raise ConfigError(
                f"codes of an approximate index must be 'sq8' or 'pqM', such as 'pq96', got {short_repr(self.codes)}"
            )
        if type(self.lists) is not int or not 0 <= self.lists <= MAX_LISTS:
            raise ConfigError(f"lists must be from 0 (automatic) to {MAX_LISTS:,}, got {short_repr(self.lists)}")

    def check(self, dimension: int) -> None:
        """Raise ConfigError unless vectors of this dimension can be coded."""
        pieces = self.parts
        if pieces and dimension % pieces:
            raise ConfigError(
                f"{self.codes} needs a dimension that is a multiple of {pieces}; the encoder's is {dimension}"
            )

    @property
    def parts(self) -> int:
        """Bytes of product quantisation; 0 for sq8."""
        return int(self.codes[2:]) if self.codes.startswith("pq") else 0

    def lists_for(self, rows: int) -> int:
        """Number of lists for so many rows: the given one, or the power of two next to √rows, at most rows / 39."""
        lists = self.lists or 1 << round(math.log2(math.sqrt(rows)))
        return max(1, min(lists, rows if self.lists else rows // 39))


def require_faiss() -> ModuleType:
    """The module faiss.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss, for approximate search,", "dense") from error
    module: ModuleType = faiss
    return module


def approximate_name(shard: int) -> str:
    """Name of the file of a shard's lists."""
    return f"approximate.{shard:04d}.faiss"


def build_approximate(
    shards: Sequence[Shard], settings: ApproximateSettings, folder: Path, done: Callable[[Path], bool] = Path.is_file
) -> list[Path]:
    """Learn centroids, then write the lists of every shard; existing files are not written again.

    Args:
        shards: all vectors.
        settings: of the index.
        folder: receives the files; where an interrupted build left some, they belong to the same vectors and settings.
        done: whether a file is complete.

    Returns:
        The file of each shard, in order.

    Raises:
        ConfigError: too few vectors for product quantisation.
    """
    faiss = require_faiss()
    trained = folder / "trained.faiss"
    if not done(trained):
        with atomic_path(trained) as temporary:
            faiss.write_index(_trained(faiss, shards, settings), str(temporary))
    files = [folder / approximate_name(number) for number in range(len(shards))]
    for shard, path in zip(shards, files, strict=True):
        if done(path):
            continue
        index = faiss.read_index(str(trained))
        for start in range(0, len(shard), _BLOCK):
            vectors = shard.decoded(slice(start, start + _BLOCK))
            rows = np.arange(len(vectors), dtype=np.int64) + (shard.start + start)
            index.add_with_ids(vectors, rows)
        with atomic_path(path) as temporary:
            faiss.write_index(index, str(temporary))
    return files


def _trained(faiss: ModuleType, shards: Sequence[Shard], settings: ApproximateSettings) -> Any:
    rows, dimension = sum(len(shard) for shard in shards), shards[0].vectors.shape[1]
    if settings.parts and rows < MIN_ROWS:
        raise ConfigError(
            f"{settings.codes} needs at least {MIN_ROWS} vectors, there are {rows}: search so few exactly"
        )
    lists = settings.lists_for(rows)
    # np: codebooks as they are learned; faiss would reorder them for a search that is not used here, at ten times the work
    codes = f"PQ{settings.parts}x{8 if rows >= 256 else 4}np" if settings.parts else "SQ8"
    index = faiss.index_factory(dimension, f"IVF{lists},{codes}", faiss.METRIC_INNER_PRODUCT)
    index.cp.seed, index.cp.min_points_per_centroid = SEED, 1  # few rows per centroid are no reason to print
    index.cp.max_points_per_centroid = SAMPLE_PER_LIST
    if settings.parts:
        index.pq.cp.seed, index.pq.cp.min_points_per_centroid = SEED, 1
    count = min(rows, max(SAMPLE_PER_LIST * lists, MIN_SAMPLE))
    chosen = np.sort(np.random.default_rng(SEED).choice(rows, count, replace=False))
    sample = [
        shard.decoded(chosen[(chosen >= shard.start) & (chosen < shard.start + len(shard))] - shard.start)
        for shard in shards
    ]
    index.train(np.concatenate(sample))
    return index


def open_approximate(paths: Sequence[Path], shards: Sequence[Shard], probes: int, how_to_fix: str) -> ApproximateIndex:
    """The index of the shards' files, whose bytes the caller has verified; see the module about trust.

    Args:
        paths: file of each shard.
        shards: the vectors.
        probes: lists that are searched for a query.
        how_to_fix: what to do about damage; ends every message.

    Raises:
        DataError: faiss cannot open a file, or it does not fit the vectors.
        MissingExtraError: faiss is not installed.
    """
    faiss = require_faiss()
    dimension, indexes = shards[0].vectors.shape[1], list[Any]()
    for path, shard in zip(paths, shards, strict=True):
        with loading(f"{path}: faiss cannot open it; {how_to_fix}"):
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
            if not isinstance(index, faiss.IndexIVF) or index.d != dimension or index.ntotal != len(shard):
                raise DataError(
                    f"{path} has {index.ntotal} vectors of {index.d} numbers, expected {len(shard)} of {dimension} in "
                    f"inverted lists; {how_to_fix}"
                )
            if indexes and index.nlist != indexes[0].nlist:
                raise DataError(f"{path} has {index.nlist} lists, the first shard {indexes[0].nlist}; {how_to_fix}")
        indexes.append(index)
    return ApproximateIndex(faiss, indexes, shards, probes)


class ApproximateIndex:
    """Opened lists of all shards.

    Args:
        faiss: the module.
        parts: index of each shard, with equal centroids.
        shards: the vectors.
        probes: lists that are searched for a query; all of them at most.
    """

    def __init__(self, faiss: ModuleType, parts: Sequence[Any], shards: Sequence[Shard], probes: int) -> None:
        self._faiss, self._parts, self._shards = faiss, parts, shards
        self._starts = np.array([shard.start for shard in shards])
        self._rows = sum(len(shard) for shard in shards)
        self.lists = int(parts[0].nlist)
        self.probes = min(probes, self.lists)
        for index in parts:
            index.nprobe = self.probes

    def best_rows(self, queries: NDArray[np.float32], k: int, threads: int = 1) -> list[Best]:
        """The best ``k`` rows for each query among the candidates of its nearest lists.

        Each query is searched by itself, so the result does not depend on what else is asked.

        Args:
            queries: float32 (q, d).
            k: rows per query; fewer where the lists hold fewer.
            threads: threads that search the queries of a call.

        Raises:
            DataError: another dimension, or the index names a row that is not there.
            ServiceError: faiss failed.
        """
        queries = checked_queries(queries, self._shards[0].vectors.shape[1])
        if k <= 0:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        with loading("faiss failed", ServiceError):
            if threads == 1 or len(queries) == 1:
                return [self._best(query, k) for query in queries]
            with ThreadPoolExecutor(threads, "faiss") as pool:  # it releases the interpreter lock
                return list(pool.map(lambda query: self._best(query, k), queries))

    def _best(self, query: NDArray[np.float32], k: int) -> Best:
        faiss, candidates = self._faiss, min(max(k * REFINE, MIN_CANDIDATES), self._rows)
        faiss.omp_set_num_threads(1)  # of this thread
        nearest, lists = self._parts[0].quantizer.search(query[None], self.probes)
        results = [index.search_preassigned(query[None], candidates, lists, nearest) for index in self._parts]
        coarse = np.concatenate([scores[0] for scores, _ in results])
        rows = np.concatenate([ids[0] for _, ids in results])
        coarse, rows = coarse[rows >= 0], rows[rows >= 0]
        rows = rows[np.lexsort((rows, -coarse))[:candidates]]
        return ordered(rows, self._exact(query, rows), k)

    def _exact(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if len(rows) and int(rows.max()) >= self._rows:
            raise DataError(f"the approximate index refers to row {int(rows.max())} of {self._rows}; rebuild the index")
        scores, owner = np.empty(len(rows)), np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(owner).tolist():
            mine, shard = owner == number, self._shards[number]
            scores[mine] = scores_of(query, shard.decoded(rows[mine] - shard.start))
        return scores
