"""Rank correlations of metrics with learning: their jackknife over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from creditflow.train.bench.report.tidy import correlation_estimate, mean_correlation, study_results
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import spearman, t_quantile


def study(gain: np.ndarray, area: np.ndarray) -> Study:
    """A study from results by seed (rows) and method (columns)."""

    def by_method(values: np.ndarray) -> dict[str, list[list[float]]]:
        return {f"m{i}": values[:, i, None].tolist() for i in range(values.shape[1])}

    endpoints = {"area": by_method(area), "gain": by_method(gain)}
    return Study("shared policy", "pits", "distinct", 16, 8, "", endpoints)


def noisy(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    quality = np.linspace(0.0, 1.0, 8)
    return quality + rng.normal(0.0, 0.5, (5, 8)), quality + rng.normal(0.0, 0.5, (5, 8))


def test_the_interval_is_the_jackknife_over_seeds_of_the_mean_over_studies() -> None:
    parts = [noisy(0), noisy(1)]
    without = np.array(
        [
            np.mean([spearman(*(np.delete(values, seed, axis=0).mean(axis=0) for values in part)) for part in parts])
            for seed in range(5)
        ]
    )
    pseudo = 5 * 0.5 - 4 * without
    half = t_quantile(4.0) * float(np.std(pseudo, ddof=1)) / math.sqrt(5)
    found = correlation_estimate(study_results([study(*part) for part in parts]), "gain", 0.5)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, max(0.5 - half, -1.0), min(0.5 + half, 1.0)))


def test_all_seeds_together_give_the_stored_correlation() -> None:
    gain, area = noisy(2)
    assert mean_correlation(study_results([study(gain, area)]), "gain") == pytest.approx(
        spearman(gain.mean(axis=0), area.mean(axis=0))
    )
    assert math.isnan(mean_correlation(study_results([study(gain, area)]), "cosine"))


def test_there_is_no_interval_without_a_second_seed_and_no_correlation_where_it_is_undefined() -> None:
    one = [study(*(values[:1] for values in noisy(3)))]
    alone = correlation_estimate(study_results(one), "gain", 0.9)
    assert alone is not None and alone.mean == 0.9 and math.isnan(alone.low)
    assert alone.text(2) == "0.90"
    assert correlation_estimate(study_results(one), "gain", None) is None


def test_an_interval_is_cut_at_one() -> None:
    found = correlation_estimate(study_results([study(*noisy(4))]), "gain", 0.99)
    assert found is not None and found.high <= 1.0
