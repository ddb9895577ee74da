"""Every scheme on a group of one, which has nothing to compare."""

from __future__ import annotations

import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit

ALONE = ("blend", "g2po", "grouptd", "stateless", "turn_loo")


# blend and g2po compare the turns of a rollout with each other, grouptd a rollout with its prior; stateless compares the turns of a
# rollout, and turn_loo keeps a return that it can compare with none
@pytest.mark.parametrize("name", [name for name in credit.names(given=()) if name not in ALONE])
def test_a_singleton_group_gets_zero_credit_from_states_visited_once(name):
    assert (credit.make(name).assign(group(walk("s a g"))).flat_advantages == 0.0).all()
