"""From turns to tokens: broadcast_to_tokens, rows, weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.policy.samples import Row, broadcast_to_tokens, make_rows, ratio_segments, token_weights
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn


def trajectory(name: str, spans: list[tuple[int, int]], *, windowed: bool = False) -> Trajectory:
    """One turn per (prompt tokens, answer tokens); ids count up from 100."""
    turns = tuple(Turn(f"s{t}", "a", f"s{t + 1}") for t in range(len(spans)))
    mask: list[bool] = []
    offsets, prompts = [0], []
    for prompt, answer in spans:
        if windowed:
            prompts.append(np.arange(prompt, dtype=np.int32) + 500)
        else:
            mask += [False] * prompt
        mask += [True] * answer
        offsets.append(len(mask))
    ids = np.arange(len(mask), dtype=np.int32) + 100
    tokens = Tokens(ids, np.array(mask, np.bool_), -ids.astype(np.float32), np.array(offsets, np.int32), tuple(prompts))
    return Trajectory(name, "g", "t", turns, False, 0.0, "env_limit", f"s{len(spans)}", tokens=tokens)


def scored(*members: Trajectory, steps: list[float], mask: list[bool] | None = None) -> tuple[Group, Credit]:
    group = Group(members)
    return group, Credit.of(
        group,
        outcome=np.zeros(len(members)),
        step=np.array(steps),
        loss_mask=None if mask is None else np.array(mask, np.bool_),
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), max_size=6))
def test_broadcasting_puts_each_turns_number_on_its_model_tokens_and_nowhere_else(spans: list[tuple[int, int]]) -> None:
    tokens = trajectory("x", spans).tokens
    assert tokens is not None
    values = np.arange(1.0, len(spans) + 1)
    out = broadcast_to_tokens(values, tokens.turn_offsets, tokens.mask)
    expected = [v for (prompt, answer), v in zip(spans, values, strict=True) for v in [0.0] * prompt + [v] * answer]
    assert out.tolist() == expected


def test_broadcasting_rejects_offsets_that_do_not_fit() -> None:
    with pytest.raises(TrajectoryError, match="do not fit together"):
        broadcast_to_tokens(np.zeros(2), np.array([0, 3], np.int32), np.zeros(3, np.bool_))


def test_a_trajectory_row_holds_every_token_once() -> None:
    group, credit = scored(trajectory("x", [(3, 2), (2, 1)]), steps=[0.5, -1.0])
    [row] = make_rows([group], [credit])
    assert row.ids.tolist() == list(range(100, 108))
    assert row.target.tolist() == [3, 4, 7]
    assert row.advantage.tolist() == [0.5, 0.5, -1.0]
    assert row.turn.tolist() == [0, 0, 1]
    assert row.sampler_logprob.tolist() == [-103.0, -104.0, -107.0]


def test_turn_rows_hold_the_same_targets_as_the_trajectory_row() -> None:
    group, credit = scored(trajectory("x", [(3, 2), (2, 1)]), steps=[0.5, -1.0])
    [whole] = make_rows([group], [credit])
    parts = make_rows([group], [credit], row_layout="turn")
    assert [part.ids[part.target].tolist() for part in parts] == [[103, 104], [107]]
    assert np.concatenate([part.advantage for part in parts]).tolist() == whole.advantage.tolist()
    assert [part.turn_index for part in parts] == [0, 1]
    assert whole.turn_index == -1
    assert parts[1].ids.tolist() == whole.ids.tolist()


def test_a_ratio_of_a_sequence_needs_rows_of_trajectories() -> None:
    group, credit = scored(trajectory("x", [(3, 2), (2, 1)]), trajectory("y", [(1, 1)]), steps=[0.5, -1.0, 1.0])
    segments = ratio_segments(make_rows([group], [credit]), "sequence")
    assert segments is not None and segments.tolist() == [0, 0, 0, 1]
    with pytest.raises(ConfigError, match="ratio: turn"):
        ratio_segments(make_rows([group], [credit], row_layout="turn"), "sequence")


def test_windowed_rows_have_their_own_prompt() -> None:
    group, credit = scored(trajectory("x", [(2, 2), (3, 1)], windowed=True), steps=[1.0, 2.0])
    rows = make_rows([group], [credit])
    assert [row.ids.tolist() for row in rows] == [[500, 501, 100, 101], [500, 501, 502, 102]]
    assert [row.target.tolist() for row in rows] == [[2, 3], [3]]


def test_turns_outside_the_loss_have_no_target() -> None:
    group, credit = scored(trajectory("x", [(1, 2), (1, 2)]), steps=[1.0, 2.0], mask=[False, True])
    [row] = make_rows([group], [credit])
    assert row.turn.tolist() == [1, 1]


def test_a_trajectory_without_tokens_cannot_be_trained_on() -> None:
    bare = Trajectory("x", "g", "t", (Turn("a", "up", "b"),), False, 0.0, "env_limit", "b")
    group, credit = scored(bare, steps=[0.0])
    with pytest.raises(TrajectoryError, match="has no tokens"):
        make_rows([group], [credit])


def row(trajectory: int, turns: list[int], group: int = 0) -> Row:
    n = len(turns)
    return Row(
        np.zeros(n + 1, np.int32), np.arange(1, n + 1), np.zeros(n), np.zeros(n, np.float32),
        np.array(turns, np.int32), trajectory, group=group,
    )  # fmt: skip


def test_weights_average_as_each_aggregation_is_defined() -> None:
    rows = [row(0, [0, 0, 0, 1]), row(1, [0, 1])]
    assert np.allclose(np.concatenate(token_weights(rows, "token_mean")), 1 / 6)
    assert np.allclose(np.concatenate(token_weights(rows, "trajectory_mean")), [1 / 8] * 4 + [1 / 4] * 2)
    assert np.allclose(np.concatenate(token_weights(rows, "turn_mean")), [1 / 12] * 3 + [1 / 4] + [1 / 4] * 2)


# questions -> rollouts -> turns -> loss of each token
QUESTIONS = st.lists(st.lists(st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=4), min_size=1, max_size=3),
                              min_size=1, max_size=4), min_size=1, max_size=3)  # fmt: skip


def egrpo_eq_6(questions: list[list[list[list[float]]]]) -> float:
    """The expectation over questions of 1 / sum_i |H_i| * sum_i sum_j."""
    total = 0.0
    for rollouts in questions:
        length, inner = 0, 0.0
        for turns in rollouts:
            for losses in turns:
                for loss in losses:
                    length += 1
                    inner += loss
        total += inner / length
    return total / len(questions)


def pica_eq_14(questions: list[list[list[list[float]]]]) -> float:
    """The expectation over rollouts of 1 / sum_j I(y_j) * sum_j."""
    means = []
    for rollouts in questions:
        for turns in rollouts:
            length, inner = 0, 0.0
            for losses in turns:
                for loss in losses:
                    length += 1
                    inner += loss
            means.append(inner / length)
    return sum(means) / len(means)


def rewardflow_eq_11(questions: list[list[list[list[float]]]]) -> float:
    """1/G sum_i 1/T_i sum_t 1/|o_t| sum_k, over all rollouts."""
    means = []
    for rollouts in questions:
        for turns in rollouts:
            inner = 0.0
            for losses in turns:
                inner += sum(losses) / len(losses)
            means.append(inner / len(turns))
    return sum(means) / len(means)


@pytest.mark.parametrize("cut", [False, True], ids=["a row per trajectory", "a row per turn"])
@pytest.mark.parametrize(
    ("aggregation", "equation"),
    [("group_token_mean", egrpo_eq_6), ("trajectory_mean", pica_eq_14), ("turn_mean", rewardflow_eq_11)],
)
@given(questions=QUESTIONS)
def test_weights_are_those_of_the_papers_objectives(
    aggregation: Aggregation,
    equation: Callable[[list[list[list[list[float]]]]], float],
    cut: bool,
    questions: list[list[list[list[float]]]],
) -> None:
    rows, losses, number = [], [], 0
    for group, rollouts in enumerate(questions):
        for turns in rollouts:
            of_tokens = [t for t, tokens in enumerate(turns) for _ in tokens]
            rows += (
                [row(number, [t] * len(turns[t]), group) for t in range(len(turns))]
                if cut
                else [row(number, of_tokens, group)]
            )
            losses += [loss for tokens in turns for loss in tokens]
            number += 1
    weighted = np.concatenate(token_weights(rows, aggregation)) @ np.array(losses)
    assert weighted == pytest.approx(equation(questions), abs=1e-12)


def test_rows_know_their_group() -> None:
    first, credit = scored(trajectory("x", [(1, 2)]), steps=[1.0])
    second, other = scored(trajectory("y", [(1, 2)]), trajectory("z", [(1, 1)]), steps=[1.0, 1.0])
    assert [row.group for row in make_rows([first, second], [credit, other])] == [0, 1, 1]


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6).map(sorted), min_size=1, max_size=5))
def test_weights_sum_to_one_and_do_not_depend_on_how_trajectories_are_cut_into_rows(turns: list[list[int]]) -> None:
    whole = [row(i, t) for i, t in enumerate(turns)]
    cut = [row(i, [one for one in t if one == turn]) for i, t in enumerate(turns) for turn in sorted(set(t))]
    for kind in get_args(Aggregation):
        a, b = np.concatenate(token_weights(whole, kind)), np.concatenate(token_weights(cut, kind))
        assert np.isclose(a.sum(), 1.0)
        assert np.allclose(a, b)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scheme", ["grpo", "gigpo"])
@pytest.mark.parametrize("layout", ["trajectory", "turn"])
def test_check_batch_finds_no_error_in_our_own_rows(seed: int, scheme: str, layout: Any) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_group(rng, token_values=("value.a",)) for _ in range(3)]
    members = [(f"g{i}", member) for i, group in enumerate(groups) for member in group.trajectories]
    rows = make_rows(groups, credit.make(scheme).assign_batch(groups), row_layout=layout)
    shape = (len(rows), max(map(len, rows)))
    mask, advantages, turns = np.zeros(shape, np.bool_), np.zeros(shape), np.full(shape, -1)
    for i, row in enumerate(rows):
        mask[i, row.target], advantages[i, row.target], turns[i, row.target] = True, row.advantage, row.turn
    report = credit.check_batch(
        advantages, mask, turns=turns, groups=[members[row.trajectory][0] for row in rows],
        trajectories=[row.trajectory for row in rows], rewards=[members[row.trajectory][1].episode_return for row in rows],
    )  # fmt: skip
    assert report.errors == (), report
