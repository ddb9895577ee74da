"""The oracle against exhaustive search, and properties that hold in every shop."""

from __future__ import annotations

import math
from functools import cache

import pytest
from helpers.worlds.webshop_small import small_stock
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.webshop.actions import parse_action
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.oracle import GoalOracle, click_costs, find_product
from creditflow.envs.webshop.rules import INDEX, Shop, ShopState, listed_actions

STOCK = small_stock()


def act(shop, state, text):
    action = parse_action(text)
    assert action is not None
    assert not shop.rejection_reason(state, action)
    return shop.act(state, action)


def searches(shop):
    """A search for every product."""
    for row in range(len(shop.catalogue)):
        query, _ = find_product(shop.catalogue, shop.catalogue.store.asin(row))
        yield f"search[{query}]"


def successors(shop, state):
    if state.page == "done":
        return
    for text in (*listed_actions(shop, state), *searches(shop)):
        yield text, act(shop, state, text)


def brute_force(shop, horizon):
    """Best score within n steps for n up to ``horizon``, for any state, by trying everything."""

    @cache
    def best(state, left):
        if state.page == "done":
            return shop.purchase(state).score
        return max((best(after, left - 1) for _, after in successors(shop, state)), default=0.0) if left else 0.0

    return best


def without_history(state):
    """The state without viewed products, which do not affect the score."""
    return ShopState(state.page, state.query, state.number, state.asin, state.options, state.sub)


@pytest.mark.parametrize("number", range(0, len(STOCK.goals), 5))
def test_value_and_distance_agree_with_exhaustive_search(number):
    shop = Shop(STOCK.catalogue, STOCK.goals[number], "0")
    oracle, best = GoalOracle(shop), brute_force(shop, 4)
    frontier, seen = [INDEX], {INDEX}
    for _ in range(2):
        frontier = [without_history(after) for state in frontier for _, after in successors(shop, state)]
        frontier = [state for state in dict.fromkeys(frontier) if state not in seen][:25]
        seen.update(frontier)
    for state in sorted(seen, key=repr)[:40]:
        for left in range(4):
            assert oracle.value(state, left) == best(state, left), (state, left)
        distance = oracle.distance(state)
        if distance <= 3:
            assert best(state, int(distance)) == 1.0
        if 1 <= distance <= 4:
            assert best(state, int(distance) - 1) < 1.0


@settings(max_examples=30)
@given(st.data())
def test_no_action_beats_the_distance_and_optimal_ones_keep_it(data):
    stock = embedded_stock()
    shop = Shop(stock.catalogue, data.draw(st.sampled_from(stock.goals)), "0")
    oracle, state = GoalOracle(shop), INDEX
    for _ in range(data.draw(st.integers(0, 6))):
        action = data.draw(st.sampled_from(listed_actions(shop, state)))
        if action == "click[buy now]":
            break
        state = act(shop, state, action)
    distance, best = oracle.distance(state), oracle.optimal_actions(state)
    for text, after in ((t, act(shop, state, t)) for t in {*listed_actions(shop, state), *best}):
        beyond = oracle.distance(after)
        assert beyond >= distance - 1
        assert (beyond == distance - 1) == (text in best)
    assert oracle.value(state) == 1.0
    assert oracle.value(state, int(distance)) == 1.0
    assert oracle.value(state, int(distance) - 1) < 1.0


def test_values_never_decrease_with_more_steps():
    for goal in STOCK.goals:
        oracle = GoalOracle(Shop(STOCK.catalogue, goal, "0"))
        values = [oracle.value(INDEX, left) for left in range(8)]
        assert values == sorted(values)
        assert values[:3] == [0.0, 0.0, 0.0]


def test_optimal_actions_reach_the_oracles_value_in_its_distance():
    env = WebShopEnv()
    for seed in range(40):
        env.reset(seed=seed)
        distance = env.oracle.distance(env.get_state())
        for _ in range(int(distance)):
            _, reward, terminated, _, info = env.step(env.oracle.optimal_actions(env.get_state())[-1])
        assert terminated
        assert (info["success"], reward, env.oracle.distance(env.get_state())) == (True, 1.0, 0.0)


def test_a_failed_purchase_is_final():
    env = WebShopEnv()
    env.reset(seed=1)
    env.step("search[tea]")
    env.step(f"click[{env.shop.listed(env.shop_state)[0].lower()}]")
    _, score, *_ = env.step("click[buy now]")
    snapshot = env.get_state()
    assert math.isinf(env.oracle.distance(snapshot))
    assert env.oracle.optimal_actions(snapshot) == ()
    assert env.oracle.value(snapshot) == score


@given(
    st.dictionaries(
        st.text(max_size=2), st.dictionaries(st.integers(0, 7), st.integers(0, 1), min_size=1, max_size=4), max_size=3
    )
)
def test_click_costs_are_the_cheapest_combinations(groups):
    expected = {0: 0}
    for choices in groups.values():
        expected = {
            key: min(c + x for met, c in expected.items() for more, x in choices.items() if met | more == key)
            for key in {met | more for met in expected for more in choices}
        }
    assert click_costs(groups) == expected
