"""Normalisation within groups: population deviation, ties, singletons, units."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from creditflow import credit


def one_group(x, **options):
    return credit.normalize(np.array(x, float), np.zeros(len(x), np.int32), 1, **options).tolist()


def test_the_population_deviation_divides_by_n():
    # deviations ±1, n = 2: sample deviation √2, population deviation 1
    assert one_group([1.0, 3.0]) == pytest.approx([-1 / sqrt(2), 1 / sqrt(2)])
    assert one_group([1.0, 3.0], std_kind="population") == [-1.0, 1.0]


def test_a_singleton_gets_zero_or_keeps_its_score():
    assert one_group([7.0]) == [0.0]
    assert one_group([7.0], singleton="raw") == [7.0]


def test_statistics_are_over_samples_but_all_entries_are_scored():
    # samples 0 and 2: mean 1, deviation √2
    out = one_group([0.0, 2.0, 5.0], sample=np.array([True, True, False]))
    assert out == pytest.approx([-1 / sqrt(2), 1 / sqrt(2), 4 / sqrt(2)])


@pytest.mark.parametrize("exponent", [-1000, -200, 200, 1000])
def test_the_unit_does_not_matter_however_huge_or_tiny(exponent):
    x = np.array([1.0, 2.0, 4.0])
    assert one_group(x * 2.0**exponent) == one_group(x)
    assert one_group(x * 2.0**exponent, scale="none") == [v * 2.0**exponent for v in one_group(x, scale="none")]


def test_differences_are_noise_relative_to_the_terms_they_come_from():
    assert one_group([1e-17, 0.0]) == pytest.approx([1 / sqrt(2), -1 / sqrt(2)])
    assert one_group([1e-17, 0.0], magnitude=np.array([1.0, 0.0])) == [0.0, 0.0]
    assert one_group([1e-17, 0.0], magnitude=np.array([np.inf, 0.0])) == [0.0, 0.0]


def test_empty_input_gives_empty_output():
    assert credit.normalize(np.zeros(0), np.zeros(0, np.int32), 3).shape == (0,)
    assert one_group([1.0, 2.0], sample=np.array([False, False])) == [0.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_rejected(bad):
    with pytest.raises(credit.CreditError, match="not finite"):
        one_group([1.0, bad])
