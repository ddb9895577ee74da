"""The embedded shop: pinned, solvable, and as difficult as WebShop's thousand products."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.panels.webshop import panel_rows
from helpers.panels.writing import write_panel
from helpers.shared_data import shared_file
from helpers.worlds.webshop_difficulty import measure

from creditflow.envs.tasks import load_panel
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.catalogue.stock import load_stock
from creditflow.envs.webshop.goals.nouns import rule_tagger
from creditflow.envs.webshop.oracle import GoalOracle
from creditflow.envs.webshop.reward import score_purchase
from creditflow.envs.webshop.rules import INDEX, Shop

STOCK = embedded_stock()
ROOT = Path(__file__).resolve().parents[3]
# measured on WebShop's thousand products with the golden data
REAL = {
    "whole_1": 0.55, "whole_10": 0.93, "whole_50": 0.996, "short_1": 0.18, "short_10": 0.57, "short_50": 0.97,
    "first_score": 0.57, "first_success": 0.01, "text_score": 0.80, "text_success": 0.55, "right_success": 0.03,
}  # fmt: skip
TOLERANCE = 0.08


def test_the_catalogue_and_the_panel_are_pinned():
    assert STOCK.catalogue.digest == "fa8e5bec3cacda3ea6424a8aaa2d1577"
    data = (ROOT / "assets" / "panels" / "webshop" / "standard-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "8bae8e039644c23bcd2457a97404817ec8ae0b2a34891a77e6e689710a7a746f"


def test_the_panel_is_reproduced_by_its_generator(tmp_path):
    write_panel(tmp_path / "panel.json", panel_rows())
    assert (tmp_path / "panel.json").read_bytes() == (
        ROOT / "assets" / "panels" / "webshop" / "standard-v1.json"
    ).read_bytes()


def test_splits_share_no_product():
    splits: dict[str, set[str]] = {}
    for row in load_panel("webshop", "standard-v1").rows:
        splits.setdefault(row.split, set()).add(STOCK.goals[row.locator["goal"]].asin)
    assert set(splits) == {"train", "valid", "test"}
    assert sum(len(asins) for asins in splits.values()) == len(set().union(*splits.values()))
    assert len(list(panel_rows())) == len(STOCK.goals)


def test_there_are_a_thousand_products_in_five_departments():
    products = [STOCK.catalogue.store.product(row) for row in range(len(STOCK.catalogue))]
    assert len({product.asin for product in products}) == 1000
    assert set(Counter(product.category for product in products).values()) == {200}
    siblings = Counter(product.query for product in products)
    assert sum(count > 1 for count in siblings.values()) > 100


def test_every_goal_is_solved_by_its_product_with_the_wanted_options():
    for goal in STOCK.goals:
        product = STOCK.catalogue.product(goal.asin)
        price = STOCK.catalogue.price(goal.asin)
        assert score_purchase(product, price, goal.option_values, goal, rule_tagger).score == 1.0, goal


def test_the_oracle_needs_three_steps_and_at_most_one_per_option():
    for goal in STOCK.goals:
        distance = GoalOracle(Shop(STOCK.catalogue, goal, "0")).distance(INDEX)
        assert 3 <= distance <= 3 + len(goal.options)


def test_the_embedded_shop_is_as_difficult_as_the_original():
    assert asdict(measure(STOCK.catalogue, STOCK.goals)) == pytest.approx(REAL, abs=TOLERANCE)


def test_the_originals_thousand_products_have_the_target_figures():
    stock = load_stock(shared_file("data/webshop"))
    assert asdict(measure(stock.catalogue, stock.goals[::4])) == pytest.approx(REAL, abs=TOLERANCE)
