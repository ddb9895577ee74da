"""PiCA's significance test over training runs, against hand-worked numbers, scipy and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from evidence.pica.significance import COMPARED, significance, significance_text
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from creditflow.envs.errors import ConfigError
from creditflow.train.statistics import sign_flip_test

TREATED, F1, PENALTY = COMPARED
numbers = st.floats(-1, 1).map(lambda x: round(x, 3))


def runs(differences, base=0.5):
    d = np.asarray(differences, float)
    return {TREATED: base + d, F1: np.full(d.shape, base)}


def test_the_backbones_are_strata_and_the_seeds_the_samples():
    # two backbones of two seeds: means .2 and .4, each with the standard error |.3 − .1|/2 = .1; mean .3, error √(.01 + .01)/2
    (row,) = significance(runs([[0.1, 0.3], [0.3, 0.5]]))["rivals"].values()
    assert row["difference"] == pytest.approx(0.3)
    # by Welch and Satterthwaite: two degrees of freedom, t.975 = 4.3027
    assert row["high"] - row["difference"] == pytest.approx(4.302653 * np.sqrt(0.02) / 2, rel=1e-6)
    assert (row["pairs_won"], row["pairs_lost"]) == (4, 0)
    assert row["p_exact"] == 2 / 16


def test_a_difference_between_backbones_is_not_noise():
    # every seed agrees within its backbone: the interval is narrow, although the backbones differ by much
    (row,) = significance(runs([[0.1, 0.11, 0.12], [0.9, 0.91, 0.92]]))["rivals"].values()
    assert row["high"] - row["low"] < 0.05


def test_p_values_are_adjusted_over_the_baselines_and_the_strongest_is_named():
    one = runs(np.full((4, 3), 0.1) + np.arange(12).reshape(4, 3) / 100)
    alone = significance(one)["rivals"][F1]
    both = significance({**one, PENALTY: one[F1] - 0.2})
    assert both["strongest"] == F1
    assert both["rivals"][F1]["p_exact"] == 2 * alone["p_exact"] == 4 / 2**12
    assert both["rivals"][F1]["p_t"] >= alone["p_t"]
    assert f"minus {F1} (0.500, the strongest)" in significance_text(both)
    assert "12 runs" in significance_text(both)


def test_runs_that_do_not_vary_have_no_interval():
    (row,) = significance(runs(np.full((4, 3), 0.25)))["rivals"].values()
    assert row["difference"] == pytest.approx(0.25)
    assert row["p_exact"] == 2 / 2**12
    assert "won 12" in significance_text(significance(runs(np.full((4, 3), 0.25))))


@pytest.mark.parametrize(
    "given_runs",
    [
        {F1: [[0.1, 0.2]]},
        {TREATED: [[0.1, 0.2]]},
        {TREATED: [[0.1, 0.2]], F1: [[0.1]]},
        {TREATED: [[0.1], [0.2]], F1: [[0.1], [0.2]]},
        {TREATED: [0.1, 0.2], F1: [0.1, 0.2]},
    ],
)
def test_runs_that_are_not_paired_are_refused(given_runs):
    with pytest.raises(ConfigError, match="expected runs"):
        significance(given_runs)


@given(st.lists(numbers, min_size=1, max_size=9))
def test_the_exact_p_value_counts_sign_flips(x):
    flipped = [abs(np.dot(signs, x)) for signs in product((-1, 1), repeat=len(x))]
    expected = np.mean([value >= abs(sum(x)) - 1e-12 for value in flipped])
    assert sign_flip_test(x) == pytest.approx(expected)


@given(st.lists(numbers, min_size=1, max_size=9), st.randoms(), st.sampled_from([-1.0, 2.0**-9, 1.0, 2.0**9]))
def test_the_exact_p_value_depends_neither_on_order_nor_scale(x, random, scale):
    shuffled = [scale * value for value in x]
    random.shuffle(shuffled)
    assert sign_flip_test(shuffled) == sign_flip_test(x)


@given(st.lists(numbers.filter(bool), min_size=2, max_size=8))
def test_the_exact_p_value_is_scipys(x):
    stats = pytest.importorskip("scipy.stats")
    found = stats.permutation_test((np.array(x),), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_test(x) == pytest.approx(found.pvalue)


@pytest.mark.parametrize("bad", [[float("nan")], [float("inf"), 1.0], [0.1] * 21])
def test_the_exact_test_refuses_what_it_cannot_count(bad):
    with pytest.raises(ConfigError, match="at most 20 finite differences"):
        sign_flip_test(bad)


@given(arrays(float, (3, 3), elements=numbers), numbers)
def test_the_interval_is_around_the_mean_and_moves_with_it(d, shift):
    (row,) = significance(runs(d))["rivals"].values()
    (moved,) = significance(runs(d + shift))["rivals"].values()
    assert row["difference"] == pytest.approx(d.mean(), abs=1e-9)
    if row["low"] is not None:
        assert row["low"] <= row["difference"] <= row["high"]
        assert moved["low"] == pytest.approx(row["low"] + shift, abs=1e-6)
