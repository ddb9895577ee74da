"""VPR: the worked example, and what an oracle confirms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk

from creditflow import credit
from creditflow.wrappers.credit import CreditError

DISTANCE = "distance.oracle"
PLAYED = group(
    annotated(walk("s a b g"), {DISTANCE: [3, 2, 1, 0]}),
    annotated(walk("s c trap", "failed"), {DISTANCE: [3, 4, -1]}),  # −1: no success can be reached
    annotated(walk("s a s", "env_limit"), {DISTANCE: [3, 2, 3]}),
)


def vpr(**options: Any) -> credit.Scheme:
    return credit.make("vpr", **options)


def test_the_oracle_confirms_turns_after_which_a_success_is_nearer() -> None:
    assert vpr().assign(PLAYED).flat_step_rewards.tolist() == [1, 1, 1, 0, 0, 1, 0]


def test_the_worked_example() -> None:
    # first turns: verdicts 1, 0, 1, mean 2/3, sample deviation √⅓; second turns: 1, 0, 0, mean 1/3, the same deviation
    scored = vpr().assign(PLAYED)
    np.testing.assert_allclose(scored.advantages[0], [3**0.5 / 3, 2 * 3**0.5 / 3, 0.0])  # the third turn stands alone
    np.testing.assert_allclose(scored.advantages[1], [-2 * 3**0.5 / 3, -(3**0.5) / 3])
    np.testing.assert_allclose(scored.advantages[2], [3**0.5 / 3, -(3**0.5) / 3])


def test_outcomes_do_not_count() -> None:
    assert not vpr().assign(PLAYED).outcome_advantages.any()


def test_a_state_without_a_way_to_success_confirms_nothing_and_leaving_it_does() -> None:
    played = group(
        annotated(walk("s a b", "failed"), {DISTANCE: [-1, -1, 5]}), annotated(walk("s c d"), {DISTANCE: [2, 1, 0]})
    )
    assert vpr().assign(played).flat_step_rewards.tolist() == [0, 1, 1, 1]


def test_without_an_oracle_the_error_names_the_command() -> None:
    with pytest.raises(CreditError, match="creditflow annotate --with oracle"):
        vpr().assign(group(walk("s g")))
