"""Golden transcripts of TextWorld's engine, replayed byte for byte."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from helpers.shared_data import shared_files

from creditflow.envs.alfworld.env import ALFWorldEnv

BACKENDS = [
    "native",
    pytest.param(
        "textworld",
        marks=[
            pytest.mark.alfworld,
            pytest.mark.skipif(
                importlib.util.find_spec("alfworld") is None,
                reason="the real engine is not installed: pip install -e '.[alfworld]'",
            ),
        ],
    ),
]


@pytest.mark.filterwarnings("default")  # the real engine's packages warn
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", shared_files("conformance/alfworld/*.json"), ids=lambda path: path.stem)
def test_a_transcript_replays_byte_for_byte(path: Path, backend: str) -> None:
    episode = json.loads(path.read_text())
    steps = episode["steps"]
    env = ALFWorldEnv(game=str(path.parent / episode["game"]), max_steps=len(steps) + 1, backend=backend)
    observation, info = env.reset()
    for step in steps:
        if step["action"] is not None:
            observation, reward, terminated, truncated, info = env.step(step["action"])
            assert (terminated, truncated, reward) == (step["done"], False, float(step["score"])), step["t"]
        assert observation == step["observation"], step["t"]
        assert env._backend.admissible().commands == tuple(step["admissible_commands"]), step["t"]
        assert info["admissible_actions"] == (() if step["done"] else tuple(step["admissible_commands"])), step["t"]
        assert info["won"] == step["won"], step["t"]


@pytest.mark.parametrize("path", shared_files("conformance/alfworld/*.json"), ids=lambda path: path.stem)
def test_the_facts_of_a_transcript_equal_the_native_ones(path: Path) -> None:
    """All dynamic facts but ``checked``, ``holdsany`` and ``ison``, which our state does not need."""
    episode = json.loads(path.read_text())
    env = ALFWorldEnv(game=str(path.parent / episode["game"]), max_steps=len(episode["steps"]) + 1)
    env.reset()
    facts: set[str] = set(episode["steps"][0]["facts"])
    for step in episode["steps"]:
        if step["action"] is not None:
            env.step(step["action"])
            facts = (facts - set(step["facts_removed"])) | set(step["facts_added"])
        kept = {fact for fact in facts if fact.split("(")[0] not in ("checked", "holdsany", "ison")}
        assert raw_facts(env) == kept, step["t"]


def raw_facts(env: ALFWorldEnv) -> set[str]:
    world = env.world
    game = world.game
    agent = game.content["agent"][0]
    facts = {f"atlocation({agent},{game.location_ids[world.location]})"}
    if world.held >= 0:
        facts.add(f"holds({agent},{game.object_ids[world.held]})")
    facts |= {f"opened({name})" for r, name in enumerate(game.receptacle_ids) if world.opened >> r & 1}
    for o, name in enumerate(game.object_ids):
        facts |= {f"inreceptacle({name},{game.receptacle_ids[r]})" for r, m in enumerate(world.inside) if m >> o & 1}
        facts |= {f"objectatlocation({name},{game.location_ids[p]})" for p, m in enumerate(world.around) if m >> o & 1}
        for state, mask in (
            ("isclean", world.clean),
            ("ishot", world.hot),
            ("iscool", world.cool),
            ("istoggled", world.toggled),
            ("issliced", world.sliced),
        ):
            facts |= {f"{state}({name})"} if mask >> o & 1 else set()
    return facts
