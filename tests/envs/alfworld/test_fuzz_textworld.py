"""The differential fuzzer against the real engine."""

from __future__ import annotations

import importlib.util
import json

import pytest
from helpers.shared_data import shared_file
from helpers.worlds.game_files import export_game
from helpers.worlds.textworld_fuzz import fuzz

from creditflow.envs.alfworld.engines import RealEngine
from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import DataError

ARCHIVE = "data/alfworld/alfworld_games_full.tar.xz"
RARE = (
    "verb slice",
    "floor list shown",
    "at co-located receptacles",
    "object in two receptacles somewhere",
    "container with contents examined",
    "verb refused",
    "won",
    *(f"property sentence {i}" for i in range(15) if i != 12),  # 12 needs a fact that the engine never states
)

needs_engine = pytest.mark.skipif(
    importlib.util.find_spec("alfworld") is None,
    reason="the real engine is not installed: pip install -e '.[alfworld]'",
)


@needs_engine
@pytest.mark.alfworld
def test_both_engines_agree_on_twenty_games() -> None:
    assert fuzz(shared_file(ARCHIVE), 20, 60)["games"] == 20


@needs_engine
@pytest.mark.slow
def test_both_engines_agree_on_two_hundred_games_and_in_every_rare_branch() -> None:
    seen = fuzz(shared_file(ARCHIVE), 210, 60)
    assert seen["steps"] >= 10_000
    assert [branch for branch in RARE if not seen[branch]] == []


@pytest.mark.filterwarnings("default")
@needs_engine
@pytest.mark.alfworld
def test_alfworlds_loader_finds_and_textworld_solves_exported_games(tmp_path) -> None:
    from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv

    real = RealEngine()
    for seed, task in enumerate(TASK_TYPES):
        game = Game(generate(seed, "valid_seen", task))
        plan = ALFWorldOracle().solution(World(game))
        assert plan is not None
        path = export_game(game, tmp_path, "valid_seen", plan)
        real.start(json.loads(path.read_text()))
        for command in plan:
            assert not real.won
            real.step(command)
        assert real.won
    folder = str(tmp_path / "json_2.1.1" / "valid_seen")
    config = {
        "env": {"goal_desc_human_anns_prob": 0, "task_types": [1, 2, 3, 4, 5, 6]},
        "dataset": {"eval_id_data_path": folder, "num_eval_games": -1},
    }
    assert len(AlfredTWEnv(config, train_eval="eval_in_distribution").game_files) == len(TASK_TYPES)


@pytest.mark.filterwarnings("default")
@needs_engine
@pytest.mark.alfworld
def test_the_real_backend_keeps_the_contract_and_restores_its_own_snapshots() -> None:
    content = generate(1, "train", "pick_and_place_simple", "bathroom")
    env = ALFWorldEnv(game=content, backend="textworld", max_steps=8)
    twin = ALFWorldEnv(game=content, max_steps=8)
    assert env.reset()[0] == twin.reset()[0]
    plan = twin.walkthrough()
    for command in plan[:2]:
        assert env.step(command)[4] == twin.step(command)[4]
    snapshot = env.get_state()
    rest = [env.step(command)[:4] for command in plan[2:]]
    assert env.set_state(snapshot)[1]["state_key"] == twin.set_state(twin.get_state())[1]["state_key"]
    assert [env.step(command)[:4] for command in plan[2:]] == rest
    env.reset()
    with pytest.raises(DataError, match="snapshots that it wrote itself"):
        env.set_state(twin.get_state())
