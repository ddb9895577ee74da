"""``prm``: step rewards of a judge, or any annotation, become credit."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.annotated import with_annotations
from helpers.episodes.builders import group, walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError


def test_judge_scores_are_normalised_over_the_group_and_summed_to_the_end() -> None:
    g = group(
        with_annotations(walk("s a g"), judge__score=[1.0, 3.0]),
        with_annotations(walk("s b", "failed"), judge__score=[5.0]),
    )
    scored = credit.make("prm").assign(g)
    np.testing.assert_allclose(np.concatenate(scored.advantages), [-1.0 + 0.0, 0.0, 1.0])
    assert scored.outcome_advantages.tolist() == [0.0, 0.0]


def test_any_annotation_can_be_the_step_reward() -> None:
    g = group(
        with_annotations(walk("s a g"), value__x=[0.0, 0.25, 1.0]),
        with_annotations(walk("s b", "failed"), value__x=[0.0, 0.0]),
    )
    scored = credit.make("prm", value="value.x", form="increase").assign(g)
    np.testing.assert_allclose(scored.flat_step_rewards, [0.25, 0.75, 0.0])
    assert credit.make("prm", value="value.x").needs == ("value.x",)
    with pytest.raises(ConfigError, match=r"without '\.next'"):
        credit.make("prm", value="value.x.next")


@given(seed=st.integers(0, 99))
def test_equal_scores_of_all_turns_give_zero_credit(seed):
    n = np.random.default_rng(seed).integers(1, 5, 3)
    g = group(*(with_annotations(walk([f"{t}" for t in range(k)] + ["g"]), judge__score=[0.7] * k) for k in n.tolist()))
    assert not credit.make("prm").assign(g).flat_advantages.any()
