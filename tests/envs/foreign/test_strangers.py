"""Environments that know nothing of this package go unaided through dense rewards, groups and rollouts, and each has an effect."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.plugins import registries_restored
from helpers.strangers import Guess, GuessOn, GuessWords
from helpers.toy_text import CLIFF, TAXI

from creditflow.agents.base import Decision
from creditflow.envs.errors import ConfigError
from creditflow.envs.foreign.env import DEFAULT_LIMIT, ForeignEnv
from creditflow.train.cli import main
from creditflow.train.rollout import play_group
from creditflow.wrappers import DenseReward, Group, GroupEnv, InvalidActions, Recorder, credit, read_groups

forgotten = pytest.fixture(registries_restored)
pytestmark = pytest.mark.usefixtures("forgotten")  # commands load environments from a file
OWN = Path(__file__).parents[2] / "helpers/strangers.py"
LAKE = "FrozenLake-v1"
MAKERS: dict[str, Callable[[], gym.Env]] = {
    LAKE: lambda: gym.make(LAKE), CLIFF: lambda: gym.make(CLIFF), TAXI: lambda: gym.make(TAXI),
    "CartPole-v1": lambda: gym.make("CartPole-v1"), "Guess": Guess, "GuessOn": GuessOn, "GuessWords": GuessWords,
}  # fmt: skip
SUCCESS = {LAKE: "positive_reward", CLIFF: "terminated", TAXI: "positive_reward", "CartPole-v1": "none"}


def an_action(info: dict[str, Any], rng: np.random.Generator) -> Any:
    listed = info["admissible_actions"] or [f"say {number}" for number in range(4)]
    return listed[rng.integers(len(listed))]


def shaped(env: DenseReward, steps: int) -> tuple[int, int]:
    """Rewards that are not 0 among those that the potential adds in so many steps under ordinary resets, and episodes."""
    rng, found, episodes = np.random.default_rng(0), 0, 1
    _, info = env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, info = env.step(an_action(info, rng))
        found += info["shaping"] != 0.0
        if terminated or truncated:
            _, info = env.reset()  # no seed, as a training loop calls it
            episodes += 1
    return found, episodes


@pytest.mark.filterwarnings("ignore:.*names no limit")
@pytest.mark.parametrize("scheme", ["grouptd", "gigpo", "features"])
@pytest.mark.parametrize("name", MAKERS)
def test_dense_rewards_are_learned_under_ordinary_resets(name: str, scheme: str) -> None:
    needed: dict[str, Any] = {} if scheme != "grouptd" else {"success": SUCCESS.get(name, "positive_reward")}
    if name == "CartPole-v1" and scheme != "features":
        needed["state_key"] = "rounded:0"
    env = DenseReward(MAKERS[name](), scheme, gamma=0.97, truncation="bootstrap", publish_every=5, **needed)
    found, episodes = shaped(env, 1500)
    assert episodes > 1
    if scheme != "grouptd" or name in (LAKE, "Guess", "GuessOn", "GuessWords"):  # nobody succeeds in the others so soon
        assert found > 30


def test_episodes_of_one_environment_share_what_is_learned_unless_the_user_says_otherwise() -> None:
    def tasks(task: Any) -> list[str]:
        env = DenseReward(Guess(), "gigpo", gamma=0.9, task=task)
        return [env.reset(seed=seed)[1]["task_key"] for seed in (0, 1, 2, 3, 0)]

    assert set(tasks(None)) == {"Guess"}
    by_info, by_function = tasks("goal"), tasks(lambda _observation, info: info["goal"])
    assert by_info == by_function
    assert by_info[0] == by_info[-1]
    assert len(set(by_info)) > 1
    with pytest.raises(ConfigError, match="only 'admissible_actions', 'goal'"):
        tasks("gaol")
    wrong: Any = 3
    with pytest.raises(ConfigError, match="name of an entry of info or a function"):
        tasks(wrong)
    with pytest.raises(ConfigError, match="defines both"):
        DenseReward(gym.make("creditflow/Sokoban-v0"), "gigpo", gamma=0.9, task="goal")


def test_states_that_never_recur_are_said_once_after_twenty_episodes() -> None:
    env = DenseReward(gym.make("CartPole-v1"), "gigpo", gamma=0.97)
    with pytest.warns(UserWarning, match="no state recurred in 20 episodes of 1 tasks.*'features'") as said:
        shaped(env, 800)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shaped(DenseReward(gym.make("CartPole-v1"), "features", gamma=0.97), 800)
        shaped(DenseReward(gym.make(LAKE), "gigpo", gamma=0.97), 800)


class Invalid:
    """Never writes an action."""

    name = "invalid"

    def act(self, views):
        return [Decision("I would rather not. " * 9) for _ in views]


def ended(make: Callable[[], gym.Env], **options: Any) -> Group:
    group = GroupEnv(make, size=2, **options)
    return play_group(group, Invalid(), group.tasks.sample(np.random.default_rng(0)))


@pytest.mark.parametrize("name", MAKERS)
def test_an_agent_whose_actions_are_invalid_reaches_a_limit(name: str) -> None:
    own = {LAKE: 100, TAXI: 200, "CartPole-v1": 500}.get(name)
    if own:
        group = ended(MAKERS[name], success="terminated")
    else:
        with pytest.warns(UserWarning, match="names no limit, so its episodes end after 200 turns.*--max-turns"):
            group = ended(MAKERS[name], success="terminated")
    assert [len(member.turns) for member in group.trajectories] == [own or DEFAULT_LIMIT] * 2
    assert {member.stop_reason for member in group.trajectories} == {"env_limit"}
    chosen = ended(lambda: ForeignEnv(MAKERS[name](), success="terminated", max_steps=7))
    assert [len(member.turns) for member in chosen.trajectories] == [7, 7]


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (LAKE, ["success=positive_reward"]), (CLIFF, ["success=terminated"]), (TAXI, ["success=positive_reward"]),
        ("CartPole-v1", ["success=none"]), (f"{OWN}:Guess", ["success=positive_reward"]), (f"{OWN}:GuessOn", ["success=positive_reward"]),
        (f"{OWN}:GuessWords", ["success=positive_reward"]),
    ],
)  # fmt: skip
def test_commands_play_them_within_a_limit_and_credit_what_they_did(env, settings, tmp_path, capsys) -> None:
    log, chosen = tmp_path / "log.jsonl", [word for one in settings for word in ("--env-set", one)]
    play = [
        "rollout",
        "--env",
        env,
        *chosen,
        "--limit",
        "3",
        "--group-size",
        "4",
        "--max-turns",
        "30",
        "--out",
        str(log),
    ]
    assert main(play) == 0, capsys.readouterr().err
    groups = read_groups(log)
    assert [len(group) for group in groups] == [4, 4, 4]
    turns = [member.turns for group in groups for member in group.trajectories]
    assert 1 < max(map(len, turns)) <= 30
    given = [credit.make("gigpo").assign(group).flat_advantages for group in groups]
    assert np.isfinite(np.concatenate(given)).all()
    rewards = {turn.reward for one in turns for turn in one}
    if len(rewards) > 1 or env == "CartPole-v1":
        assert np.abs(np.concatenate(given)).max() > 0.1
    capsys.readouterr()
    assert main([*play, "--force", "--env-set", "max_episode_steps=3"]) == 2
    assert "only once: --max-turns" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*names no limit")
@pytest.mark.parametrize("name", [CLIFF, "CartPole-v1", f"{OWN}:Guess", f"{OWN}:GuessOn"])
def test_the_benchmark_plays_them(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FrozenLake and an environment of numbers are in the tests of the benchmark."""
    pytest.importorskip("jinja2", reason="bench needs the 'bench' extra")
    command = ["bench", "--preset", "smoke", "--envs", name, "--schemes", "grpo,gigpo", "--workers", "1", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 0, capsys.readouterr().err
    [suite] = json.loads((tmp_path / "out/results.json").read_text())["suites"]
    assert set(suite["rows"]) >= {"grpo", "gigpo"}


@pytest.mark.parametrize("command", ["bench", "rollout"])
def test_a_table_says_that_it_needs_the_actions_of_every_state(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "bench":
        pytest.importorskip("jinja2", reason="bench needs the 'bench' extra")
    name, out = f"{OWN}:GuessWords", str(tmp_path / "out")
    words = {
        "bench": ["--preset", "smoke", "--envs", name, "--schemes", "grpo", "--workers", "1"],
        "rollout": ["--env", name, "--agent", "tabular", "--limit", "1", "--env-set", "success=positive_reward"],
    }
    assert main([command, *words[command], "--out", out]) == 2
    assert "return them as info['admissible_actions']" in capsys.readouterr().err


def test_options_of_reset_reach_every_member_and_belong_to_the_task() -> None:
    group = GroupEnv(Guess, size=3, success="positive_reward")
    starts = group.reset(seed=1, options={"goal": 2})
    assert [info["goal"] for _, info in starts] == [2, 2, 2]
    assert len({info["task_id"] for _, info in starts}) == 1
    again = Recorder(Guess(), success="positive_reward")
    assert again.reset(options={"task": dict(group.members[0].base.task.content)})[1]["goal"] == 2
    own = GroupEnv("sokoban", size=2, panel="small-v1:train")
    task = own.tasks.task_ids()[3]
    assert {info["task_id"] for _, info in own.reset(options={"task_id": task}, seed=1)} == {task}
    with pytest.raises(ConfigError, match="given twice"):
        own.reset(task_id=task, options={"task_id": task})
    with pytest.raises(ConfigError, match="option of reset"):
        own.reset(options={"gaol": 2})


@pytest.mark.parametrize("name", [LAKE, "creditflow/Sokoban-v0"])
def test_a_refused_action_that_may_be_tried_again_is_unknown_to_the_wrappers_inside(name: str) -> None:
    own: dict[str, Any] = {} if name.startswith("creditflow") else {"success": "positive_reward"}
    gamma, episodes = 0.9, 12
    env = InvalidActions(DenseReward(gym.make(name), "gigpo", gamma=gamma, **own), "retry", retries=1)
    rng = np.random.default_rng(0)
    for _ in range(episodes):
        _, info = env.reset(seed=1, options=None)
        total, factor, potential, over = 0.0, 1.0, info["potential"], False
        while not over:
            _, reward, terminated, truncated, refused = env.step("no such action")
            assert (reward, terminated, truncated, refused["action_valid"]) == (0.0, False, False, False)
            *_, terminated, truncated, info = env.step(an_action(info, rng))
            total, factor, over = total + factor * info["shaping"], factor * gamma, terminated or truncated
        assert total == pytest.approx(-potential, abs=1e-9)


@pytest.mark.parametrize("outside", [lambda env: gym.wrappers.TimeLimit(env, 5), lambda env: env])
@pytest.mark.parametrize("truncation", ["end", "bootstrap"])
def test_an_episode_that_is_cut_outside_is_learned_from_and_said_where_it_matters(outside, truncation) -> None:
    inner: Any = DenseReward(gym.make(LAKE), "gigpo", gamma=0.9, success="positive_reward", truncation=truncation)
    env, learned, observe = outside(inner), list[Any](), inner.store.observe

    def observe_too(episode: Any) -> None:
        learned.append(episode)
        observe(episode)

    inner.store.observe = observe_too
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for episode in range(6):
            env.reset(seed=episode)
            for _ in range(5):
                if any(env.step(0)[2:4]):
                    break
    assert len(learned) == 5  # the last one may go on
    assert {member.stop_reason for member in learned} == {"env_limit"}
    expected = ["an episode was reset before it had ended"] if truncation == "end" else []
    assert [str(one.message)[:40] for one in said] == [text[:40] for text in expected]


def test_environments_are_copied() -> None:
    foreign = ForeignEnv(Guess(), success="positive_reward", task="goal")
    foreign.reset(seed=0)
    copied = copy.deepcopy(foreign)
    assert copied.step("say 1")[1:4] == foreign.step("say 1")[1:4]


def test_a_limit_that_info_reports_is_no_end_of_the_task() -> None:
    class Old(Guess):
        def step(self, action):
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, terminated, truncated, {**info, "TimeLimit.truncated": terminated and reward == 0.0}

    env = Recorder(Old(), success="terminated")
    env.reset(options={"task": {"seed": 0, "options": {"goal": 3}}})
    for _ in range(5):
        _, _, terminated, truncated, _ = env.step("say 0")
    assert (terminated, truncated) == (False, True)
    assert (env.trajectory.stop_reason, env.trajectory.success) == ("env_limit", False)
