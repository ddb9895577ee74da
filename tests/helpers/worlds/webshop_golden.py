"""Recorded behaviour of the original shop, and the thousand products it was recorded on."""

from __future__ import annotations

import gzip
import json
from functools import cache

from helpers.shared_data import shared_file, shared_files

from creditflow.envs.webshop.catalogue.stock import ShopFiles, load_stock
from creditflow.envs.webshop.goals.goals import Goal

FOLDER = "conformance/webshop"


@cache
def stock(goals="synthetic"):
    names = ("items_shuffle_1000", "items_ins_v2_1000", "items_human_ins")
    files = ShopFiles(*(shared_file(f"data/webshop/{name}.json.gz") for name in names))
    return load_stock(files, goals=goals, seed=42)


def lines(pattern):
    """All records of all files of one kind."""
    for path in shared_files(f"{FOLDER}/{pattern}"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)


def loads():
    return {path.name: json.loads(path.read_text("utf-8")) for path in shared_files(f"{FOLDER}/load*.json")}


def goal_from(record):
    """A goal as the original records it."""
    product = stock().catalogue.product(record["asin"])
    options = record["goal_options"]
    named = isinstance(options, dict)
    return Goal(
        product.asin,
        product.category,
        product.query,
        product.title,
        product.product_category,
        record.get("instruction_text", ""),
        tuple(record["attributes"]),
        record["price_upper"],
        tuple(options.items()) if named else tuple(options),
        named_options=named,
    )
