"""Step-to-go on examples worked out by hand."""

from __future__ import annotations

import numpy as np
from helpers.episodes.worked import PAID, flat, near


def test_step_to_go_centres_returns_over_the_group_or_over_a_turns_number() -> None:
    # returns to go 6, 5, 3 | 2, 1 | 0, mean 17/6
    near(flat("step_to_go", PAID), [6 - 17 / 6, 5 - 17 / 6, 3 - 17 / 6, 2 - 17 / 6, 1 - 17 / 6, -17 / 6])
    # turn 0: mean 8/3; turn 1: mean 3; turn 2 is of one rollout alone
    near(flat("step_to_go", PAID, centre_over="turn"), [6 - 8 / 3, 2.0, 0.0, 2 - 8 / 3, -2.0, -8 / 3])
    # γ .5: 1 + 1 + .75, 2 + 1.5, 3 | 1.5, 1 | 0
    returns = np.array([2.75, 3.5, 3.0, 1.5, 1.0, 0.0])
    near(flat("step_to_go", PAID, discount=0.5), returns - returns.mean())
