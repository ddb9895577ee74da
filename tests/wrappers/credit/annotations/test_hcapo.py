"""HCAPO: the worked example, its smoothing, do no harm, and its edge cases."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.trajectory import Trajectory


def seen(trajectory: Trajectory, likelihood: list[float]) -> Trajectory:
    """A rollout with these h, at temperature 5."""
    return annotated(trajectory, {"logp.hindsight": (5.0 * np.log(likelihood)).tolist()})


PLAYED = group(seen(walk("s a b g"), [0.3, 0.6, 0.6]), seen(walk("s c x", "failed"), [0.4, 0.4]))


def test_the_worked_example():
    scored = credit.make("hcapo").assign(PLAYED)
    np.testing.assert_allclose(scored.diagnostics["ratio"], [0.6, 1.2, 1.2, 1.0, 1.0])
    np.testing.assert_allclose(scored.flat_step_rewards, [0.722, 1.14, 1.2, 0.0, 0.0], atol=6e-5)
    np.testing.assert_allclose(scored.flat_step_advantages, [0.2082, 1.0022, 1.1162, -1.1633, -1.1633], atol=6e-5)
    np.testing.assert_allclose(scored.flat_advantages, [1.2082, 2.0022, 2.1162, -2.1633, -2.1633], atol=6e-5)
    assert scored.aggregation == "turn_mean"


def test_turns_of_a_success_below_the_mean_are_not_punished():
    played = group(seen(walk("s a b c d e f g"), [0.5] * 7), seen(walk("s g"), [0.5]))
    scored = credit.make("hcapo").assign(played)
    assert (scored.flat_step_advantages >= 0.0).all()
    assert scored.flat_step_advantages[0] == 0.0


def test_all_turns_of_failures_get_one_number_and_equal_products_give_zero():
    lost = group(seen(walk("s a b x", "failed"), [0.1, 0.9, 0.5]), seen(walk("s y", "failed"), [0.3]))
    assert not credit.make("hcapo").assign(lost).flat_advantages.any()
    alone = group(seen(walk("s g"), [0.3]), seen(walk("s h"), [0.7]))
    assert not credit.make("hcapo").assign(alone).flat_advantages.any()


def test_tiny_likelihoods_of_long_actions_keep_their_ratio():
    rows = [annotated(walk("s a g"), {"logp.hindsight": [x, x - 5 * np.log(1.1)]}) for x in (-1.0, -9000.0)]
    ratios = [credit.make("hcapo").assign(group(row)).diagnostics["ratio"] for row in rows]
    np.testing.assert_allclose(*ratios)


def test_successes_of_unequal_length_are_no_ties():
    report = credit.check_credit(credit.make("hcapo"), draws=20)
    for name in ("stopping_time", "ties_zero"):
        assert not report.holds(name)


def test_a_missing_annotation_names_the_command_that_writes_it():
    with pytest.raises(CreditError, match="creditflow annotate --with hindsight:DIR"):
        credit.make("hcapo").assign(group(walk("s a")))
