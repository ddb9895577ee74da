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
from creditflow.wrappers.credit.bridge import TurnColumns, assign_turns, over_spans, sampled_runs
from creditflow.wrappers.records.group import Group

TURNS: dict[str, Any] = {
    "group": ["g"] * 4, "trajectory": ["a", "a", "b", "b"], "turn": [0, 1, 0, 1], "state": ["s", "t", "s", "u"],
    "reward": [0.0, 1.0, 0.0, 0.0], "ended": [True, True, False, False],
}  # fmt: skip


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


@pytest.mark.parametrize("name", ["grpo", "rloo", "gigpo", "hgpo", "graphgpo", "grouptd", "rewardflow", "rtmc"])
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
        ({"ended": ["won", "won", "failed", "failed"]}, "stop_reason must be one of"),
        ({"ended": [[], [], [], []]}, "an end is a stop reason or whether"),
        ({"next_state": ["x", "end", "u", "end"]}, "next_state of its row 0 is not the state of its row 1"),
        ({"score": [0.0, 2.0, 0.0, 0.0]}, r"score must lie in \[0, 1\]"),
        ({"state": [object()] * 4}, "a state is a text, an array"),
        ({"action": ["x"]}, "action has 1 rows, group has 4"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CreditflowError, match=message):
        credit.advantages("gigpo", TurnColumns(**{**TURNS, **changes}))


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
