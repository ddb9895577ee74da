"""Rows of turns in a verl batch, without verl: they find their episode again, whatever happened to their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS, SIZE
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.verl.credit import credit_batch
from creditflow.train.adapters.verl.record import EpisodeRecord, RowText, TurnRow, decode_row, group_rows
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

WIDTH = 90


def windowed(member: Trajectory) -> Trajectory:
    """The episode as one with a windowed history: completions alone, a prompt per turn."""
    tokens = member.tokens
    assert tokens is not None
    spans = list(zip(tokens.turn_offsets[:-1].tolist(), tokens.turn_offsets[1:].tolist(), strict=True))
    sizes = [int(tokens.mask[a:b].sum()) for a, b in spans]
    kept = np.flatnonzero(tokens.mask)
    made = replace(
        tokens, ids=tokens.ids[kept], mask=tokens.mask[kept], logprobs=tokens.logprobs[kept],
        turn_offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), prompts=tuple(tokens.ids[:a] for a, _ in spans),
        values={},
    )  # fmt: skip
    return replace(member, tokens=made)


def turn_rows(group: Group) -> tuple[list[RowText], np.ndarray, list[tuple[int, int]]]:
    """What the rows of a group's turns carry, their masks, and the member and turn of each."""
    rows: list[RowText] = []
    mask, places = [], []
    for i, member in enumerate(map(windowed, group.trajectories)):
        record = EpisodeRecord.of(member)
        for t, length in enumerate(np.diff(record.turn_offsets).tolist()):
            text = TurnRow(member.trajectory_id, t, record if t + 1 == len(member.turns) else None).encode()
            rows.append(decode_row(text))
            mask.append(np.arange(WIDTH) < length)
            places.append((i, t))
    return rows, np.array(mask), places


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "grouptd"])
@pytest.mark.parametrize("name", GROUPS)
@given(seed=st.integers(0, 2**32 - 1), padding=st.integers(0, 3))
def test_turns_get_their_advantages_in_any_order_and_between_padding(
    name: str, scheme: str, seed: int, padding: int
) -> None:
    group, made = GROUPS[name], credit.make(scheme)
    rows, mask, places = turn_rows(group)
    shuffled = np.random.default_rng(seed).permutation(len(rows) + padding).tolist()
    texts = [*rows, *[None] * padding]
    masks = np.concatenate([mask, np.zeros((padding, WIDTH), bool)])
    scored = credit_batch(
        made, ["u"] * len(shuffled), [texts[i] for i in shuffled], masks[shuffled], size=SIZE
    )  # fmt: skip
    wanted = made.assign(group).advantages
    for place, i in enumerate(shuffled):
        number = wanted[places[i][0]][places[i][1]] if i < len(rows) else 0.0
        assert scored.advantages[place].tolist() == (number * masks[i]).tolist()
    assert (scored.mask == masks[shuffled]).all()
    assert scored.windowed


def test_an_episode_that_lacks_a_row_makes_its_group_incomplete() -> None:
    rows, mask, places = turn_rows(GROUPS["unequal turn counts"])
    long = next(i for i, t in places if t == 2)
    own = [row for row, (i, _) in enumerate(places) if i == long]
    for lost in (own[0], own[-1]):  # a first turn, and the last one with its record
        left = [i for i in range(len(rows)) if i != lost]
        given_rows = [rows[i] for i in left]
        with pytest.raises(TrajectoryError, match=r"has 3 of 4 episodes here \(.*lacks the row.*(turns|record)"):
            credit_batch(credit.make("grpo"), ["u"] * len(left), given_rows, mask[left], size=SIZE)
        zeroed = credit_batch(
            credit.make("grpo"), ["u"] * len(left), given_rows, mask[left], size=SIZE, incomplete="zero"
        )
        assert not zeroed.advantages.any()


def test_rows_that_contradict_each_other_are_rejected() -> None:
    rows, _, _ = turn_rows(GROUPS["unequal turn counts"])
    uids = ["u"] * (len(rows) + 1)
    with pytest.raises(TrajectoryError, match="two rows of turn 0"):
        group_rows(uids, [*rows, rows[0]])
    last = next(row for row in rows if isinstance(row, TurnRow) and row.record is not None)
    assert isinstance(last, TurnRow)
    assert last.record is not None
    with pytest.raises(TrajectoryError, match="two rows with a record"):
        group_rows(uids, [*rows, TurnRow(last.trajectory_id, 99, EpisodeRecord.decode(last.record.encode()))])
    with pytest.raises(TrajectoryError, match="has a row of turn 99, its record is of"):
        group_rows(uids, [*rows, TurnRow(last.trajectory_id, 99)])


def test_a_completion_that_was_cut_after_the_loop_is_rejected() -> None:
    rows, mask, _ = turn_rows(GROUPS["unequal turn counts"])
    mask[0, :] = np.arange(WIDTH) < mask[0].sum() + 1
    with pytest.raises(TrajectoryError, match="was the response cut"):
        credit_batch(credit.make("grpo"), ["u"] * len(rows), rows, mask, size=SIZE)


@pytest.mark.parametrize(
    "head",
    ['{"trajectory": "a"}', '{"trajectory": 3, "turn": 0}', '{"trajectory": "a", "turn": -1}', "{", "{}",
     '{"trajectory": "a", "turn": true}', '{"trajectory": "a", "turn": 0, "more": 1}', '{"trajectory": "a", "trajectory": "a"}'],
)  # fmt: skip
def test_a_text_that_is_no_row_of_a_turn_is_rejected(head: str) -> None:
    with pytest.raises(TrajectoryError, match="begins with its trajectory and turn"):
        decode_row(head + "\n")


@given(st.text(max_size=40) | st.none() | st.integers())
def test_any_other_text_is_rejected_with_our_own_error(text: Any) -> None:
    with pytest.raises(TrajectoryError):
        decode_row(text)
