"""The approximate index on real faiss files: a part of the exact ranking, resumable, the same for any batch and thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.text.vectors.approximate import (
    ApproximateIndex,
    ApproximateSettings,
    build_approximate,
    open_approximate,
)
from creditflow.envs.text.vectors.exact import best_rows
from creditflow.envs.text.vectors.shards import Shard

pytestmark = pytest.mark.dense


def unit(seed: int, rows: int, near: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((rows, 32)).astype(np.float32)
    if near is not None:
        vectors = near[rng.integers(0, len(near), rows)] + 0.5 * vectors / np.sqrt(np.float32(32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


CENTRES = unit(0, 60)
VECTORS, QUERIES = unit(1, 6_000, CENTRES), unit(2, 50, CENTRES)
SHARDS = [Shard(0, VECTORS[:2_500]), Shard(2_500, VECTORS[2_500:5_000]), Shard(5_000, VECTORS[5_000:])]


@pytest.fixture(scope="module", params=["pq8", "sq8"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build_approximate(SHARDS, ApproximateSettings(codes=request.param), tmp_path_factory.mktemp(request.param))


def opened(files: list[Path], probes: int = 16) -> ApproximateIndex:
    return open_approximate(files, SHARDS, probes, "rebuild the index")


def recall(found: list[Any], exact: list[Any]) -> float:
    return float(
        np.mean([len(set(a.tolist()) & set(b.tolist())) / len(b) for (a, _), (b, _) in zip(found, exact, strict=True)])
    )


def test_all_lists_give_the_exact_ranking_and_fewer_a_part_of_it(files: list[Path]) -> None:
    exact = best_rows(QUERIES, SHARDS, 10)
    recalls = [recall(opened(files, probes).best_rows(QUERIES, 10), exact) for probes in (1, 16, 10**6)]
    assert recalls[0] <= recalls[1] <= recalls[2]
    assert recalls[1] > 0.9
    assert recalls[2] > 0.99
    scores = QUERIES.astype(np.float64) @ VECTORS.astype(np.float64).T
    for i, (rows, found) in enumerate(opened(files).best_rows(QUERIES, 10)):
        np.testing.assert_allclose(found, scores[i][rows], rtol=1e-6)
        assert sorted(zip(-found, rows, strict=True)) == list(zip(-found, rows, strict=True))


def test_batch_and_threads_change_no_bit(files: list[Path]) -> None:
    index = opened(files)
    together = index.best_rows(QUERIES, 7)
    for other in (index.best_rows(QUERIES, 7, threads=3), [index.best_rows(query[None], 7)[0] for query in QUERIES]):
        for (rows, scores), (again, same) in zip(together, other, strict=True):
            assert np.array_equal(rows, again)
            assert np.array_equal(scores, same)
    assert [len(rows) for rows, _ in index.best_rows(QUERIES, 0)] == [0] * 50


def test_a_build_goes_on_from_its_files_to_the_same_bytes(files: list[Path], tmp_path: Path) -> None:
    settings = ApproximateSettings(codes="pq8" if "pq8" in str(files[0]) else "sq8")
    whole = [path.read_bytes() for path in build_approximate(SHARDS, settings, tmp_path)]
    assert whole == [path.read_bytes() for path in files]
    (tmp_path / files[1].name).unlink()
    first = (tmp_path / files[0].name).stat().st_mtime_ns
    again = build_approximate(SHARDS, settings, tmp_path)
    assert [path.read_bytes() for path in again] == whole
    assert again[0].stat().st_mtime_ns == first


def test_few_vectors_have_few_lists(tmp_path: Path) -> None:
    for rows in (1, 2, 17, 300):
        shards, folder = [Shard(0, VECTORS[:rows])], tmp_path / str(rows)
        folder.mkdir()
        index = open_approximate(
            build_approximate(shards, ApproximateSettings(codes="sq8"), folder), shards, 64, "build again"
        )
        found = index.best_rows(QUERIES, 5)
        assert recall(found, best_rows(QUERIES, shards, 5)) > 0.99


def test_too_few_vectors_for_a_codebook_are_a_configuration_error(tmp_path: Path) -> None:
    for rows in (1, 15):
        with pytest.raises(ConfigError, match=f"needs at least 16 vectors, there are {rows}"):
            build_approximate([Shard(0, VECTORS[:rows])], ApproximateSettings(codes="pq8"), tmp_path)
    assert len(build_approximate([Shard(0, VECTORS[:16])], ApproximateSettings(codes="pq8"), tmp_path)) == 1


def test_files_of_other_vectors_or_cut_files_are_data_errors(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected 2500 of 32"):
        open_approximate([files[2], files[1], files[0]], SHARDS, 16, "rebuild the index")
    other = build_approximate(SHARDS, ApproximateSettings(codes="sq8", lists=3), tmp_path)
    with pytest.raises(DataError, match="lists, the first shard"):
        open_approximate([files[0], *other[1:]], SHARDS, 16, "rebuild the index")
    cut = tmp_path / "cut.faiss"
    for keep in (0, 3, 40, files[0].stat().st_size // 2):
        cut.write_bytes(files[0].read_bytes()[:keep])
        with pytest.raises(DataError, match="rebuild the index"):
            open_approximate([cut, *files[1:]], SHARDS, 16, "rebuild the index")


@pytest.mark.parametrize("codes", ["", "pq", "pq0", "sq4", "PQ8", "pq8,RFlat", 8])
def test_unknown_codes_are_configuration_errors(codes: Any) -> None:
    with pytest.raises(ConfigError, match="codes of an approximate index"):
        ApproximateSettings(codes=codes)


def test_codes_that_do_not_divide_the_dimension_are_configuration_errors() -> None:
    ApproximateSettings(codes="pq8").check(32)
    with pytest.raises(ConfigError, match="multiple of 5"):
        ApproximateSettings(codes="pq5").check(32)
    with pytest.raises(ConfigError, match="lists must be from 0"):
        ApproximateSettings(codes="sq8", lists=-1)
