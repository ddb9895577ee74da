"""Snapshots: restored in any instance, rejected if malformed."""

from __future__ import annotations

import json

import pytest
from helpers.worlds.webshop_small import with_two_groups

import creditflow
from creditflow.envs.errors import DataError
from creditflow.envs.webshop.env import WebShopEnv


def test_an_episode_that_is_over_stays_over_when_restored():
    env, other = WebShopEnv(), WebShopEnv(obs_mode="text_rich")
    env.reset(seed=1)
    env.step("search[tea]")
    env.step(f"click[{env.shop.listed(env.shop_state)[0].lower()}]")
    env.step("click[buy now]")
    _, info = other.set_state(env.get_state())
    assert info["admissible_actions"] == ()
    with pytest.raises(creditflow.errors.EpisodeError):
        other.step("search[tea]")


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"}, {"page": "elsewhere"}, {"steps": -1}, {"steps": True}, {"asin": "NOPE", "page": "item"},
        {"options": [["a"]]}, {"clicked": [1]}, {"sub": "Reviews"}, {"number": "1"}, {"task": {}}, {"extra": 1},
        {"page": "item"}, {"values": 3}, {"number": 10**60}, {"options": [["color", "red"]]},
    ],
)  # fmt: skip
def test_damaged_snapshots_are_rejected(change):
    env = WebShopEnv()
    env.reset(seed=0)
    damaged = json.dumps(json.loads(env.get_state()) | change)
    for read in (env.set_state, env.oracle.value):
        with pytest.raises(DataError):
            read(damaged)


def test_snapshots_with_options_that_the_product_lacks_are_rejected():
    env = WebShopEnv()
    with_two_groups(env)
    data = json.loads(env.get_state()) | {"options": [["color", "no such colour"]]}
    with pytest.raises(DataError, match="no such colour"):
        env.set_state(json.dumps(data))
