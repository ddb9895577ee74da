"""The released thousand products, as far as they are open, are as the manifest says."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from helpers.panels.manifests import build_manifest
from helpers.panels.webshop import released_rows
from helpers.shared_data import shared_file

from creditflow.envs.tasks import load_panel
from creditflow.envs.webshop.catalogue.check import load_manifest
from creditflow.envs.webshop.catalogue.stock import find_files, load_stock
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.tasks import RELEASED
from creditflow.train.cli import main

FOLDER = shared_file("data/webshop")


def test_the_command_finds_the_released_files_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "webshop", str(FOLDER), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    same = {part["part"]: part["counts"]["same"] for part in report["parts"]}
    assert same == {"products": 1_000, "order": 1, "synthetic": 379, "human": 10}
    assert report["differences"] == []


def test_the_manifest_is_reproducible() -> None:
    assert build_manifest(find_files(FOLDER)) == load_manifest("small-v1")


@pytest.mark.parametrize("name", RELEASED)
def test_the_panels_are_reproducible(name: str) -> None:
    assert tuple(released_rows(FOLDER, name)) == load_panel("webshop", name).rows


CHILD = """
import hashlib, json, sys
from creditflow.envs.webshop.env import WebShopEnv
env = WebShopEnv(panel=sys.argv[1], data=sys.argv[2])
listed, seen = env.tasks.task_ids(), {}
for task_id in listed[:: int(sys.argv[3])]:
    observation, info = env.reset(options={"task_id": task_id})
    step = env.step(f"search[{env.shop.goal.instruction}]")
    seen[task_id] = repr((observation, info, step))
print(hashlib.sha256(json.dumps([listed, sorted(seen.items())]).encode()).hexdigest())
"""


@pytest.mark.parametrize("panel", ["small-synthetic-v1:test", "small-human-v1"])
def test_an_id_is_the_same_goal_in_every_process(panel: str) -> None:
    found = []
    every = "97" if "synthetic" in panel else "1"
    for seed in ("0", "1", "7"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", CHILD, panel, str(FOLDER), every]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == 0, done.stderr[-2_000:]
        found.append(done.stdout)
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("panel", "sizes"), [("small-synthetic-v1", (500, 1_000, 5_201)), ("small-human-v1", (10, 0, 0))]
)
def test_splits_are_the_goal_numbers_of_the_original(panel: str, sizes: tuple[int, int, int]) -> None:
    rows = load_panel("webshop", panel).rows
    assert tuple(sum(row.split == split for row in rows) for split in ("test", "dev", "train")) == sizes


def test_known_ids_are_known_goals() -> None:
    task_id = "webshop1:270ebf0f9ada53ebbff25a26f0832cc4"
    for goal_seed in (233, 7):
        stock = load_stock(FOLDER, goals="human", goal_seed=goal_seed)
        env = WebShopEnv(panel="small-human-v1:test", data=stock)
        env.reset(options={"task_id": task_id})
        goal = env.shop.goal
        assert (goal.asin, goal.price_cap) == ("B09HX5CD2D", 60.0)
        assert goal.instruction.endswith(", and price lower than 60.00 dollars")
