"""The bridge: columns of turns in any order become the groups they were, every scheme's numbers reach their tokens, and batches
that would give wrong credit are refused by name."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.masking import successes_alone
from helpers.episodes.strategies import groups
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, CreditflowError, TrajectoryError
from creditflow.train import adapters
from creditflow.train.adapters.contract import CASES, ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import TurnColumns, assign_turns, over_mask, over_spans, sampled_runs
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group

TURNS: dict[str, Any] = {
    "group": ["g"] * 4, "trajectory": ["a", "a", "b", "b"], "turn": [0, 1, 0, 1], "state": ["s", "t", "s", "u"],
    "reward": [0.0, 1.0, 0.0, 0.0], "ended": [True, True, False, False],
}  # fmt: skip

MISSING = (None, float("nan"), np.float64("nan"), np.ma.masked, np.datetime64("NaT"))


def taken(columns: TurnColumns, rows: np.ndarray[Any, Any]) -> TurnColumns:
    """The columns at these rows."""
    lists = {f.name: getattr(columns, f.name) for f in fields(columns) if isinstance(getattr(columns, f.name), list)}
    chosen: dict[str, Any] = {name: [column[i] for i in rows] for name, column in lists.items()}
    return replace(columns, **chosen)


@given(groups(min_size=2, max_size=4, min_turns=1, max_turns=4), st.randoms(use_true_random=False))
def test_columns_in_any_order_with_copies_are_the_groups_they_came_from(group: Group, random: Any) -> None:
    columns, n = TurnColumns.of([group]), len(group.turns)
    rows = [*range(n), *random.choices(range(n), k=2)]
    random.shuffle(rows)
    scheme = credit.make("gigpo")
    expected = np.concatenate(assign_turns([group], scheme)[0])[rows]
    shuffled = credit.advantages(scheme, taken(columns, np.array(rows)))
    np.testing.assert_allclose(shuffled.per_turn, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["grpo", "rloo", "gigpo", "hgpo", "graphgpo", "grouptd", "rewardflow"])
def test_the_bridge_passes_its_own_contract_under_every_kind_of_scheme(name: str) -> None:
    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        mask, spans = case.rows()
        result = credit.advantages(scheme, TurnColumns.of(case.groups), mask=mask, spans=spans)
        return case.split(result.per_token)

    assert check_end(end, schemes=(name,), tolerance=1e-12) == tuple(case.name for case in CASES)


def test_the_contract_notices_an_end_that_spoils_credit() -> None:
    def through(spoil: Any) -> Any:
        def end(case: ContractCase, scheme: Scheme) -> OnTokens:
            mask, spans = case.rows()
            result = credit.advantages(scheme, TurnColumns.of(case.groups), mask=mask, spans=spans, incomplete="keep")
            return case.split(spoil(result.per_token, mask))

        return end

    for spoil, message in (
        (lambda table, mask: np.roll(table, 1, axis=1) * mask, "unequal turns, grpo"),
        (lambda table, mask: np.where(mask, table, 1.0), "not sampled"),
        (lambda table, mask: table[:, :-1], "of the shape"),
        (lambda table, mask: table * 0.0, "unequal turns, grpo: turn 0"),
        (lambda table, mask: table + mask * (len(table) == 1), "split batch, grpo: an incomplete group has credit"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_end(through(spoil))


def test_a_group_that_is_not_whole_is_refused_or_has_no_credit() -> None:
    columns = TurnColumns(**TURNS)
    with pytest.raises(TrajectoryError, match="group 'g' has 2 of 3 episodes"):
        credit.advantages("grpo", columns, group_size=3)
    with pytest.raises(TrajectoryError, match="has 2 episodes, expected 1"):
        credit.advantages("grpo", columns, group_size=1)
    zero = credit.advantages("grpo", columns, group_size=3, incomplete="zero", mask=np.ones((4, 2)))
    assert not zero.per_turn.any()
    assert not zero.in_loss.any()
    assert zero.token_in_loss is not None
    assert not zero.token_in_loss.any()
    assert zero.groups == ()


def test_turns_outside_the_loss_leave_it_with_their_tokens() -> None:
    result = credit.advantages(successes_alone(), TurnColumns(**TURNS), mask=np.ones((4, 1)))
    assert result.in_loss.tolist() == [True, True, False, False]
    assert result.token_in_loss is not None
    assert result.token_in_loss[:, 0].tolist() == [True, True, False, False]
    assert not result.per_turn[2:].any()


def test_annotations_travel_as_columns() -> None:
    scheme = credit.make("prm")
    [name] = scheme.needs
    with pytest.raises(ConfigError, match="annotators write"):
        credit.advantages(scheme, TurnColumns(**TURNS))
    with_values = TurnColumns(**TURNS, values={name: [0.1, 0.9, 0.2, 0.3]})
    assert credit.advantages(scheme, with_values).per_turn.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"turn": [0, 2, 0, 1]}, "turns are counted from 0 without gaps"),
        ({"turn": [0, 0.5, 0, 1]}, "turn must contain whole numbers"),
        ({"group": ["g", "h", "g", "g"]}, "trajectory 'a' has rows in the groups 'g' and 'h'"),
        ({"reward": [0.0, float("nan"), 0.0, 0.0]}, "turn 1: reward must be finite"),
        ({"reward": np.array([0, 1 + 2j, 0, 0])}, "reward: expected an array of numbers.*complex128"),
        ({"reward": np.array(["2026-01-01"] * 4, "M8[s]")}, "reward: expected an array of numbers.*(?s:.*)datetime64"),
        ({"ended": ["won", "won", "failed", "failed"]}, "stop_reason must be one of"),
        ({"ended": [[], [], [], []]}, "an end is a stop reason or whether"),
        *(({"ended": [end] * 4}, "an end is a stop reason or whether") for end in (float("nan"), -1.0, 0.3, 2, None)),
        *(({name: [none] * 4}, f"{name} of row 0: .* missing") for name in ("state", "group") for none in MISSING),
        *(
            ({name: [none] * 4}, f"{name} of row 0: .* missing")
            for name in ("trajectory", "action")
            for none in MISSING
        ),
        ({"valid": [1, 0.5, 1, 1]}, "valid must contain True and False"),
        ({"active": [1, float("nan"), 1, 1]}, "active must contain True and False"),
        (
            {"reward": np.ma.masked_array([0.0, 1.0, 0.0, 0.0], [False, True, False, False])},
            "turn 1: reward must be finite",
        ),
        ({"next_state": ["x", "end", "u", "end"]}, "next_state of its row 0 is not the state of its row 1"),
        ({"score": [0.0, 2.0, 0.0, 0.0]}, r"score must lie in \[0, 1\]"),
        ({"state": [object()] * 4}, "a state is a text, an array"),
        ({"action": ["x"]}, "action has 1 rows, group has 4"),
        *(
            ({name: [10**5000] * 4}, f"{name} of row 0: names and actions are texts")
            for name in ("group", "trajectory")
        ),
        ({"action": [10**5000] * 4}, "action of row 0: names and actions are texts"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CreditflowError, match=message):
        credit.advantages("gigpo", TurnColumns(**{**TURNS, **changes}))


@pytest.mark.parametrize(
    "end", [1, 1.0, np.int64(1), np.float32(1.0), np.bool_(True), np.array(True), np.str_("success")]
)
def test_a_success_is_true_or_one_of_any_library(end: Any) -> None:
    [group] = TurnColumns(**{**TURNS, "ended": [end, end, False, False]}).grouped().groups
    assert [member.stop_reason for member in group.trajectories] == ["success", "failed"]


@pytest.mark.parametrize(
    ("rewards", "reason"),
    [
        ([0.1, 0.2, -0.3], "env_limit"),  # 5.6e-17 in floats
        ([1e-12, 1e-13], "success"),  # small in another unit, and no rounding error
        ([-0.1, -0.2, 0.3], "env_limit"),
        ([1e9, 1e-3, -1e9], "env_limit"),
    ],
)
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_without_ends_success_is_a_sum_that_exceeds_its_rounding_error(rewards: Any, reason: str, unit: float) -> None:
    n = len(rewards)
    columns = TurnColumns(group=["g"] * n, trajectory=["a"] * n, state=range(n), reward=np.array(rewards) * unit)
    assert columns.grouped().groups[0].trajectories[0].stop_reason == reason


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("ended", ["success", "success", "failed", "failed"]), ("score", [1.0, 1.0, 0.5, 0.0]), ("valid", [1, 1, 0, 1]),
        ("state", ["s", "t", "u", "s"]), ("reward", [0.0, 1.0, 0.5, 0.0]), ("action", ["x", "y", "z", "x"]),
        ("next_state", ["t", "end", "other", "end"]),
    ],
)  # fmt: skip
def test_copies_of_a_row_must_agree_in_every_column(name: str, column: list[Any]) -> None:
    rows: dict[str, Any] = {
        "group": ["g"] * 4, "trajectory": ["a", "a", "a", "b"], "turn": [0, 1, 1, 0], "state": ["s", "t", "t", "s"],
        "reward": [0.0, 1.0, 1.0, 0.0], "ended": [True, True, True, False],
    }  # fmt: skip
    copies = [
        credit.advantages("gigpo", TurnColumns(**rows)),
        credit.advantages("gigpo", taken(TurnColumns(**rows), np.array([2, 3, 1, 0]))),
    ]
    assert copies[0].per_turn[[2, 3, 1, 0]].tolist() == copies[1].per_turn.tolist()
    with pytest.raises(TrajectoryError, match=f"two different rows of turn 1: {name} differs"):
        credit.advantages("gigpo", TurnColumns(**{**rows, name: column}))
    with pytest.raises(TrajectoryError, match=r"two different rows of turn 1: value\.x differs"):
        credit.advantages("gigpo", TurnColumns(**rows, values={"value.x": [0.0, 1.0, float("nan"), 0.0]}))


def test_columns_of_a_sorted_frame_are_read_by_position() -> None:
    class Labelled(list[Any]):  # as a column of a data frame after sorting: ``column[i]`` is the row with the label i
        def __getitem__(self, label: Any) -> Any:
            return super().__getitem__(len(self) - 1 - label)

    frame: dict[str, Any] = {name: Labelled(column) for name, column in TURNS.items()}
    expected = credit.advantages("gigpo", TurnColumns(**TURNS)).per_turn
    assert credit.advantages("gigpo", TurnColumns(**frame)).per_turn.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (np.array(["a", None], object), np.array(["a", None], object), True),  # by content, not by address
        (np.array(["ab"]), np.array(["ab", "longer"])[:1], True),  # whatever the width of the array
        (-0.0, 0.0, True), ([1, 0], "[1,0]", False), ([1, 0], (1, 0), True), ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        (np.array([1.0, 0.0]), np.array([1.0, -0.0]), True), (1, "1", False),
    ],
)  # fmt: skip
def test_states_are_compared_by_content(one: Any, other: Any, same: bool) -> None:
    [group] = TurnColumns(**{**TURNS, "state": [one, "t", other, "u"]}).grouped().groups
    first, second = (member.turns[0].state_key for member in group.trajectories)
    assert (first == second) == same


def test_tasks_are_found_by_groups_that_are_numbers() -> None:
    columns = TurnColumns(**{**TURNS, "group": np.array([7.0] * 4)}, tasks={7: {"a": 1}})  # type: ignore[dict-item]  # as people write
    [group] = columns.grouped().groups
    assert (group.group_id, dict(group.task)) == ("7", {"a": 1})


@pytest.mark.parametrize("name", ["egrpo", "gdcr", "sapo", "stepsearch"])
def test_schemes_that_read_what_columns_do_not_carry_are_refused_by_name(name: str) -> None:
    group = random_group(np.random.default_rng(1))
    with pytest.raises(ConfigError, match=f"scheme '{name}' reads .* of turns, and these turns have none"):
        credit.advantages(name, TurnColumns.of([group]), incomplete="keep")
    assert len(assign_turns([group], credit.make(name))) == 1  # of whole turns it is computed


def test_an_empty_completion_before_a_failure_moves_no_credit() -> None:
    [shown] = [case for case in CASES if case.name == "failed episodes"]
    played = next(member for member in shown.episodes if member.stop_reason == "env_error")
    first = played.turns[0]
    second = replace(first, state_key=first.next_state_key, next_state_key="lost", action="", response="")
    numbers = np.array([1.0, 2.0])
    longer = replace(played, turns=(first, second), final_state_key="lost")
    assert over_mask(longer, numbers, [1, 0, 1, 1, 0, 1]) == [1.0, 0.0, 2.0, 2.0, 0.0, 0.0]  # the third one failed
    with pytest.raises(TrajectoryError, match="turn 1 is empty: expected 3 runs"):
        over_mask(longer, numbers, [1, 0, 0, 1])
    spoken = replace(longer, turns=(first, replace(second, action="x")))
    assert over_mask(spoken, numbers, [1, 0, 0, 1]) == [1.0, 0.0, 0.0, 2.0]


def test_messages_use_the_names_that_a_trainer_has_for_its_columns() -> None:
    columns = TurnColumns(**{**TURNS, "turn": [1, 2, 0, 1]}, called={"turn": "step"})
    with pytest.raises(TrajectoryError, match="every step of an episode"):
        credit.advantages("grpo", columns)


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 0, 2), (0, 1, 4)], "belongs to two turns"),
        ([(0, 0, 2), (0, 2, 5)], "was the response cut"),
        ([(0, 0, 2), (1, 2, 4)], "the mask has 1 rows"),
        ([(0, 0, 2), (0, 2, 3)], "leave out the sampled token 4"),
        ([(0, 0, 4)], "expected a span of each of 2 turns"),
    ],
)
def test_spans_that_do_not_fit_the_mask_are_refused(spans: Any, message: str) -> None:
    mask = np.array([[False, True, True, True]])
    with pytest.raises(TrajectoryError, match=message):
        over_spans(np.array([1.0, 2.0]), spans, mask)


def test_rows_without_turns_and_failed_rows_keep_their_place() -> None:
    columns = TurnColumns(**{**TURNS, "trajectory": ["a", "a", "b", "c"], "turn": [0, 1, 0, 0]}, active=[1, 1, 1, 0])
    result = credit.advantages("grpo", columns)
    assert result.per_turn[3] == 0.0
    assert len(result.groups[0]) == 2


@given(st.lists(st.integers(0, 1), max_size=40))
def test_completions_are_the_runs_of_sampled_tokens(mask: list[int]) -> None:
    runs = sampled_runs(mask)
    assert [stop - 1 for _, stop in runs] == [i for i, bit in enumerate(mask) if bit and mask[i + 1 : i + 2] != [1]]
    assert [start for start, _ in runs] == [i for i, bit in enumerate(mask) if bit and (i == 0 or not mask[i - 1])]


@pytest.mark.parametrize("name", ["slime", "trinity", "roll", "areal", "agent_lightning", "nemo_gym"])
def test_an_end_has_at_most_sixty_lines_beside_its_docstring(name: str) -> None:
    source = (Path(adapters.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    docstring = ast.parse(source).body[0].end_lineno
    assert docstring is not None
    assert len(source.splitlines()) - docstring <= 60
