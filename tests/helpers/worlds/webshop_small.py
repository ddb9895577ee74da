"""A shop of a dozen products, small enough for exhaustive search."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from creditflow.envs.webshop.catalogue.catalogue import Catalogue, Products
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.goals.goals import Goal

HUMAN = [{"instruction": "i want it.", "instruction_attributes": ["soft"], "instruction_options": ["red"]}]
COLOURS = ("red", "blue", "dark green")
SIZES = ("small", "large")


def make_product(number, title, query, price, attributes, options):
    return Product(
        f"P{number:02d}",
        title,
        f"about {title}",
        tuple(f"it is {attribute}" for attribute in attributes[1:]),
        (price,),
        f"${price}",
        options,
        tuple(attributes),
        "things",
        query,
        f"Things › {query} › All",
    )


def small_stock(copies=12):
    """Tents and mugs; tents differ in price, attributes and options."""
    products = []
    for i in range(copies):
        kind = "camping tents" if i % 3 else "tea mugs"
        attributes = ["light weight", "water proof", "easy clean"][: 1 + i % 3]
        options = (("color", COLOURS[: 1 + i % 3]), ("size", SIZES))[: i % 4 if i % 4 < 3 else 2]
        products.append(
            make_product(i, f"Brand{i} {attributes[0]} {kind[:-1]}", kind, 5.0 + 7 * i, attributes, options)
        )
    goals = []
    for product in products:
        for cap in (20.0, 100.0):
            wanted = tuple((name, values[-1]) for name, values in product.options)
            text = f"Find me {product.query} with {product.attributes[0]}, and price lower than {cap:.2f} dollars"
            goals.append(
                Goal(
                    product.asin,
                    product.category,
                    product.query,
                    product.title,
                    product.product_category,
                    text,
                    product.attributes[:2],
                    cap,
                    wanted,
                )
            )
    prices = [product.prices[0] for product in products]
    return Stock(Catalogue(Products(products, prices)), goals)


def record(product):
    """A product as WebShop's item file has it."""
    return {
        "asin": product.asin,
        "name": product.title,
        "full_description": product.description,
        "small_description": list(product.bullets),
        "pricing": " - ".join(f"${price}" for price in product.prices),
        "customization_options": {name: [{"value": value} for value in values] for name, values in product.options},
        "category": product.category,
        "query": product.query,
        "product_category": product.product_category,
    }


def with_two_groups(env):
    """Take the env to the page of a product with two option groups."""
    for seed in range(100):
        env.reset(seed=seed)
        product = env.stock.catalogue.product(env.shop.goal.asin)
        if len(product.options) == 2:
            env.step(f"search[{product.title}]")
            env.step(f"click[{product.asin.lower()}]")
            return product
    raise AssertionError("no product with two groups")


FILES = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")  # as the original names them
Contents = tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]


def file_contents(products: list[Product], instructed: Collection[str], human: Collection[str]) -> Contents:
    """What the original's three files say of some products: records, synthetic and human instructions."""
    entries: dict[str, Any] = {one.asin: {"attributes": list(one.attributes)} for one in products}
    for asin in instructed:
        entries[asin] |= {"instruction": f"find {asin}", "instruction_attributes": ["light weight"]}
    return [record(one) for one in products], entries, {asin: list(HUMAN) for asin in human}


def write_shop(
    folder: Path, contents: Contents, written: Callable[[Any], str] = json.dumps, packed: bool = False
) -> Path:
    """Write the three files; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in zip(FILES, contents, strict=True):
        data = written(content).encode()
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    return folder
