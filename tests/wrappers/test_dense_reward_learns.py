"""``DenseReward`` learns by itself: from its own episodes, in any stack, never within an episode; what is no potential says why."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.episodes.builders import walk as walk_of
from helpers.shared_data import ROOT
from helpers.trainer_page import blocks
from helpers.worlds.shaped_sokoban import play, sokoban

import creditflow
from creditflow.agents.base import View
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.foreign.env import DEFAULT_LIMIT
from creditflow.wrappers import DenseReward, Group, Potentials, PotentialStore, Recorder, credit, relabel
from creditflow.wrappers.dense_reward import make_store
from creditflow.wrappers.history_potential import HISTORY
from creditflow.wrappers.potentials import POTENTIALS

PAGE = ROOT / "assets" / "site" / "pages" / "how_to" / "dense_rewards.md"
ENVS: dict[str, dict[str, Any]] = {
    "Sokoban": {"panel": "easy-v1:train"},
    "ALFWorld": {"panel": "standard-v3:train"},
    "WebShop": {"panel": "standard-v1:train"},
    "WikiSearch": {"panel": "standard-v1:train"},
}


def block(number: int) -> str:
    return blocks(PAGE)[number][1]


def ran(lines: str, folder: Path) -> dict[str, Any]:
    """The names that lines of the page leave, run as a script."""
    script = folder / "block.py"
    script.write_text(lines, encoding="utf-8")
    return runpy.run_path(str(script))


def walk(env: Any, episodes: int, tasks: list[str], noise: float = 0.3) -> list[list[dict[str, Any]]]:
    """Infos of each episode, that of the reset first; task by task in turn."""
    agent, rng, played = NoisyExpert(noise), np.random.default_rng(1), []
    for episode in range(episodes):
        observation, info = env.reset(seed=episode, options={"task_id": tasks[episode % len(tasks)]})
        infos, over = [info], False
        while not over:
            [decision] = agent.act([View(observation, info, (), env.unwrapped, rng)])
            observation, _, terminated, truncated, info = env.step(decision.action)
            infos.append(info)
            over = terminated or truncated
        played.append(infos)
    return played


@pytest.mark.parametrize("name", ENVS)
def test_the_printed_lines_give_dense_rewards_in_every_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    lines = (
        block(0).replace("creditflow/Sokoban-v0", f"creditflow/{name}-v0").replace("easy-v1:train", ENVS[name]["panel"])
    )
    with contextlib.redirect_stdout(printed):
        space = ran(lines, tmp_path)
    shaping = np.array(space["shaped"])
    assert np.count_nonzero(shaping) / len(shaping) >= 0.2, printed.getvalue()
    assert "of" in printed.getvalue()
    loaded = Potentials.load(tmp_path / "potential.json")
    assert loaded == space["version"]
    assert loaded.digest == space["version"].digest


def test_the_printed_lines_pay_for_observations_of_cartpole(tmp_path: Path) -> None:
    space = ran(block(1), tmp_path)
    assert np.count_nonzero(space["shaped"]) > 0.5 * len(space["shaped"])


def test_the_printed_lines_learn_each_task_alone(tmp_path: Path) -> None:
    space = ran(block(2), tmp_path)
    left, right = space["potentials"].values()
    assert all(sum(potential != 0 for potential in states.values()) >= 4 for states in (left, right))
    assert left != right  # the same places, other goals


def test_the_default_limit_on_the_page_is_the_default() -> None:
    for page in (PAGE, ROOT / "wrappers" / "README.md"):
        assert f"gets one of {DEFAULT_LIMIT} steps" in page.read_text(encoding="utf-8")


def test_the_printed_lines_in_hindsight(tmp_path: Path) -> None:
    space = ran(block(3), tmp_path)
    assert sum(int(np.count_nonzero(rewards)) for rewards in space["rewards"]) > len(space["group"].turns) / 5


@pytest.mark.parametrize("scheme", [*POTENTIALS, "features", "oracle", "random", "shuffled", "zero"])
@pytest.mark.parametrize(("name", "gamma"), [("Sokoban", 0.97), ("Sokoban", 1.0), ("WebShop", 0.97)])
def test_the_shaping_of_every_episode_telescopes_to_the_first_potential(name: str, gamma: float, scheme: str) -> None:
    env: Any = DenseReward(gym.make(f"creditflow/{name}-v0", **ENVS[name]), scheme, gamma=gamma)
    tasks = env.unwrapped.tasks.task_ids()[:3]
    total = 0
    for infos in walk(env, 12, tasks):
        discounted = sum(gamma**t * info["shaping"] for t, info in enumerate(infos[1:]))
        assert discounted == pytest.approx(-infos[0]["potential"], abs=1e-9)
        assert len({info["potential_version"] for info in infos}) == 1
        total += sum(info["shaping"] != 0.0 for info in infos[1:])
    assert (total > 0) == (scheme != "zero")


@pytest.mark.parametrize("stack", ["none", "inside", "outside", "both"])
def test_it_learns_with_or_without_a_recorder_anywhere(stack: str) -> None:
    inner: gym.Env[Any, Any] = sokoban()
    if stack in ("inside", "both"):
        inner = Recorder(inner)
    env: Any = DenseReward(inner, "grouptd", gamma=0.9)
    if stack in ("outside", "both"):
        env = Recorder(env)
    task = sokoban().reset(seed=0)[1]["task_id"]
    first, *_, last = walk(env, 12, [task])
    assert not any(info["shaping"] for info in first)
    assert any(info["shaping"] for info in last)
    if stack in ("outside", "both"):
        assert [turn.reward for turn in env.trajectory.turns] == [info["raw_reward"] for info in last[1:]]


def test_what_it_learns_is_what_a_store_learns_by_hand() -> None:
    env: Any = DenseReward(sokoban(), "rewardflow", gamma=0.9, window=4)
    recorder = Recorder(env, texts=False)
    task = sokoban().reset(seed=0)[1]["task_id"]
    by_hand, agent, rng = (
        PotentialStore("rewardflow", discount=0.9, window=4),
        NoisyExpert(0.4),
        np.random.default_rng(3),
    )
    for episode in range(9):
        observation, info = recorder.reset(seed=episode, options={"task_id": task})
        by_hand.publish()
        assert dict(env.potentials.values) == dict(by_hand.snapshot().values)
        while not recorder.finished:
            [decision] = agent.act([View(observation, info, (), env.unwrapped, rng)])
            observation, _, _, _, info = recorder.step(decision.action)
        by_hand.observe(recorder.trajectory)
    assert any(env.potentials.values.values())


def test_a_shared_store_learns_from_every_environment_and_at_most_the_window_of_each_task() -> None:
    for max_tasks in (3, 2):
        store = PotentialStore("gigpo", window=5, max_tasks=max_tasks)
        envs: list[Any] = [
            DenseReward(gym.make("creditflow/Sokoban-v0", panel="easy-v1:train"), "gigpo", gamma=0.9, store=store)
            for _ in range(2)
        ]
        tasks = envs[0].unwrapped.tasks.task_ids()[:3]
        for env in envs:
            walk(env, 12, tasks)
        store.publish()
        sizes = [sum(len(group.trajectories) for group in window) for window in store._windows.values()]
        assert len(sizes) == max_tasks
        assert set(store.snapshot().values) <= set(store._windows)
        assert max(sizes) <= 5
        if max_tasks == 3:
            assert sizes == [5, 5, 5]


def test_unreachable_states_are_unknown_and_the_start_is_zero_for_schemes_of_distance() -> None:
    group = Group((walk_of("s a g"), walk_of("s d e", "failed"), walk_of("s a d e", "failed", name="again")))
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("rewardflow", {"discount": 0.5}),
        ("graphgpo", {"distance_discount": 0.5, "success_reward": 1.0}),
    )
    for scheme, options in cases:
        learned = PotentialStore(scheme, **options)
        published = PotentialStore(scheme, anchored=False, dead_ends="zero", **options)
        for store in (learned, published):
            store.add([group])
            store.publish()
        assert dict(learned.snapshot().values[group.task_id]) == {"s": 0.0, "a": 0.25}
        assert dict(published.snapshot().values[group.task_id]) == {"s": 0.25, "a": 0.5, "d": 0.0}


@pytest.mark.parametrize("scheme", credit.names())
def test_every_scheme_is_a_potential_or_says_why_not(scheme: str) -> None:
    if scheme in POTENTIALS:
        DenseReward(sokoban(), scheme, gamma=0.9)
        return
    if scheme in HISTORY:
        options: dict[str, Any] = {"model": lambda task, turns: 0.5} if scheme == "pica" else {}
        DenseReward(sokoban(), scheme, gamma=0.9, **options)
        return
    with pytest.raises(ConfigError, match=f"{scheme} cannot be a potential: it .*Potentials: "):
        DenseReward(sokoban(), scheme, gamma=0.9)


def test_pica_shapes_by_its_success_model() -> None:
    calls = []

    def model(task: Any, turns: list[dict[str, str]]) -> float:
        calls.append([turn["action"] for turn in turns])
        return 0.1 + 0.1 * len(turns)

    env = DenseReward(sokoban(), "pica", gamma=1.0, model=model)
    assert env.reset(seed=0)[1]["potential"] == 0.1
    assert env.step("down")[4]["shaping"] == pytest.approx(0.1)
    assert env.step("left")[4]["potential"] == pytest.approx(0.3)
    assert calls[-1] == ["down", "left"]
    with pytest.raises(ConfigError, match="pica needs model="):
        DenseReward(sokoban(), "pica", gamma=1.0)
    with pytest.raises(ConfigError, match="grouptd has none"):
        DenseReward(sokoban(), "grouptd", gamma=1.0, model=model)
    with pytest.raises(DataError, match="probability"):
        DenseReward(sokoban(), "pica", gamma=1.0, model=lambda task, turns: float("nan")).reset()


def test_egrpo_shapes_by_the_entities_that_thoughts_have_named() -> None:
    env: Any = DenseReward(creditflow.make("wikisearch"), "egrpo", gamma=1.0)
    recorder = Recorder(env)
    _, info = recorder.reset(seed=0)
    names = env.unwrapped.task.content["construction_entities"]
    action = next(action for action in info["admissible_actions"] if action.startswith("search"))
    recorder.record_response(thought=f"It may be {names[0]}.")
    named = recorder.step(action)[4]["potential"]
    assert 0.0 < named <= 1.0
    recorder.record_response(thought=f"Again {names[0]}.")
    assert recorder.step(action)[4]["potential"] == named


def test_hindsight_rewards_telescope_and_do_not_depend_on_the_order_of_trajectories() -> None:
    members = play(0, NoisyExpert(0.5), 8).trajectories
    rewards = relabel(members, "gigpo", gamma=0.9)
    backwards = relabel(members[::-1], "gigpo", gamma=0.9)
    for member, row, other in zip(members, rewards, backwards[::-1], strict=True):
        assert row.tolist() == other.tolist()
        shaping = row - [turn.reward for turn in member.turns]
        assert abs(shaping).sum() > 0.0
    first = [sum(0.9**t * (x - turn.reward) for t, (x, turn) in enumerate(zip(row, member.turns, strict=True)))
             for row, member in zip(rewards, members, strict=True)]  # fmt: skip
    assert np.ptp(first) < 1e-12  # minus Φ of the start that they share
    with pytest.raises(ConfigError, match="would have no effect"):
        relabel(members, "gigpo", gamma=0.9, store=PotentialStore("gigpo"), discount=0.5)


@pytest.mark.parametrize("scheme", ["graphgpo", "gigpo", "grouptd"])
def test_hindsight_rewards_have_the_discount_of_the_trainer_as_the_wrapper_has(scheme: str) -> None:
    members = play(0, NoisyExpert(0.5), 6).trajectories
    rewards = relabel(members, scheme, gamma=0.9)
    expected = relabel(members, scheme, gamma=0.9, store=make_store(scheme, gamma=0.9))
    assert [row.tolist() for row in rewards] == [row.tolist() for row in expected]


@pytest.mark.parametrize("change", ["value", "cut", "format"])
def test_a_changed_file_of_potentials_is_rejected(change: str, tmp_path: Any) -> None:
    store = PotentialStore("gigpo")
    store.add([play(0)])
    version, path = store.publish(), tmp_path / "potential.json"
    version.save(path)
    assert Potentials.load(path) == version
    with pytest.raises(ConfigError, match="never written over"):
        version.save(path)
    text = path.read_text()
    changed = {"value": text.replace("0.", "1.", 1), "cut": text[: len(text) // 2], "format": '{"format": "x"}'}[change]
    path.write_text(changed)
    with pytest.raises(DataError):
        Potentials.load(path)


@pytest.mark.filterwarnings("ignore:an episode was reset before")  # as the checker does
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")  # it is meant to be wrapped
@pytest.mark.parametrize("name", ENVS)
def test_gymnasiums_checker_passes_around_the_wrapper(name: str) -> None:
    env = DenseReward(gym.make(f"creditflow/{name}-v0", disable_env_checker=True, **ENVS[name]), "grouptd", gamma=0.97)
    check_env(env, skip_render_check=True)


def test_a_foreign_environment_learns_too() -> None:
    lake = gym.make("FrozenLake-v1", desc=["SFF", "FHF", "FFG"], is_slippery=False)
    env = DenseReward(lake, "gigpo", gamma=0.9, success="positive_reward")
    total = 0.0
    for _ in range(3):
        env.reset(seed=0)
        for action in (1, 1, 2, 2):
            total += abs(env.step(action)[4]["shaping"])
    assert total > 0.0
