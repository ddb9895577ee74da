"""AgentOPSD: the worked examples, the clamp of its first value, and its edge cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.trajectory import Group

GAP = "logp.teacher.gap"
A = 0.5**0.5  # the outcome advantage of one success among two rollouts


def played(gaps: list[float], reward: float = 1.0) -> Group:
    """A success and a failure with these gaps, so that V_0 is .5 and the advantages are ±A."""
    steps = range(len(gaps) + 1)
    won = annotated(walk([f"w{t}" for t in steps], reward=reward), {GAP: gaps})
    lost = annotated(walk([f"l{t}" for t in steps], "failed"), {GAP: gaps})
    return group(won, lost)


def opsd(**options: Any) -> credit.Scheme:
    return credit.make("agent_opsd", **options)


def test_the_worked_example():
    scored = opsd().assign(played([1.0, -0.5, 0.2]))
    np.testing.assert_allclose(scored.step_rewards[0], [0.2311, -0.1086, 0.0457], atol=6e-5)
    won, lost = scored.advantages
    np.testing.assert_allclose(won / A, [1.1, 0.9, 0.9926], atol=6e-5)
    np.testing.assert_allclose(lost / A, [-0.9, -1.1, -1.0074], atol=6e-5)


def test_rewards_of_ten_set_the_first_value_to_its_clamp_as_released():
    released = opsd(semantics="release").assign(played([1.0, -0.5, 0.2], reward=10.0))
    np.testing.assert_allclose(released.advantages[0] / A, [1.1, 0.9, 0.9843], atol=1e-4)


def test_a_single_turn_and_a_dead_group_keep_the_outcome_advantage():
    np.testing.assert_allclose(opsd().assign(played([3.0])).flat_advantages, [A, -A])
    dead = group(*[annotated(walk(f"s {n} g"), {GAP: [1.0, -2.0]}) for n in "ab"])
    assert not opsd().assign(dead).flat_advantages.any()


def test_equal_gaps_of_zero_change_nothing():
    np.testing.assert_allclose(opsd().assign(played([0.0, 0.0, 0.0])).flat_advantages, [A] * 3 + [-A] * 3)


def test_gaps_that_move_the_value_by_rounding_errors_alone_change_nothing():
    np.testing.assert_allclose(opsd().assign(played([1e-12, 3e-12, -1e-12])).flat_advantages, [A] * 3 + [-A] * 3)


def test_values_stay_away_from_certainty_by_a_millionth():
    scored = opsd().assign(played([100.0, -200.0]))
    np.testing.assert_allclose(scored.diagnostics["values"], [1.0 - 1e-6, 1e-6] * 2, rtol=1e-9)
    np.testing.assert_allclose(scored.step_rewards[0], [0.5 - 1e-6, 2e-6 - 1.0], rtol=1e-9)


@given(gaps=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), mix=st.floats(0, 1), clip=st.floats(0, 0.99))
def test_advantages_stay_within_the_clip_and_keep_their_sign(gaps, mix, clip):
    scored = opsd(mix=mix, clip=clip).assign(played(gaps))
    scale = scored.flat_advantages * np.repeat([1 / A, -1 / A], len(gaps))
    assert (scale >= 1.0 - mix * clip - 1e-12).all()
    assert (scale <= 1.0 + mix * clip + 1e-12).all()


def test_a_missing_annotation_names_the_command_that_writes_it():
    with pytest.raises(CreditError, match="creditflow annotate --with teacher:DIR"):
        opsd().assign(group(walk("s a")))
