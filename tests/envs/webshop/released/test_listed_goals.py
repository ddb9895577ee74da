"""Goals of a panel of released data: the same id is the same goal in every copy of the products, or an error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from helpers.panels.webshop import released_rows
from helpers.worlds.webshop_small import Contents, file_contents, small_stock, write_shop
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError
from creditflow.envs.tasks import PanelRow
from creditflow.envs.webshop.catalogue.stock import load_stock
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.goals import cap_words
from creditflow.envs.webshop.goals.tasks import ListedGoals, wish_hash

PRODUCTS = [small_stock().catalogue.product(f"P{number:02d}") for number in range(10)]
LISTED = [one.asin for number, one in enumerate(PRODUCTS) if number % 2]


def contents() -> Contents:
    return file_contents(PRODUCTS, LISTED, [PRODUCTS[3].asin])


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[PanelRow]:
    return list(released_rows(write_shop(tmp_path_factory.mktemp("shop"), contents()), "small-synthetic-v1"))


@settings(max_examples=20)
@given(
    more=st.sets(st.sampled_from([one.asin for one in PRODUCTS if one.asin not in LISTED])),
    order=st.permutations(range(len(PRODUCTS))),
    packed=st.booleans(),
    goal_seed=st.sampled_from([233, 1]),
)
def test_further_instructions_their_order_and_the_order_of_goals_do_not_matter(
    more: set[str],
    order: list[int],
    packed: bool,
    goal_seed: int,
    rows: list[PanelRow],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    items, entries, human = contents()
    for asin in more:  # they shift the random stream of price limits, and the numbers of all goals
        entries[asin] |= {"instruction": f"get {asin}", "instruction_attributes": ["light weight"]}
    listed = list(entries.items())
    folder = write_shop(tmp_path_factory.mktemp("shop"), (items, dict(listed[i] for i in order), human), packed=packed)
    tasks = ListedGoals(load_stock(folder, goal_seed=goal_seed), rows)
    assert tasks.task_ids() == tuple(row.task_id for row in rows)
    assert [tasks.get(row.task_id).task_id for row in rows] == [row.task_id for row in rows]


def test_rows_are_in_the_splits_of_the_original_and_have_no_text_of_the_data(
    rows: list[PanelRow], tmp_path: Path
) -> None:
    stock = load_stock(write_shop(tmp_path, contents()))
    assert [row.locator["wish"] for row in rows] == [wish_hash(goal) for goal in stock.goals]
    assert {row.split for row in rows} == {"test"}, "goals 0 to 499"
    assert not any("find" in json.dumps([row.locator, row.strata]) for row in rows)


def test_a_wish_is_instruction_attributes_and_options_without_the_price_limit(tmp_path: Path) -> None:
    goal = next(one for one in load_stock(write_shop(tmp_path, contents())).goals if one.named_options and one.options)
    cheaper = replace(
        goal, instruction=goal.instruction.replace(cap_words(goal.price_cap), cap_words(1.5)), price_cap=1.5
    )
    assert wish_hash(cheaper) == wish_hash(goal)
    pairs = [(str(option[0]), str(option[1])) for option in goal.options]
    for other in (
        replace(goal, instruction="another wish"),
        replace(goal, attributes=(*goal.attributes, "x")),
        replace(goal, options=tuple((name, f"{value}x") for name, value in pairs)),
        replace(goal, options=tuple(value for _, value in pairs), named_options=False),
    ):
        assert wish_hash(other) != wish_hash(goal)


CHANGES: dict[str, Callable[[list[Any], dict[str, Any]], Any]] = {
    "a changed price": lambda items, _: items[0].update(pricing="$77.0"),
    "a product less": lambda items, _: items.pop(0),
    "another order of products": lambda items, _: items.reverse(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_data_is_an_error_when_it_is_opened(change: str, rows: list[PanelRow], tmp_path: Path) -> None:
    items, entries, human = contents()
    CHANGES[change](items, entries)
    with pytest.raises(DataError, match=r"hashes to|has no goal"):
        ListedGoals(load_stock(write_shop(tmp_path, (items, entries, human))), rows)


def test_a_changed_instruction_is_an_error_when_its_goal_is_played(rows: list[PanelRow], tmp_path: Path) -> None:
    items, entries, human = contents()
    last = rows[-1].locator["asin"]
    entries[last]["instruction"] = "find something else"
    tasks = ListedGoals(load_stock(write_shop(tmp_path, (items, entries, human))), rows)
    with pytest.raises(DataError, match="has no goal"):
        tasks.get(rows[-1].task_id)
    with pytest.raises(UnknownTaskError):
        tasks.get("webshop1:00")


@pytest.mark.parametrize(
    "change", [{"cap": "x"}, {"cap": None}, {"cap": float("nan")}, {"asin": ["P01"]}, {"asin": 3}, {"wish": ["x"]}]
)
def test_a_malformed_locator_given_as_a_task_is_explained(
    change: dict[str, Any], rows: list[PanelRow], tmp_path: Path
) -> None:
    tasks = ListedGoals(load_stock(write_shop(tmp_path, contents())), rows)
    with pytest.raises(DataError, match=r"wrong type|has no goal"):
        tasks.from_content({**rows[0].locator, **change})


@pytest.mark.parametrize("panel", ["small-synthetic-v1:test", "small-human-v1"])
def test_panels_of_released_data_need_its_files_and_choose_the_goals(panel: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="data=FOLDER"):
        WebShopEnv(panel=panel)
    with pytest.raises(ConfigError, match="determines the goals"):
        WebShopEnv(panel=panel, data=str(tmp_path), seed=7)
    with pytest.raises(DataError, match="no items_shuffle"):
        WebShopEnv(panel=panel, data=str(tmp_path))
    folder = str(write_shop(tmp_path / "shop", contents()))
    with pytest.raises(DataError, match="needs WebShop's 1,000 released products"):
        WebShopEnv(panel=panel, data=folder)
    with pytest.raises(ConfigError, match="split"):
        WebShopEnv(panel="small-synthetic-v1:tset", data=folder)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("small-synthetic-v1", "38eea1aae2803e53385fe187a34907a8208fee14e5f2e1f004438db4270046c8"),
        ("small-human-v1", "06532a3a1a98798df8877ffc7fcc89f00ea15cc158a9a7aabd89bd02688e28ac"),
    ],
)
def test_the_embedded_panels_do_not_change(name: str, digest: str) -> None:
    data = (files("creditflow.assets") / "panels" / "webshop" / f"{name}.json.gz").read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest
