"""Potential-based rewards over a socket: along every path they add up to minus the potential of the first state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.env_server import env_server, parsed

from creditflow.envs.errors import ConfigError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.wrappers.dense_reward import make_store
from creditflow.wrappers.records.jsonl import read_groups

pytestmark = pytest.mark.openenv


def episode(client: Any, seed: int, actions: list[str]) -> list[Any]:
    results = [client.reset(seed=seed)]
    while not results[-1].done:
        results.append(client.step({"action": actions[len(results) - 1]}))
    return results


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("scheme", ["grouptd", "rewardflow"])
def test_shaping_changes_every_return_from_a_state_by_the_same_number(
    log: Path, levels: Path, scheme: str, gamma: float
) -> None:
    from openenv.core import GenericEnvClient

    store: Any = make_store(scheme, gamma=gamma)
    store.add(read_groups(log))
    potentials = store.publish()
    plain = ("sokoban", "--env-set", f"levels={levels}", "--env-set", "max_steps=8")
    shaped = (*plain, "--potential", scheme, "--gamma", str(gamma), "--log", str(log))
    rng = np.random.default_rng(0)
    starts, nonzero = list[float](), 0
    with (
        env_server(*plain) as (url, _),
        env_server(*shaped) as (other, _),
        GenericEnvClient(base_url=url).sync() as bare,
        GenericEnvClient(base_url=other).sync() as client,
    ):
        for seed in range(12):
            actions = rng.choice(["left", "right", "up", "down"], 8).tolist()
            results, raw = episode(client, seed, actions), episode(bare, seed, actions)
            first = results[0].observation
            start = potentials.of(first["task_id"], first["state_key"]) or 0.0
            starts.append(start)
            nonzero += sum(result.observation["shaping"] != 0.0 for result in results[1:])
            assert [result.observation["raw_reward"] for result in results[1:]] == [r.reward for r in raw[1:]]
            total = sum(gamma**t * result.reward for t, result in enumerate(results[1:]))
            assert total == pytest.approx(sum(gamma**t * r.reward for t, r in enumerate(raw[1:])) - start)
    assert nonzero > 0  # there was a potential to add up
    assert any(starts) == (scheme == "grouptd")  # that of a scheme of distance is 0 where the task starts


def test_a_potential_of_the_task_needs_no_log() -> None:
    from openenv.core import GenericEnvClient

    env = WikiSearchEnv()
    arguments = ("wikisearch", "--potential", "gdcr", "--gamma", "1")
    with env_server(*arguments) as (url, _), GenericEnvClient(base_url=url).sync() as client:
        for seed in (0, 1):
            env.reset(seed=seed)
            result, shaping = client.reset(seed=seed), []
            while not result.done:
                action = env.oracle.optimal_actions(env.get_state())[0]
                env.step(action)
                result = client.step({"action": action})
                shaping.append(result.observation["shaping"])
            assert sum(shaping) == pytest.approx(0.0)
            assert any(shaping)


def test_a_shaped_episode_continues_from_its_snapshot(log: Path, levels: Path) -> None:
    from openenv.core import GenericEnvClient

    arguments = (
        "sokoban",
        "--env-set",
        f"levels={levels}",
        "--potential",
        "graphgpo",
        "--gamma",
        "0.9",
        "--log",
        str(log),
    )
    with env_server(*arguments) as (url, _), GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=0)
        snapshot = client.state()["snapshot"]
        expected = client.step({"action": "right"})
        client.reset(injected_state=snapshot)
        assert client.step({"action": "right"}).reward == expected.reward


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--potential", "rewardflow"), "needs --gamma"),
        (("--potential", "rewardflow", "--gamma", "1"), "give a log"),
        (("--potential", "gdcr", "--gamma", "1", "--log", "LOG"), "no effect"),
        (("--potential", "rewardflow", "--gamma", "2", "--log", "LOG"), "gamma must lie"),
        (("--gamma", "1"), "without --potential"),
        (("--log", "LOG"), "without --potential"),
        (("--env-set", "obs_mode=grid"), "only text observations"),
        (("--env-set", "action_mode=discrete"), "only text actions"),
        (("--env-set", "levle=1"), "unknown argument of the environment .* did you mean 'level'"),
        (("--idle-seconds", "0"), "must be positive"),
    ],
)
def test_wrong_options_are_configuration_errors(log: Path, arguments: tuple[str, ...], message: str) -> None:
    from creditflow.train.commands.serve import env as serve_env

    args = parsed("sokoban", *(str(log) if part == "LOG" else part for part in arguments), "--port", "18499")
    with pytest.raises(ConfigError, match=message):
        serve_env.run(args)
