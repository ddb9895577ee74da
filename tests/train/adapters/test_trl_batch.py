"""The columns for TRL and the settings that are refused, without TRL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.trl.batch import (
    TRL,
    TrlColumns,
    check_arguments,
    check_averaging,
    group_tasks,
    make_columns,
)
from creditflow.train.policy.samples import broadcast_to_tokens
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

Spans = list[tuple[int, int]]


def episode(name: str, task: str, spans: Spans, *, windowed: bool = False) -> Trajectory:
    """One turn per (prompt or observation tokens, sampled tokens); ids count up from 100."""
    turns = tuple(Turn(f"s{t}", "a", f"s{t + 1}") for t in range(len(spans)))
    mask = [sampled for read, written in spans for sampled in [False] * (0 if windowed else read) + [True] * written]
    sizes = [written + (0 if windowed else read) for read, written in spans]
    ids = np.arange(100, 100 + len(mask), dtype=np.int32)
    prompts = tuple(np.zeros(read, np.int32) for read, _ in spans) if windowed else ()
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tokens = Tokens(ids, np.array(mask, np.bool_), np.where(mask, -0.5, 0.0).astype(np.float32), offsets, prompts)
    return Trajectory(name, task, task, turns, False, 0.0, "env_limit", f"s{len(spans)}", tokens=tokens)


def scored(task: str, *spans: Spans, mask: list[bool] | None = None) -> tuple[Group, Credit]:
    group = Group(tuple(episode(f"{task}/{i}", task, one) for i, one in enumerate(spans)))
    n = len(group.turns)
    kept = None if mask is None else np.array(mask, np.bool_)
    return group, Credit.of(group, outcome=np.zeros(len(group)), step=np.arange(1.0, n + 1), loss_mask=kept)


def columns(*pairs: tuple[Group, Credit], names: list[str], size: int = 1) -> list[TrlColumns]:
    """The rows of episodes that are one row each."""
    episodes = make_columns([g for g, _ in pairs], [c for _, c in pairs], names, size=size, filler=7)
    assert all(len(rows) == 1 for rows in episodes)
    return [row for [row] in episodes]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6))
def test_columns_hold_the_advantages_of_broadcast_to_tokens(spans: Spans) -> None:
    group, credit = scored("a", spans)
    [one] = columns((group, credit), names=["a"])
    tokens = group.trajectories[0].tokens
    assert tokens is not None
    cut = len(one.prompt_ids)
    assert one.prompt_ids + one.completion_ids == tokens.ids.tolist()
    assert one.loss_mask == tokens.mask[cut:].astype(int).tolist()
    assert one.advantages == broadcast_to_tokens(credit.advantages[0], tokens.turn_offsets, tokens.mask)[cut:].tolist()


def test_turns_outside_the_loss_are_masked() -> None:
    [one] = columns(scored("a", [(1, 1), (1, 1), (1, 1)], mask=[True, False, True]), names=["a"])
    assert one.loss_mask == [1, 0, 0, 0, 1]
    assert one.advantages == [1.0, 0.0, 0.0, 0.0, 3.0]


def test_groups_come_in_the_order_of_the_prompts_and_missing_ones_are_one_masked_token() -> None:
    rows = columns(scored("b", [(1, 1)]), scored("a", [(1, 2)]), names=["a", "missing", "b"])
    assert [len(row.completion_ids) for row in rows] == [2, 1, 1]
    assert rows[1] == TrlColumns([7], [7], [0], [0.0], [0.0])


def test_an_episode_that_failed_to_start_is_one_masked_token() -> None:
    bare = Trajectory("a/1", "a", "a", (), False, 0.0, "token_limit", "s0")
    group = Group((episode("a/0", "a", [(1, 1)]), bare))
    credit = Credit.of(group, outcome=np.array([1.0, -1.0]))
    rows = columns((group, credit), names=["a"], size=2)
    assert [row.loss_mask for row in rows] == [[1], [0]]


def test_a_windowed_history_is_a_row_per_turn_in_the_loss() -> None:
    group = Group(
        (episode("a/0", "a", [(1, 1), (3, 2), (2, 1)], windowed=True), episode("a/1", "a", [(2, 1)], windowed=True))
    )
    mask = np.array([True, True, False, True])
    credit = Credit.of(group, outcome=np.zeros(2), step=np.array([1.0, 2.0, 3.0, 4.0]), loss_mask=mask)
    [first, second] = make_columns([group], [credit], ["a"], size=2, filler=7)
    assert first == [
        TrlColumns([0], [100], [1], [-0.5], [1.0]),
        TrlColumns([0, 0, 0], [101, 102], [1, 1], [-0.5, -0.5], [2.0, 2.0]),
    ]
    assert second == [TrlColumns([0, 0], [100], [1], [-0.5], [4.0])]


def test_a_group_of_another_size_is_rejected() -> None:
    with pytest.raises(TrajectoryError, match="has 1 episodes, expected 2"):
        columns(scored("a", [(1, 1)]), names=["a"], size=2)


@pytest.mark.parametrize("prompts", [["a", "a", "b"], ["a", "b", "a", "b"], ["a", "a", "a", "b"]])
def test_prompts_that_are_not_whole_groups_are_rejected(prompts: list[str]) -> None:
    with pytest.raises(ConfigError, match="not whole groups of 2"):
        group_tasks(prompts, 2)


def test_two_groups_of_a_task_in_one_batch_are_rejected() -> None:
    with pytest.raises(ConfigError, match="two groups"):
        group_tasks(["a", "a", "b", "b", "a", "a"], 2)


@pytest.mark.parametrize("version", ["1.15.0", "1.17.0", "2.0.0", "0.29.1", "unknown"])
def test_releases_that_were_not_tested_are_rejected_with_the_range(version: str) -> None:
    with pytest.raises(ConfigError, match=r"pip install 'trl>=1.16,<1.17'"):
        TRL.check(version)


def arguments(**changes: Any) -> SimpleNamespace:
    values = {
        "train_batch_size": 8, "steps_per_generation": 1, "generation_batch_size": 8, "num_generations": 4,
        "loss_type": "dapo", "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0,
        "use_vllm": False, "use_liger_kernel": False, "mask_truncated_completions": False,
        "importance_sampling_level": "token",
    }  # fmt: skip
    return SimpleNamespace(**values | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_generations": 3}, "whole groups"),
        ({"generation_batch_size": 16}, "4 different tasks"),
        ({"loss_type": "vespo"}, "covered: dapo"),
        ({"temperature": 0.0}, "temperature"),
        ({"top_p": 0.9}, "top_p=0.9"),
        ({"top_k": 50}, "top_k=50"),
        ({"min_p": 0.1}, "min_p=0.1"),
        ({"repetition_penalty": 1.1}, "repetition_penalty=1.1"),
        ({"use_vllm": True}, "use_vllm=True"),
        ({"use_liger_kernel": True}, "use_liger_kernel=True"),
        ({"mask_truncated_completions": True}, "mask_truncated_completions=True"),
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level='sequence'"),
        ({"top_entropy_quantile": 0.2}, "top_entropy_quantile=0.2"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold=0.5"),
        ({"delta": 2.0}, "delta=2.0"),
    ],
)
def test_settings_that_would_change_sampling_or_the_loss_are_rejected(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_arguments(arguments(**changes), tasks=2)


def test_a_loss_type_that_averages_over_rows_is_rejected_where_a_row_is_a_turn() -> None:
    check_arguments(arguments(), tasks=2, windowed=True)
    check_arguments(arguments(loss_type="grpo"), tasks=2)
    with pytest.raises(ConfigError, match="take one of dapo, bnpo, cispo"):
        check_arguments(arguments(loss_type="grpo"), tasks=2, windowed=True)


def test_a_loss_type_must_aggregate_as_the_scheme_requires() -> None:
    check_averaging("token_mean", "dapo")
    check_averaging("trajectory_mean", "grpo")
    with pytest.raises(ConfigError, match="loss types that fit: grpo"):
        check_averaging("trajectory_mean", "dapo")
    with pytest.raises(ConfigError, match="loss types that fit: none"):
        check_averaging("turn_mean", "grpo")
