"""Snapshots, threads and many environments of one game."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.worlds.alfworld_kitchen import APPLE, DATA, KITCHEN, run_commands

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.errors import DataError


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("world", [10**6, -1, ["0"] * 6, [], [], []]),
        ("world", [0, 0, ["0"] * 5, [], [], []]),
        ("world", [0, 0, ["-1"] * 6, [], [], []]),
        ("world", [0, 0, ["f" * 400] * 6, [], [], []]),
        ("world", None),
        ("story", [1, 2, 3]),
        ("story", [None, "", 10**6, []]),
        ("steps", -1),
        ("steps", True),
        ("past", "look"),
        ("syntax", "shout"),
    ],
)
def test_a_forged_snapshot_is_rejected(key: str, value: object) -> None:
    env = ALFWorldEnv()
    env.reset(seed=1)
    data = json.loads(env.get_state())
    with pytest.raises(DataError, match="snapshot"):
        env.set_state(json.dumps({**data, key: value}, separators=(",", ":")))


def test_a_snapshot_of_another_syntax_is_rejected() -> None:
    env = ALFWorldEnv(syntax="put")
    env.reset(seed=1)
    with pytest.raises(DataError, match="syntax"):
        ALFWorldEnv().set_state(env.get_state())


def test_threads_that_share_games_get_identical_episodes() -> None:
    """Many threads fill the shared tables of one parsed game concurrently."""

    def episode(seed: int) -> list[str]:
        env = ALFWorldEnv(data_path=DATA, split="train")
        keys = []
        _, info = env.reset(seed=seed % 4)
        rng = np.random.default_rng(seed % 4)
        for _ in range(45):
            actions = info["admissible_actions"]
            if not actions:
                break
            *_, info = env.step(actions[int(rng.integers(len(actions)))])
            keys.append(f"{info['state_key']} {env.oracle.distance(env.get_state())} {len(actions)}")
        return keys

    with ThreadPoolExecutor(8) as pool:
        episodes = list(pool.map(episode, range(32)))
    for seed in range(4):
        assert all(keys == episodes[seed] for keys in episodes[seed::4])


def test_a_thousand_environments_share_one_parsed_game() -> None:
    envs = [ALFWorldEnv(game=KITCHEN) for _ in range(3)] + [ALFWorldEnv(data_path=DATA) for _ in range(1_000)]
    for env in envs:
        env.reset(seed=8)
    assert len({id(env.world.game) for env in envs[:3]}) == 1
    assert len({id(env.world.game) for env in envs[3:]}) == 1
    assert len({id(env.tasks) for env in envs[3:]}) == 1


def test_facts_and_the_rendered_text_follow_the_state() -> None:
    env = ALFWorldEnv(game=KITCHEN, render_mode="ansi")
    env.reset()
    run_commands(env, *APPLE)
    assert {"holds(agent, apple 3)", "isclean(apple 3)", "opened(fridge 1)"} <= set(env.facts())
    assert "apple 3 [cleaned]" in str(env.render())
