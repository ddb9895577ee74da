"""Turn-LOO on examples worked out by hand."""

from __future__ import annotations

from helpers.episodes.worked import PAID, flat, near


def test_turn_loo_compares_with_the_others_that_have_the_turn_and_keeps_a_return_without_others() -> None:
    # turn 0: 6 − (2 + 0)/2, 2 − (6 + 0)/2, 0 − (6 + 2)/2; turn 1: 5 − 1, 1 − 5; turn 2: 3
    near(flat("turn_loo", PAID), [5.0, 4.0, 3.0, -1.0, -4.0, -4.0])
