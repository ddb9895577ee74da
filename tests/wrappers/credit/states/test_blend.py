"""Blend: its two halves by hand, and when each of them counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit

RECURRING = (walk("s a g"), walk("s a x", "failed"), walk("s b x", "failed"))
FRESH = (walk("s a1 a2"), walk("s b1 b2", "failed"))


def blend(**options: Any) -> credit.Scheme:
    return credit.make("blend", **options)


def unit(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean()
    scaled: np.ndarray = centred / np.sqrt((centred**2).mean())
    return scaled


def test_where_keys_recur_it_is_grouptd_and_half_of_gigpo() -> None:
    played = group(*RECURRING)
    c, g = (credit.make(name).assign(played).flat_advantages for name in ("grouptd", "gigpo"))
    scored = blend().assign(played)
    assert scored.diagnostics["recurring"] == pytest.approx(2 / 3)  # of a, a, b two are visited by another rollout
    assert scored.diagnostics["weight"] == 1.0
    both = unit(c) + 0.5 * unit(g)
    np.testing.assert_allclose(scored.flat_advantages, both / np.sqrt((both**2).mean()))


def test_the_worked_example_of_the_baseline_by_time() -> None:
    # ρ = 2/4; both rollouts act at turns 0 and 1: f = (10 + 1/ρ) / (10 + 2) = 1, so V = 1/2 at both
    # δ = 0, 1/2 | 0, −1/2, and T = .9/2, 1/2 | −.9/2, −1/2; √ρ and the scale cancel, and the mean is 0
    scored = blend().assign(group(*FRESH))
    assert scored.diagnostics["weight"] == 0.0
    expected = np.array([0.9, 1.0, -0.9, -1.0])
    np.testing.assert_allclose(scored.flat_advantages, expected / np.sqrt((expected**2).mean()))


def test_the_credit_of_each_group_is_centred_and_that_of_the_batch_has_unit_size() -> None:
    groups = [group(*RECURRING), group(walk("s a g"), walk("s a x", "failed"), walk("s a x", "failed"))]
    scored = blend().assign_batch(groups)
    for result in scored:
        assert result.flat_advantages.mean() == pytest.approx(0.0, abs=1e-12)
    joined = np.concatenate([result.flat_advantages for result in scored])
    assert np.sqrt((joined**2).mean()) == pytest.approx(1.0)


def test_a_batch_without_success_whose_keys_recur_gets_exactly_zero() -> None:
    played = group(walk("s a x", "failed"), walk("s a x", "failed"))
    assert not blend().assign(played).flat_advantages.any()


def test_a_penalty_is_subtracted_after_the_scale() -> None:
    played = group(walk("s a g", invalid=(0,)), *RECURRING[1:])
    with_penalty, without = (blend(invalid_penalty=x).assign(played).flat_advantages for x in (0.2, 0.0))
    np.testing.assert_allclose(with_penalty - without, [-0.2, 0, 0, 0, 0, 0], atol=1e-12)
