"""Rollouts ahead of the update, without a model: their end, and what a checkpoint keeps of them."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.wandering import WanderingAgent, alive, makers, tasks

from creditflow.envs.errors import DataError
from creditflow.train.rollout.ahead import AheadGroups, OnTurn, RolloutsAhead, read_ahead, write_ahead
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.running import RolloutReport
from creditflow.train.rollout.task_sampling import SampledGroups
from creditflow.wrappers.records.pictures import EncodedPicture, picture_of


def test_closing_ends_what_is_sampled_after_its_present_turn() -> None:
    turns: list[int] = []
    began, may_end = threading.Event(), threading.Event()

    def sample(_slot: int, _iteration: int, on_turn: OnTurn) -> SampledGroups:
        for turn in range(100):
            turns.append(turn)
            began.set()
            assert may_end.wait(60)
            on_turn(1, 1)
        return SampledGroups()

    ahead = RolloutsAhead(2, 5, refresh=lambda _slot: None, sample=sample)
    ahead.begin(0, {})  # iterations 0 and 1
    assert began.wait(60)
    closing = threading.Thread(target=ahead.close)
    closing.start()
    assert ahead._closing.wait(60)
    may_end.set()
    closing.join(60)
    assert turns == [0]  # and iteration 1 did not begin
    assert not alive()


def test_a_failed_rollout_is_raised_where_its_groups_are_asked_for() -> None:
    def sample(_slot: int, iteration: int, _on_turn: OnTurn) -> SampledGroups:
        if iteration == 1:
            raise OSError("no server")
        return SampledGroups(discarded=iteration)

    ahead = RolloutsAhead(2, 5, refresh=lambda _slot: None, sample=sample)
    ahead.begin(0, {})
    assert ahead.take(0).sampled.discarded == 0
    with pytest.raises(OSError, match="no server"):
        ahead.take(1)
    ahead.close()
    assert not alive()


def kept_groups() -> dict[int, AheadGroups]:
    """Two iterations with groups of agents that write tokens, and numbers that are all different."""
    make, _ = makers(2)
    found = {}
    for iteration in (3, 4):
        report = RolloutReport()
        groups = RolloutEngine(make).play(WanderingAgent(), tasks(2), seed=iteration, report=report)
        sampled = SampledGroups(groups, report, discarded=10 + iteration)
        found[iteration] = AheadGroups(sampled, 20 + iteration, 0.5 * iteration)
    return found


def test_what_was_sampled_ahead_is_read_as_it_was_written(tmp_path: Path) -> None:
    groups = kept_groups()
    write_ahead(tmp_path, groups)
    found = read_ahead(tmp_path, 3, 2)
    assert sorted(found) == [3, 4]
    for iteration, one in groups.items():
        read = found[iteration]
        assert (read.version, read.seconds) == (one.version, one.seconds)
        assert read.sampled.groups == one.sampled.groups
        assert (read.sampled.report, read.sampled.discarded) == (
            one.sampled.report, one.sampled.discarded,
        )  # fmt: skip


def test_a_checkpoint_whose_rollouts_are_others_is_an_error(tmp_path: Path) -> None:
    write_ahead(tmp_path, kept_groups())
    for done, ahead in ((3, 1), (3, 3), (2, 2)):
        with pytest.raises(
            DataError, match=rf"expected the rollouts of iterations {done} to .* found those of \[3, 4\]"
        ):
            read_ahead(tmp_path, done, ahead)
    path = tmp_path / "ahead" / "ahead.json"
    state = json.loads(path.read_text(encoding="ascii"))
    state["3"]["groups"] -= 1
    path.write_text(json.dumps(state), encoding="ascii")
    with pytest.raises(DataError, match="iteration 3 has 2 groups, expected 1"):
        read_ahead(tmp_path, 3, 2)
    for text in ("[]", "{", '{"3": 1}', '{"x": {}}'):
        path.write_text(text, encoding="ascii")
        with pytest.raises(DataError, match="ahead"):
            read_ahead(tmp_path, 3, 2)
    path.unlink()
    with pytest.raises(DataError, match=r"ahead\.json cannot be read"):
        read_ahead(tmp_path, 3, 2)


def test_pictures_are_read_as_they_were_shown_and_need_a_model_that_sees(tmp_path: Path) -> None:
    ahead = kept_groups()[3]
    group, *others = ahead.sampled.groups
    first, *later = group.trajectories
    assert first.tokens is not None
    shown = {shade: picture_of(np.full((2, 3, 3), shade, np.uint8)) for shade in range(3)}

    def encode(pixels: Any) -> EncodedPicture:
        return EncodedPicture(picture_of(pixels), np.full((1, 1), pixels.flat[0], np.float32), (1, 1, 1), 1, 0)

    turns = len(first.tokens.turn_offsets) - 1
    pictures = tuple(tuple(encode(shown[(t + k) % 3].pixels) for k in range(t % 3)) for t in range(turns))
    seen = replace(first, tokens=replace(first.tokens, pictures=pictures))
    groups = [replace(group, trajectories=(seen, *later)), *others]
    write_ahead(tmp_path, {3: replace(ahead, sampled=replace(ahead.sampled, groups=groups))})

    read = read_ahead(tmp_path, 3, 1, encode)[3].sampled.groups
    assert read == groups  # which compares the names of the pictures
    tokens = read[0].trajectories[0].tokens
    assert tokens is not None
    for turn, expected in zip(tokens.pictures, pictures, strict=True):
        assert [(p.patches.item(), p.picture.pixels.tolist()) for p in turn] == [
            (p.patches.item(), p.picture.pixels.tolist()) for p in expected
        ]
    with pytest.raises(DataError, match="iteration 3 has pictures, but the model reads text only"):
        read_ahead(tmp_path, 3, 1)
    next((tmp_path / "ahead" / "pictures").glob("*.png")).unlink()
    with pytest.raises(DataError, match="the picture is missing"):
        read_ahead(tmp_path, 3, 1, encode)
