"""``VectorDenseReward`` is ``DenseReward`` around each single environment, in every autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.worlds.sokoban_vector import sokoban_vector

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban import SokobanEnv
from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.oracle import level_oracle
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, state_key
from creditflow.envs.sokoban.snapshot import cached_level
from creditflow.envs.tasks import parse_panel_spec
from creditflow.wrappers.dense_reward import DenseReward, require_unshaped
from creditflow.wrappers.potentials import Potentials, PotentialStore
from creditflow.wrappers.vector_dense_reward import VectorDenseReward

OPTIONS: dict[str, Any] = {"panel": "small-v1:train", "action_mode": "discrete", "max_steps": 8}


def moves_left_by_key(level: Level) -> dict[str, int]:
    """Fewest moves to the goal of every unsolved state from which there is a way, by state key."""
    table = level_oracle(level, 256).table
    if table is None:
        return {}
    targets, bare = set(level.targets), bytearray(level.board)
    for position in level.room:
        bare[position] = TARGET if position in targets else FLOOR
    floor, cells = list(table.floor_index), list(table.box_index)
    alive = np.flatnonzero(table.layers > 0)
    by_key = {}
    for state, moves in zip(alive.tolist(), table.layers[alive].tolist(), strict=True):
        rank, player = divmod(state, table.size)
        board = bytearray(bare)
        for index in table.subsets[rank].tolist():
            board[cells[index]] = BOX_ON_TARGET if cells[index] in targets else BOX
        board[floor[player]] = PLAYER_ON_TARGET if floor[player] in targets else PLAYER
        by_key[state_key(bytes(board))] = int(moves)
    return by_key


def known_potentials(drop: int) -> Potentials:
    """Φ = .9^V* on the panel's levels, without every ``drop``-th state."""
    values = {}
    for row in parse_panel_spec("sokoban", OPTIONS["panel"]):
        moves = moves_left_by_key(cached_level(row.locator["xsb"]))
        values[row.task_id] = {key: 0.9**left for n, (key, left) in enumerate(sorted(moves.items())) if n % drop}
    return Potentials(1, values)


@pytest.mark.parametrize("truncation", ["end", "bootstrap"])
@pytest.mark.parametrize("unknown", ["carry", "zero"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_rewards_are_those_of_the_wrapper_around_each_environment(mode, unknown, truncation):
    store = known_potentials(drop=3)
    chosen: dict[str, Any] = {"gamma": 0.9, "beta": 0.5, "unknown": unknown, "truncation": truncation}
    native = VectorDenseReward(sokoban_vector(6, autoreset_mode=mode, **OPTIONS), "rewardflow", store=store, **chosen)
    loop = SyncVectorEnv(
        [lambda: DenseReward(SokobanEnv(**OPTIONS), "rewardflow", store=store, **chosen)] * 6,
        autoreset_mode=AutoresetMode(mode),
    )
    native.reset(seed=4)
    loop.reset(seed=4)
    rng = np.random.default_rng(1)
    shaped = 0
    for _ in range(120):
        actions = rng.integers(-1, 4, 6)
        ours, theirs = native.step(actions), loop.step(actions)
        assert np.allclose(ours[1], theirs[1], atol=1e-12)
        assert np.allclose(ours[1], ours[4]["raw_reward"] + ours[4]["shaping"], atol=1e-12)
        shaped += int(np.count_nonzero(ours[4]["shaping"]))
        over = theirs[2] | theirs[3]
        if mode == "Disabled" and over.any():
            native.reset(options={"reset_mask": over.copy()})
            loop.reset(options={"reset_mask": over.copy()})
    assert shaped > 200


def test_an_episode_that_was_reset_before_it_restarted_by_itself_is_shaped_from_its_first_step():
    store, mask = known_potentials(drop=10**9), np.array([True, True])
    results = []
    for steps in (0, OPTIONS["max_steps"]):
        envs = VectorDenseReward(
            sokoban_vector(2, autoreset_mode="NextStep", **OPTIONS), "rewardflow", store=store, gamma=0.9
        )
        envs.reset(seed=5)
        for _ in range(steps):
            over = np.logical_or(*envs.step([0, 0])[2:4])
        assert not steps or over.all()
        envs.reset(seed=6, options={"reset_mask": mask})
        results.append(envs.step([3, 3])[4]["shaping"])
    assert results[0].any()
    assert results[0].tolist() == results[1].tolist()


def test_values_by_key_are_the_oracles():
    env = SokobanEnv(level="######\n#@ $.#\n#    #\n# $ .#\n#    #\n######")
    env.reset()
    moves = moves_left_by_key(cached_level(env.task.content["xsb"]))
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        _, _, terminated, truncated, info = env.step(("up", "down", "left", "right")[rng.integers(4)])
        left = env.oracle.distance(env.get_state())
        assert moves.get(info["state_key"], np.inf) == (np.inf if terminated else left)
        seen.add(left)
        if terminated or truncated:
            env.reset()
    assert np.inf in seen
    assert len(seen) > 5


@pytest.mark.filterwarnings("ignore:no state recurred")  # each member plays tasks of its own
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_potential_learns_from_the_episodes_of_all_members(mode):
    envs = sokoban_vector(16, autoreset_mode=mode, **{**OPTIONS, "max_steps": 20})
    shaped: Any = VectorDenseReward(envs, "rewardflow", gamma=0.9, window=1000)
    shaped.reset(seed=0)
    observed, rng, ended, solved = [], np.random.default_rng(0), 0, 0
    observe = shaped.store.observe

    def observe_too(trajectory):
        observed.append(trajectory)
        observe(trajectory)

    shaped.store.observe = observe_too
    waiting = np.zeros(16, dtype=bool)
    for _ in range(70):
        _, _, terminations, truncations, _ = shaped.step(rng.integers(0, 4, 16))
        over = (terminations | truncations) & ~waiting
        ended += int(over.sum())
        solved += int((terminations & ~waiting).sum())
        waiting = over if mode == "NextStep" else waiting
        if mode == "Disabled" and over.any():
            shaped.reset(options={"reset_mask": over.copy()})
    assert len(observed) == ended
    assert sum(trajectory.success for trajectory in observed) == solved > 3
    assert all(sum(turn.reward for turn in trajectory.turns) == trajectory.success for trajectory in observed)
    turns = [turn for trajectory in observed for turn in trajectory.turns]
    assert [turn.effective for turn in turns] == [turn.next_state_key != turn.state_key for turn in turns]
    assert len({turn.effective for turn in turns}) == 2
    by_hand = PotentialStore("rewardflow", window=1000, discount=0.9)
    for trajectory in observed[: len(observed) - shaped.store.pending]:
        by_hand.observe(trajectory)
    learned = {task: values for task, values in shaped.store.snapshot().values.items() if values}
    assert learned
    by_hand_values = by_hand.publish().values
    assert {task: dict(by_hand_values[task]) for task in learned} == {task: dict(v) for task, v in learned.items()}


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_gymnasiums_own_vector_environments_learn_too(vectorization):
    kwargs: Any = {"level": "######\n#@ $.#\n######", "max_steps": 6}
    extra: Any = {"shared_memory": False} if vectorization == "async" else {}
    envs = gym.make_vec(
        "creditflow/Sokoban-v0", num_envs=3, vectorization_mode=vectorization, vector_kwargs=extra, **kwargs
    )
    try:
        shaped: Any = VectorDenseReward(envs, "grouptd", gamma=0.9)
        shaped.reset(seed=0)
        total = 0.0
        for _ in range(12):
            total += float(np.abs(shaped.step(["right", "right", "left"])[4]["shaping"]).sum())
        assert shaped.store.snapshot().version >= 2
        assert total > 0.0
    finally:
        envs.close()


def test_a_frozen_store_learns_nothing_more_and_evaluation_refuses_shaping():
    envs: Any = VectorDenseReward(sokoban_vector(4, autoreset_mode="SameStep", **OPTIONS), "gigpo", gamma=0.9)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        envs.step(rng.integers(0, 4, 4))
    version = envs.freeze()
    for _ in range(30):
        envs.step(rng.integers(0, 4, 4))
    assert envs.store.snapshot() is version
    with pytest.raises(ConfigError, match="VectorDenseReward would report shaped returns"):
        require_unshaped(envs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": 1, "truncation": "ends"}, "end"),
        ({"gamma": 1, "unknown": "drop"}, "carry"),
        ({"gamma": 1, "publish_every": 0}, "publish_every"),
        ({"gamma": 1, "discount": 0.5}, "its own scheme"),
    ],
)
def test_wrong_options_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        VectorDenseReward(sokoban_vector(1, **OPTIONS), "rewardflow", store=Potentials(), **options)


@pytest.mark.parametrize("scheme", ["oracle", "zero", "random", "pica", "gdcr"])
def test_a_potential_that_reads_one_environment_says_how_it_is_used_in_a_vector(scheme):
    with pytest.raises(ConfigError, match="wrap each environment in DenseReward"):
        VectorDenseReward(sokoban_vector(1, **OPTIONS), scheme, gamma=0.9)
