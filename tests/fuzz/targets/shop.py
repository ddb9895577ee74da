"""WebShop's released files."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from helpers.worlds.webshop_small import file_contents

from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.catalogue.stock import find_files, load_stock
from creditflow.envs.webshop.env import WebShopEnv
from fuzz.mutate_bytes import mutate_bytes
from fuzz.mutate_data import freeze, mutate_json
from fuzz.samples import bomb
from fuzz.target import Target

ITEMS, ENTRIES, HUMAN = "items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"


@lru_cache(maxsize=1)
def _files() -> dict[str, bytes]:
    """Return twelve products of the embedded shop in the format of the released files."""
    store = embedded_stock().catalogue.store
    products = [store.product(row) for row in range(12)]
    contents = file_contents(products, [product.asin for product in products], [products[3].asin])
    return {name: freeze(content) for name, content in zip((ITEMS, ENTRIES, HUMAN), contents, strict=True)}


def _reader(name: str) -> Callable[[bytes, Path], None]:
    """Return a reader of the folder with one file replaced."""

    def read(data: bytes, folder: Path) -> None:
        source = folder / "source"
        source.mkdir()
        for other, text in _files().items():
            (source / other).write_bytes(text)
        if name.endswith(".gz"):
            (source / name.removesuffix(".gz")).unlink()
        (source / name).write_bytes(data)
        goals: Literal["human", "synthetic"] = "human" if name == HUMAN else "synthetic"
        stock = load_stock(find_files(source), goals=goals, seed=42, goal_seed=233)
        env = WebShopEnv(data=stock)
        env.reset(seed=1)
        env.step("search[find]")

    return read


def _mutate_gz(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    return mutate_bytes(rng, samples)


def _whole(name: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda _: [_files()[name]]


_HOSTILE = (
    b"[" * 200_000,
    b"{" * 5000,
    b'{"a":' * 100_000,
    b"",
    b"[]",
    b"{}",
    b"[1,2]",
    b'{"a":1}',
    b"\xff\xfe",
    b"9" * 5000,
    b"[" + b"9" * 5000 + b"]",
    b'["' + b"a" * 40_000_000,
)

TARGETS = (
    *(
        Target(
            name=f"shop/{label}", read=_reader(name), seeds=_whole(name), mutate=mutate_json,
            cases=25, traps=lambda: _HOSTILE, place="source", seconds=10.0,
        )
        for label, name in (("items", ITEMS), ("entries", ENTRIES), ("human", HUMAN))
    ),
    Target(
        name="shop/items-gz", read=_reader(ITEMS + ".gz"), seeds=lambda _: [gzip.compress(_files()[ITEMS])],
        mutate=_mutate_gz, cases=15, place="source", seconds=10.0,
        traps=lambda: [bomb(b"[", b" " * 1000, 500), bomb(b'["', b"a" * 1000, 1000), bomb(b"[", b"[" * 1000, 10)],
    ),
)  # fmt: skip
