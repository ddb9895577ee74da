"""DRACO: the worked examples, its sum over tokens, and its edge cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.trajectory import Trajectory

PASSED, FAILED = "rubric.passed", "rubric.failed"
# with a rollout of the other score beside it, the outcome advantage is ±A
A = 0.5**0.5
DRACO = credit.make("draco")


def judged(
    won: bool, sizes: Sequence[int], passed: Sequence[float], failed: Sequence[float], name: str = ""
) -> Trajectory:
    """A rollout whose turns have so many tokens and are cited by so many criteria."""
    n = sum(sizes)
    tokens = Tokens(
        np.zeros(n, np.int32), np.ones(n, np.bool_), np.zeros(n, np.float32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
    )  # fmt: skip
    path = [f"{name}{won}{t}" for t in range(len(sizes) + 1)]
    played = walk(path, "success" if won else "failed")
    return replace(annotated(played, {PASSED: passed, FAILED: failed}), tokens=tokens)


OTHER = {won: judged(won, [1], [0], [0], "other") for won in (True, False)}


def credit_of(one: Trajectory) -> list[float]:
    scored = DRACO.assign(group(one, OTHER[not one.success]))
    return [round(float(x) / A, 12) for x in scored.advantages[0]]


def test_the_worked_examples():
    np.testing.assert_allclose(credit_of(judged(True, [2, 4], [1, 1], [0, 0])), [1.5, 0.75])
    np.testing.assert_allclose(credit_of(judged(True, [2, 4], [1, 1], [1, 0])), [1.0, 1.0])
    lost = judged(False, [10, 20, 10], [4, 1, 0], [1, 3, 0])
    np.testing.assert_allclose(credit_of(lost), [-0.5614, -1.0526, -1.3333], atol=6e-5)
    assert np.dot(credit_of(lost), [10, 20, 10]) == pytest.approx(-40.0)


def test_without_citations_the_rollout_keeps_its_outcome_advantage():
    assert credit_of(judged(True, [2, 4], [0, 0], [0, 0])) == [1.0, 1.0]


def test_where_all_weights_are_zero_the_rollout_keeps_its_outcome_advantage():
    # a success cited for failures alone, a failure cited for passes alone
    assert credit_of(judged(True, [2, 4], [0, 0], [1, 2])) == [1.0, 1.0]
    assert credit_of(judged(False, [2, 4], [1, 2], [0, 0])) == [-1.0, -1.0]


def test_a_short_turn_can_get_all_of_a_long_rollouts_credit():
    scored = DRACO.assign(group(judged(True, [1, 99], [1, 0], [0, 1]), OTHER[False]))
    np.testing.assert_allclose(scored.advantages[0] / A, [100.0, 0.0], atol=1e-12)
    assert scored.diagnostics["largest"] == pytest.approx(100.0 * A)


def test_a_turn_without_tokens_gets_no_credit():
    np.testing.assert_allclose(credit_of(judged(True, [0, 4], [1, 1], [0, 0]))[1], 1.0)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6))
def test_credit_times_tokens_sums_to_the_outcome_advantage_and_signs_stay(seed):
    played = random_group(np.random.default_rng(seed), values=(PASSED, FAILED), token_values=("value.critic",))
    scored = credit.make("draco").assign(played)
    for i, sizes in enumerate(played.arrays.split(played.token_counts)):
        total = float(np.dot(scored.advantages[i], sizes))
        assert total == pytest.approx(scored.outcome_advantages[i] * sizes.sum(), abs=1e-9)
        assert (scored.advantages[i] * scored.outcome_advantages[i] >= 0.0).all()


def test_a_negative_number_of_criteria_is_rejected():
    with pytest.raises(CreditError, match="at least 0"):
        DRACO.assign(group(judged(True, [1], [-1], [0])))


def test_a_missing_annotation_names_the_command_that_writes_it():
    with pytest.raises(CreditError, match="creditflow annotate --with rubric:URL#MODEL"):
        DRACO.assign(group(walk("s a")))
