"""Credit of episodes that GEM's loops played is that of our own engine's groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.trainer_page import PAGE, run_blocks
from helpers.trainers.replayed import assert_same_credit, replayed
from helpers.worlds.sokoban_episodes import LEVELS

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.gem.credit import assign_infos
from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.credit.bridge import make_group, read_record

pytestmark = pytest.mark.gem
WORDS = ("up", "down", "left", "right", "jump")


def episodes(options: dict[str, Any], size: int, *, vector: bool) -> tuple[list[Any], list[list[str]]]:
    """Last infos of ``size`` episodes of one level, played by a vector environment or one by one; and the completions."""
    import gem

    rng = np.random.default_rng(0)
    settings = [{**options, "task": {"xsb": LEVELS[0]}} for _ in range(size)]
    infos: list[Any] = [None] * size
    written: list[list[str]] = [[] for _ in range(size)]
    if not vector:
        for i in range(size):
            env = gem.make("creditflow:sokoban", **settings[i])
            env.reset(seed=i)
            while infos[i] is None:
                written[i].append(f"<think>t</think><action>{rng.choice(WORDS)}</action>")
                *_, over, cut, info = env.step(written[i][-1])
                infos[i] = info if over or cut else None
        return infos, written
    envs = gem.make_vec(["creditflow:sokoban"] * size, vec_kwargs=settings)
    envs.reset(seed=0)
    while running := [i for i in range(size) if infos[i] is None]:
        actions = {i: f"<think>t</think><action>{rng.choice(WORDS)}</action>" for i in running}
        _, _, over, cut, found = envs.step(actions)
        for k, i in enumerate(running):
            written[i].append(actions[i])
            infos[i] = found[k] if over[k] or cut[k] else None
    return infos, written


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow"])
def test_credit_is_that_of_our_own_log_of_the_same_episodes(options: dict[str, Any], scheme: str, vector: bool) -> None:
    infos, written = episodes(options, 8, vector=vector)
    records = [info.get("creditflow", info.get("prev_ep_creditflow")) for info in infos]
    group = make_group("group", [read_record(record, str(i)) for i, record in enumerate(records)])
    assert {member.success for member in group.trajectories} == {True, False}
    play = EpisodeConfig(env=EnvConfig(name="sokoban", options={**options, "symbols": "ascii"}))
    ours = replayed(play, {"xsb": LEVELS[0]}, written)
    assert_same_credit(ours, group, credit.make(scheme))
    wanted = credit.make(scheme).assign(ours)
    for found, numbers, kept in zip(
        assign_infos(infos, credit.make(scheme)), wanted.advantages, wanted.loss_mask, strict=True
    ):
        assert np.array_equal(found, np.where(kept, numbers, 0.0))


def test_infos_that_are_no_ends_of_whole_groups_are_rejected(options: dict[str, Any]) -> None:
    infos, _ = episodes(options, 4, vector=False)
    scheme = credit.make("gigpo")
    assert len(assign_infos(infos, scheme, ["a", "b", "a", "b"])) == 4
    for wrong, names, message in (
        ([*infos, {}], (), "episode 4' has no record"),
        ([*infos, {"creditflow": "{"}], (), "JSON"),
        (infos[:1], (), "at least two per task"),
        (infos, ["a"], "need as many names"),
    ):
        with pytest.raises(TrajectoryError, match=message):
            assign_infos(wrong, scheme, names)
    with pytest.raises(ConfigError, match="annotators write"):
        assign_infos(infos, credit.make("pica"))
    assert assign_infos([], scheme) == []


def test_the_blocks_of_the_page_run(tmp_path: Any) -> None:
    assert run_blocks("gem", tmp_path, page=PAGE.parent / "LOOPS.md") == 1
