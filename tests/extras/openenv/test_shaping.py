"""Rewards in hindsight, and options of the server that are refused."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.env_server import env_server, parsed
from helpers.shared_data import ROOT

import creditflow
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.wrappers import relabel
from creditflow.wrappers.dense_reward import make_store
from creditflow.wrappers.recorder import Recorder

pytestmark = pytest.mark.openenv


CORRIDOR: dict[str, Any] = {
    "level": "########\n#.  $@ #\n########",
    "max_steps": 6,
}  # solved by three steps to the left


def served() -> Any:
    """A session in this process."""
    from creditflow.train.adapters.openenv.environment import Served, ServedEnv

    return ServedEnv(Served(name="sokoban", options=CORRIDOR))


def rewards_of(rubric: Any, env: Any, actions: Any, **start: Any) -> list[float]:
    """Play one episode under the rubric; return its rewards per step."""
    from creditflow.train.adapters.openenv.client import PlayAction

    observation = env.reset(**start)
    rubric.begin(observation)
    while not observation.done:
        action = PlayAction(action=str(next(actions)))
        observation = env.step(action)
        assert rubric(action, observation) == (observation.score if observation.done else 0.0)
    rewards: list[float] = rubric.compute_step_rewards()
    assert len(rewards) == len(rubric.trajectory)
    return rewards


@pytest.mark.parametrize("truncation", ["end", "bootstrap"])
@pytest.mark.parametrize("scheme", ["grouptd", "rewardflow", "features"])
def test_a_rubric_has_the_rewards_of_relabel_for_the_recorded_episodes(scheme: str, truncation: Any) -> None:
    from creditflow.train.adapters.openenv.client import HindsightRubric

    chosen: dict[str, Any] = {"gamma": 0.9, "truncation": truncation}
    rubric, store = HindsightRubric(scheme, **chosen), make_store(scheme, gamma=0.9)
    recorder = Recorder(creditflow.make("sokoban", **CORRIDOR))
    rng, env, nonzero = np.random.default_rng(0), served(), 0
    for seed in range(8):
        actions = rng.choice(["left", "right"], 6, p=[0.7, 0.3]).tolist()
        rewards = rewards_of(rubric, env, iter(actions), seed=seed)
        recorder.reset(seed=seed)
        for action in actions[: len(rewards)]:
            recorder.step(action)
        expected = relabel([recorder.trajectory], scheme, store=store, **chosen)[0]
        assert rewards == pytest.approx(expected.tolist())
        assert rubric.compute_step_rewards() == rewards  # asked again, the store learns nothing again
        nonzero += sum(reward != turn.reward for reward, turn in zip(rewards, recorder.trajectory.turns, strict=True))
    assert nonzero > 10


def test_a_rubric_does_not_learn_an_episode_whose_first_steps_are_missing() -> None:
    from creditflow.train.adapters.openenv.client import HindsightRubric, PlayAction

    rubric, env = HindsightRubric("grouptd", gamma=0.9), served()
    assert rewards_of(rubric, env, iter(["left"] * 3), seed=0)[-1] < 1.0
    store: Any = rubric.store
    version = store.snapshot()
    env.reset(seed=0)
    env.step(PlayAction(action="right"))
    assert any(rewards_of(rubric, env, iter(["left"] * 4), injected_state=env.state.snapshot)[:-1])
    assert store.snapshot() is version
    rubric.reset()
    with pytest.raises(EpisodeError, match="whole episode"):
        rubric.compute_step_rewards()


def test_the_example_of_the_page_prints_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "train" / "adapters" / "OPENENV.md").read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "HindsightRubric" in block]
    script = tmp_path / "example.py"
    with env_server("sokoban", "--panel", "easy-v1:train") as (url, _):
        script.write_text(code.replace("http://127.0.0.1:8000", url), encoding="utf-8")
        runpy.run_path(str(script))
    printed = re.findall(r"^    ((?:even|hindsight): .*)$", page, re.M)
    assert capsys.readouterr().out.splitlines() == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--env-set", "obs_mode=grid"), "only text observations"),
        (("--env-set", "action_mode=discrete"), "only text actions"),
        (("--env-set", "levle=1"), "unknown argument of the environment .* did you mean 'level'"),
        (("--limit", "idle_seconds=0"), "must be positive"),
    ],
)
def test_wrong_options_are_configuration_errors(arguments: tuple[str, ...], message: str) -> None:
    from creditflow.train.commands.serve import env as serve_env

    args = parsed("sokoban", *arguments, "--port", "18499")
    with pytest.raises(ConfigError, match=message):
        serve_env.run(args)
