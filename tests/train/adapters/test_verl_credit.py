"""The part of the verl adapter that is NumPy alone: settings, records, whole groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS, SIZE

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.verl.credit import CreditSettings, check_averaging, credit_batch, read_settings
from creditflow.train.adapters.verl.record import EpisodeRecord
from creditflow.train.engines.verl import rows_of
from creditflow.train.policy.samples import broadcast_to_tokens
from creditflow.wrappers.records.group import Group

WIDTH = 90


def rows(group: Group) -> tuple[list[EpisodeRecord], np.ndarray]:
    """Records and padded response masks of a group's episodes."""
    mask = np.zeros((len(group), WIDTH), np.int64)
    records = []
    for i, member in enumerate(group.trajectories):
        assert member.tokens is not None
        first = int(np.argmax(member.tokens.mask))
        wrote = member.tokens.mask[first:]
        mask[i, : len(wrote)] = wrote
        records.append(EpisodeRecord.decode(EpisodeRecord.of(member).encode()))
    return records, mask


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "grouptd"])
@pytest.mark.parametrize("name", GROUPS)
def test_advantages_of_turns_arrive_on_their_tokens(name: str, scheme: str) -> None:
    group, made = GROUPS[name], credit.make(scheme)
    records, mask = rows(group)
    scored = credit_batch(made, ["u"] * SIZE, records, mask, size=SIZE)
    for i, (member, numbers) in enumerate(zip(group.trajectories, made.assign(group).advantages, strict=True)):
        assert member.tokens is not None
        first = int(np.argmax(member.tokens.mask))
        wanted = broadcast_to_tokens(numbers, member.tokens.turn_offsets, member.tokens.mask)[first:]
        assert scored.advantages[i, : len(wanted)].tolist() == wanted.tolist()
        assert not scored.advantages[i, len(wanted) :].any()
    assert (scored.mask == mask.astype(bool)).all()


def test_incomplete_groups_are_rejected_or_get_zero_advantages() -> None:
    records, mask = rows(GROUPS["unequal turn counts"])
    made = credit.make("grpo")
    with pytest.raises(TrajectoryError, match="has 3 of 4 episodes here"):
        credit_batch(made, ["u"] * 3, records[:3], mask[:3], size=SIZE)
    with pytest.raises(TrajectoryError, match=r"has 4 episodes, rollout\.n is 3"):
        credit_batch(made, ["u"] * 4, records, mask, size=3)
    left = credit_batch(made, ["u"] * 3, records[:3], mask[:3], size=SIZE, incomplete="zero")
    assert not left.advantages.any()
    assert not left.groups


def test_episodes_of_two_tasks_under_one_name_are_rejected() -> None:
    records, mask = rows(GROUPS["one turn"])
    other = EpisodeRecord(replace(records[0].trajectory, task_id="another"), records[0].turn_offsets, {})
    with pytest.raises(TrajectoryError, match="a group consists of rollouts of one task"):
        credit_batch(credit.make("grpo"), ["u"] * SIZE, [other, *records[1:]], mask, size=SIZE)


def test_sampled_tokens_after_the_last_turn_of_the_record_are_rejected() -> None:
    records, mask = rows(GROUPS["one turn"])
    end = int(records[2].turn_offsets[-1])
    longer = np.pad(mask, ((0, 0), (0, 3)))
    assert credit_batch(credit.make("grpo"), ["u"] * SIZE, records, longer, size=SIZE).groups
    longer[2, end + 1] = 1
    with pytest.raises(
        TrajectoryError, match=f"its turns end at token {end} and leave out the sampled token {end + 2}"
    ):
        credit_batch(credit.make("grpo"), ["u"] * SIZE, records, longer, size=SIZE)


@pytest.mark.parametrize(
    ("averages", "mode", "windowed", "fits"),
    [
        ("token_mean", "token-mean", False, True), ("token_mean", "token-mean", True, True),
        ("token_mean", "seq-mean-token-mean", False, False), ("token_mean", "seq-mean-token-mean", True, False),
        ("trajectory_mean", "seq-mean-token-mean", False, True), ("trajectory_mean", "seq-mean-token-mean", True, False),
        ("trajectory_mean", "token-mean", False, False), ("turn_mean", "token-mean", False, False),
    ],
)  # fmt: skip
def test_the_loss_averages_as_the_scheme_does(averages: Any, mode: str, windowed: bool, fits: bool) -> None:
    if fits:
        check_averaging(averages, mode, windowed=windowed)
    else:
        with pytest.raises(ConfigError, match="averaging=verl uses verl's averaging instead"):
            check_averaging(averages, mode, windowed=windowed)


def test_an_episode_that_failed_to_start_gets_zero_advantages_and_counts_in_its_group() -> None:
    records, mask = rows(GROUPS["one turn"])
    bare = replace(records[3].trajectory, turns=(), final_state_key="s0", success=False, stop_reason="token_limit")
    mask[3] = 0
    members = [*records[:3], EpisodeRecord.of(bare)]
    scored = credit_batch(credit.make("grpo"), ["u"] * SIZE, members, mask, size=SIZE)
    assert not scored.advantages[3].any()
    assert scored.advantages[:3].any()


def test_passages_that_the_group_read_reach_schemes_over_them() -> None:
    records, mask = rows(GROUPS["one turn"])
    annotated = [
        EpisodeRecord(one.trajectory, one.turn_offsets, {"question": "q", "documents": {f"d{i}": "text"}})
        for i, one in enumerate(records)
    ]
    [group] = credit_batch(credit.make("grpo"), ["u"] * SIZE, annotated, mask, size=SIZE).groups
    assert group.task["question"] == "q"
    assert sorted(group.task["documents"]) == ["d0", "d1", "d2", "d3"]


@pytest.mark.parametrize("text", [None, 3, "", "no lines", "[0]", "[0, -1]\n{}", "[0.5]\n{}", "{}\n{}"])
def test_a_text_that_is_no_record_is_rejected(text: object) -> None:
    with pytest.raises(TrajectoryError):
        EpisodeRecord.decode(text)


def test_settings_are_strict() -> None:
    assert read_settings(None) == CreditSettings()
    assert read_settings({"scheme": "gigpo", "parameters": {"discount": 0.9}}).make() == credit.make(
        "gigpo", discount=0.9
    )
    with pytest.raises(ConfigError, match="did you mean 'scheme'"):
        read_settings({"sceme": "gigpo"})
    with pytest.raises(ConfigError, match="did you mean 'gigpo'"):
        read_settings({"scheme": "gipo"}).make()
    with pytest.raises(ConfigError, match="which annotators write"):
        read_settings({"scheme": "pica"}).make()


def test_rows_of_a_data_set_hold_the_whole_task() -> None:
    import json

    import creditflow

    env: Any = creditflow.make("sokoban", panel="small-v1:train")
    source = env.unwrapped.tasks
    tasks = [source.get(task_id) for task_id in source.task_ids()[:3]]
    for row, task in zip(rows_of("sokoban", tasks), tasks, strict=True):
        env = creditflow.make("sokoban")
        _, info = env.reset(options={"task": json.loads(row["extra_info"]["task"])})
        assert info["task_id"] == task.task_id == row["extra_info"]["task_id"]
