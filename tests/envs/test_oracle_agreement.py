"""All oracles: value and distance agree about reachability in every visited state."""

from __future__ import annotations

import math

import pytest
from helpers.shared_data import SHARED
from helpers.worlds.any_env import SOURCES, made, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.webshop.env import WebShopEnv

ENVS = {source: made(source) for source in SOURCES}


def agree(env, snapshot):
    """Assert that the value is 1 exactly where the distance is finite, within any number of steps."""
    oracle = env.oracle
    value, distance, best = oracle.value(snapshot), oracle.distance(snapshot), oracle.optimal_actions(snapshot)
    assert (value == 1.0) == math.isfinite(distance)
    assert bool(best) == (math.isfinite(distance) and distance > 0)
    known = [oracle.value(snapshot, steps_left=k) for k in range(9)]
    assert known == sorted(known)
    assert known[-1] <= value
    over = not env.set_state(snapshot)[1]["admissible_actions"]
    if not over:
        assert [k for k in range(9) if known[k] == 1.0] == [k for k in range(9) if distance <= k]


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**31), steps=st.integers(1, 10))
def test_value_is_one_exactly_where_the_distance_is_finite(source, seed, steps):
    env = ENVS[source]
    for snapshot in [snapshot for snapshot, _, _ in walk(env, seed, steps)][-3:]:
        agree(env, snapshot)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no golden data: {SHARED} is not there")
@pytest.mark.parametrize("goals", ["synthetic", "human"])
def test_goals_that_no_product_satisfies_have_a_value_below_one(goals):
    """Of the real goals hundreds are out of reach, because of the colour rule."""
    env = WebShopEnv(data=str(SHARED / "data" / "webshop"), goals=goals)
    tried = range(0, len(env.stock.goals), 61 if goals == "synthetic" else 1)[:120]
    values = []
    for number in tried:
        _, info = env.reset(options={"task": {"goal": number}})
        agree(env, env.get_state())
        values.append((env.oracle.value(env.get_state()), info["solvable"]))
    assert all(value == 1.0 for value, solvable in values if solvable)
    if goals == "synthetic":
        assert any(value < 1.0 for value, _ in values)
