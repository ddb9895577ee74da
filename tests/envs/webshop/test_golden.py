"""The shop against the original's recordings: zero differences in pages, actions, rankings, rewards, goals, prices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from helpers.shared_data import shared_files
from helpers.worlds.webshop_golden import goal_from, lines, loads, stock

from creditflow.envs.webshop.actions import parse_action
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.goals import NO_CAP, Goal
from creditflow.envs.webshop.goals.tasks import goal_content
from creditflow.envs.webshop.render import page_nodes, render_rich, render_text
from creditflow.envs.webshop.reward import score_purchase
from creditflow.envs.webshop.rules import INDEX, Shop, address

shared_files("conformance/webshop/*")


def sha256(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def same_info(parts, info):
    return {key: value for key, value in parts._asdict().items() if key in info} == info


def view(shop, state):
    nodes = page_nodes(shop, state)
    return {
        "text": render_text(nodes),
        "rich": render_rich(nodes, state, shop.session),
        "avail": {"has_search_bar": state.page == "index", "clickables": list(shop.clickables(state))},
        "url": address(state, shop.session),
    }


def replay(episode):
    """Pairs (ours, recorded) of everything seen along one episode."""
    goal = goal_from(episode["goal"])
    shop, state = Shop(stock().catalogue, goal, str(episode["session"])), INDEX
    yield goal.instruction, episode["instruction"].removeprefix("Instruction: ")
    yield view(shop, state), {key: episode["reset"][key] for key in ("text", "rich", "avail", "url")}
    for step in episode["steps"]:
        if "raises" in step:  # the original's own crash; ours is tested in test_bad_input
            return
        action = parse_action(step["action"])
        reward = 0.0
        if action is not None and not shop.rejection_reason(state, action):
            state = shop.act(state, action)
            if state.page == "done":
                bought, wanted = step["nouns"]
                nouns = {shop.product(state).title: bought} | {goal.name: wanted}
                shop = replace(shop, tagger=nouns.__getitem__)
                parts = shop.purchase(state)
                reward = parts.score
                yield same_info(parts, step["info"]), True
                yield (state.asin, dict(state.options)), (step["asin"], step["options"])
        if step["action"].startswith("search[<r>"):  # fifty products at random: only the form can agree
            ours, recorded = view(shop, state), step
            yield ours["text"].count(" [SEP] "), recorded["text"].count(" [SEP] ")
            yield ours["url"], recorded["url"]
            return
        yield (reward, state.page == "done"), (step["reward"], step["done"])
        yield view(shop, state), {key: step[key] for key in ("text", "rich", "avail", "url")}


def test_every_recorded_episode_is_reproduced():
    episodes = 0
    for episode in lines("transcripts*.jsonl.gz"):
        for ours, recorded in replay(episode):
            assert ours == recorded, (episode["kind"], episode["session"])
        episodes += 1
    assert episodes > 0


def test_the_environment_returns_the_recorded_pages_and_lists_their_clickable_texts():
    env = WebShopEnv(data=stock(), preset="upstream", max_steps=10_000)
    digest = env.stock.catalogue.digest
    for episode in lines("transcripts*.jsonl.gz"):
        observation, info = env.reset(options={"task": goal_content(goal_from(episode["goal"]), digest)})
        assert observation == episode["reset"]["text"]
        for step in episode["steps"]:
            if "raises" in step or step["action"].startswith("search[<r>"):
                break
            observation, _, terminated, _, info = env.step(step["action"])
            assert terminated == step["done"]
            if terminated:  # the score needs the recorded nouns; it is compared above
                break
            assert observation == step["text"]
            clicks = [action[6:-1] for action in info["admissible_actions"] if action.startswith("click[")]
            shown = [text for text in step["avail"]["clickables"] if parse_action(f"click[{text}]") == ("click", text)]
            assert clicks == [text for text in shown if text != "search"]


def test_every_recorded_ranking_is_reproduced_in_order():
    catalogue, queries = stock().catalogue, 0
    for record in lines("search*.jsonl.gz"):
        rows, scores = catalogue.engine.search(record["q"], 50)
        assert [catalogue.store.asin(int(row)) for row in rows] == record["asins"], record["q"]
        assert scores.tolist() == pytest.approx(record["scores"], abs=1e-4)
        queries += 1
    assert queries > 0


def test_every_recorded_reward_is_reproduced_with_its_parts():
    catalogue, count = stock().catalogue, 0
    for record in lines("reward*.jsonl.gz"):
        goal, product = goal_from(record["goal"]), catalogue.product(record["asin"])
        nouns = {product.title: record["nouns_purchased"]} | {goal.name: record["nouns_goal_list"]}
        chosen = record["options"].values()
        parts = score_purchase(product, record["price"], chosen, goal, nouns.__getitem__)
        assert parts.score == record["reward"], (record["asin"], record["goal"])
        assert same_info(parts, record["info"]), (record["asin"], record["goal"])
        count += 1
    assert count > 0


def goals_as_records(goals: Iterable[Goal]) -> list[dict[str, Any]]:
    """The goals as the original's dictionaries, with keys in its order."""
    return [
        {
            "asin": goal.asin,
            "category": goal.category,
            "query": goal.query,
            "name": goal.name,
            "product_category": goal.product_category,
            "instruction_text": goal.instruction,
            "attributes": list(goal.attributes),
            "price_upper": goal.price_cap if goal.price_cap < NO_CAP else int(NO_CAP),
            "goal_options": {option[0]: option[1] for option in goal.options}
            if goal.named_options
            else list(goal.options),
            "weight": goal.weight if goal.named_options else 1,
        }
        for goal in goals
    ]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, data in loads().items() for kind in data])
def test_goals_and_prices_follow_the_recorded_seed(name, kind):
    recorded, ours = loads()[name][kind], stock(kind)
    records = goals_as_records(ours.goals)
    assert len(records) == recorded["n_goals"]
    assert records[: len(recorded["first_goals"])] == recorded["first_goals"]
    assert records[-1] == recorded["last_goal"]
    assert sha256(records) == recorded["goals_sha256"]
    prices = {asin: ours.catalogue.price(asin) for asin in map(ours.catalogue.store.asin, range(len(ours.catalogue)))}
    assert sha256(prices) == recorded["prices_sha256"]
    assert {asin: prices[asin] for asin in recorded["ranged_prices"]} == recorded["ranged_prices"]
