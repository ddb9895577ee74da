"""The environment: its contract, state keys, rewards, searches, advertisements and shared catalogue."""

from __future__ import annotations

import threading

import pytest
from helpers.worlds.webshop_small import small_stock, with_two_groups
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.envs import check_agent_env
from creditflow.envs.errors import ConfigError
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.presets import OBSERVATION_MODES, PRESETS
from creditflow.envs.webshop.render import insert_ads, page_nodes


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("obs_mode", OBSERVATION_MODES)
def test_the_agent_contract_holds_in_every_preset_and_mode(preset, obs_mode):
    check_agent_env(creditflow.make("webshop", preset=preset, obs_mode=obs_mode, max_steps=12, ads=1), steps=30)


def test_searches_with_equal_results_are_one_state():
    env = WebShopEnv()
    keys = set()
    for words in ("herbal teas", "teas herbal", "the herbal  teas"):
        env.reset(seed=3)
        keys.add(env.step(f"search[{words}]")[4]["state_key"])
    assert len(keys) == 1
    env.reset(seed=3)
    assert env.step("search[coffee beans]")[4]["state_key"] not in keys


def test_the_state_key_depends_on_the_options_but_not_on_their_order():
    env = WebShopEnv(preset="rewardflow")
    (_, one), (_, two) = with_two_groups(env).options
    start, keys, texts = env.get_state(), [], []
    for clicks in ((one[0], two[0]), (two[0], one[0]), (one[1], two[0]), (one[1], one[0], two[0])):
        env.set_state(start)
        for value in clicks:
            _, _, _, _, info = env.step(f"click[{value}]")
        keys.append(info["state_key"])
        texts.append(info["text_key"])
    assert keys[0] == keys[1] == keys[3] != keys[2]
    assert len(set(texts)) == 4  # RewardFlow's text key distinguishes orders and replaced values


def test_text_keys_of_rewardflow_forget_choices_on_a_sub_page():
    env = WebShopEnv(preset="rewardflow")
    (_, one), _ = with_two_groups(env).options
    assert env.step(f"click[{one[0]}]")[4]["text_key"].endswith(f" clicked attributes: [{one[0]}]")
    env.step("click[features]")
    info = env.step("click[< prev]")[4]
    assert "clicked attributes" not in info["text_key"]
    assert [value for _, value in env.shop_state.options] == [one[0]]


def test_the_trainers_presets_give_ten_for_a_perfect_purchase_only():
    for preset, wanted in (("standard", 1.0), ("verl_agent", 10.0), ("graphgpo", 10.0)):
        env = WebShopEnv(preset=preset)
        env.reset(seed=4)
        while env.oracle.distance(env.get_state()) > 1:
            env.step(env.oracle.optimal_actions(env.get_state())[0])
        assert env.step("click[buy now]")[1] == wanted
    env.reset(seed=4)
    env.step("search[tea]")
    env.step(f"click[{env.shop.listed(env.shop_state)[0].lower()}]")
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert info["score"] > 0


def test_reward_parts_are_flat_info_of_fixed_type():
    env = WebShopEnv()
    _, before = env.reset(seed=1)
    env.step("search[tea]")
    env.step(f"click[{env.shop.listed(env.shop_state)[0].lower()}]")
    after = env.step("click[buy now]")[4]
    parts = ("r_type", "r_att", "w_att", "r_option", "w_option", "r_price", "w_price", "title_score")
    assert all(before[key] == 0.0 for key in parts)
    whole = sum(after[f"r_{part}"] * after[f"w_{part}"] for part in ("att", "option", "price"))
    assert after["score"] == pytest.approx(whole * after["r_type"])


def test_searches_are_admissible_on_every_page_but_listed_on_the_first_only():
    env = WebShopEnv()
    _, info = env.reset(seed=2)
    assert all(action.startswith("search[") for action in info["admissible_actions"])
    for _ in range(3):
        _, _, _, _, info = env.step("search[tea]")
        assert info["action_valid"]
        assert not any(action.startswith("search[") for action in info["admissible_actions"])


@pytest.mark.parametrize(
    "query", ["<c>", "<a> machine washable", "<q>", "<r>", "<c> nowhere", "<q> herbal teas", "<r> <r>"]
)
def test_special_searches_never_crash_and_are_repeatable(query):
    env, pages = WebShopEnv(), []
    for _ in range(2):
        env.reset(seed=2)
        pages.append(env.step(f"search[{query}]")[0])
    assert pages[0] == pages[1]
    assert "Total results: " in pages[0]


@settings(max_examples=40)
@given(st.text(max_size=40), st.sampled_from(OBSERVATION_MODES))
def test_any_search_gives_a_page(text, mode):
    env = WebShopEnv(obs_mode=mode)
    env.reset(seed=0)
    _, _, _, _, info = env.step(f"search[{text}]")
    assert info["action_valid"] or info["page"] == "index"
    env.set_state(env.get_state())


def test_a_search_of_a_megabyte_gives_a_page_and_is_not_cached():
    env = WebShopEnv()
    env.reset(seed=0)
    kept = env.stock.catalogue._cached_search.cache_info().currsize
    for text in ("tea " * 250_000, "_" * 1_000_000, "<q> " + "x" * 1_000_000, "é" * 500_000):
        assert env.step(f"search[{text}]")[4]["page"] == "results"
    assert not env.step(f"search[{'[' * 1_000_000}]")[4]["action_valid"]
    assert env.stock.catalogue._cached_search.cache_info().currsize == kept


@pytest.mark.parametrize(
    "arguments",
    [
        {"preset": "graphpo"}, {"obs_mode": "txt"}, {"reward": "dense"}, {"tagger": "nltk"}, {"ads": -1}, {"ads": 1.5}, {"ad_chance": 2}, {"show_attributes": "no"},
        {"render_mode": "human"},
        {"panel": "standard-v1:tran"}, {"panel": "standard"}, {"split": "train"}, {"goals": "human"}, {"max_steps": 0},
        {"data": ".", "panel": "standard-v1"}, {"data": ".", "goals": "martian"},
    ],
)  # fmt: skip
def test_wrong_arguments_are_configuration_errors(arguments):
    with pytest.raises(ConfigError):
        WebShopEnv(**arguments)


def test_a_thousand_environments_share_one_catalogue():
    envs = [WebShopEnv() for _ in range(1000)]
    assert len({id(env.stock.catalogue) for env in envs}) == 1


def test_threads_over_one_catalogue_get_the_results_of_one_thread():
    stock = small_stock()
    stock.catalogue._cached_search.cache_clear()

    def play(out):
        env = WebShopEnv(data=stock, max_steps=40)
        for seed in range(30):
            _, info = env.reset(seed=seed)
            while info["admissible_actions"]:
                actions = info["admissible_actions"]
                obs, _, _, _, info = env.step(actions[(seed * 7 + env.elapsed_steps * 3) % len(actions)])
                out.append((obs, info["state_key"]))

    results: list[list[tuple[str, str]]] = [[] for _ in range(9)]
    play(results[0])
    threads = [threading.Thread(target=play, args=(out,)) for out in results[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(out == results[0] for out in results)


def test_advertisements_change_the_text_but_neither_state_nor_actions():
    plain, noisy = WebShopEnv(obs_mode="text_rich"), WebShopEnv(preset="graphgpo", ads=3)
    seen = set()
    for seed in (1, 2):
        _, a = plain.reset(options={"task": {"goal": 3}})
        text, b = noisy.reset(seed=seed, options={"task": {"goal": 3}})
        for action in ("search[tea]", "click[next >]", "click[< prev]"):
            clean, _, _, _, a = plain.step(action)
            text, _, _, _, b = noisy.step(action)
            assert (a["state_key"], a["admissible_actions"]) == (b["state_key"], b["admissible_actions"])
            assert len(text.splitlines()) == len(clean.splitlines()) + 3
            assert set(clean.splitlines()) <= set(text.splitlines())
            seen.add(text)
    assert len(seen) == 6


def test_advertisements_appear_with_their_probability():
    env = WebShopEnv()
    env.reset(seed=1)
    nodes = page_nodes(env.shop, env.shop_state)
    counts = [len(insert_ads(nodes, 10, str(key), chance=0.3)) - len(nodes) for key in range(200)]
    assert 500 < sum(counts) < 700
    assert all(insert_ads(nodes, 3, str(key))[:3] == nodes[:3] for key in range(50))
