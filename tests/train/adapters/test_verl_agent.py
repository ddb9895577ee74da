"""The verl-agent drop-in: what it refuses, and how it treats missing columns. (Parity: tests/conformance.)"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.verl_agent import COLUMNS, compute_advantages, compute_gigpo_outcome_advantage
from creditflow.wrappers.credit.bridge import TurnColumns, state_text


def data_of(paths: dict[str, dict[str, str]], rewards: dict[str, float], **columns: list[Any]) -> Any:
    """Trajectories as spaced anchors, by group; the reward comes with the last row."""
    rows = [
        (group, name, anchor, rewards[name] * (t == len(path.split()) - 1), rewards[name])
        for group, members in paths.items()
        for name, path in members.items()
        for t, anchor in enumerate(path.split())
    ]
    named = dict(zip(("uid", "traj_uid", "anchor_obs", "rewards"), zip(*rows, strict=True), strict=False))
    table = {name: np.array(values, object) for name, values in {**named, **columns}.items()}
    tokens = np.zeros((len(rows), 3))
    tokens[:, 1] = [total for *_, total in rows]
    mask = np.array([[1, 1, 0]] * len(rows))
    return SimpleNamespace(batch={"token_level_rewards": tokens, "response_mask": mask}, non_tensor_batch=table)


def _columns(**columns: Any) -> TurnColumns:
    """The bridge's columns from verl-agent's."""
    names = {theirs: ours for ours, theirs in COLUMNS.items()} | {"active": "active"}
    return TurnColumns(
        **{names[name]: column for name, column in columns.items()}, called=COLUMNS | {"active": "active"}
    )


PATHS = {"g": {"a": "s t u", "b": "s v", "c": "s t"}}
WON = {"a": 10.0, "b": 0.0, "c": 0.0}


@pytest.mark.parametrize("name", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_the_four_columns_that_every_fork_has_are_enough(name: str) -> None:
    advantages, returns = compute_advantages(data_of(PATHS, WON), scheme=credit.make(name), ordered=True)
    assert advantages.shape == (7, 3)
    assert advantages.dtype == np.float32
    assert not advantages[:, 2].any()
    assert (advantages[:, 0] == advantages[:, 1]).all()
    assert (returns == advantages).all()
    assert advantages[:3].sum() > 0.0 > advantages[3:].sum()


@pytest.mark.parametrize(
    ("name", "options"),
    [("gigpo", {}), ("graphgpo", {}), ("rewardflow", {}), ("grouptd", {}), ("grpo", {"semantics": "release"}),
     ("rloo", {"stats_over": "first_turns"})],
)  # fmt: skip
def test_rows_of_unknown_order_are_rejected(name: str, options: dict[str, Any]) -> None:
    data, scheme = data_of(PATHS, WON), credit.make(name, **options)
    with pytest.raises(TrajectoryError, match=r"reads the order of steps.*ordered=True"):
        compute_advantages(data, scheme=scheme)
    stated, _ = compute_advantages(data, scheme=scheme, ordered=True)
    data.non_tensor_batch["step"] = np.array([0, 1, 2, 0, 1, 0, 1], object)
    shown, _ = compute_advantages(data, scheme=scheme)
    np.testing.assert_array_equal(stated, shown)


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_schemes_that_compare_trajectories_need_no_order_and_ignore_copies(name: str) -> None:
    data, scheme = data_of(PATHS, WON), credit.make(name)
    wanted, _ = compute_advantages(data, scheme=scheme)
    order = np.array([4, 6, 1, 3, 0, 5, 2, 3, 0])
    for part in (data.batch, data.non_tensor_batch):
        for column in part:
            part[column] = part[column][order]
    np.testing.assert_array_equal(compute_advantages(data, scheme=scheme)[0], wanted[order])


def test_the_last_state_without_next_obs_is_visited_by_no_other_trajectory() -> None:
    groups = _columns(**data_of(PATHS, WON).non_tensor_batch).grouped().groups
    ends = [member.final_state_key for member in groups[0].trajectories]
    assert len({*ends, "s", "t", "u", "v"}) == 7


def test_rows_out_of_order_are_noticed_by_their_next_observations() -> None:
    data = data_of(PATHS, WON, next_obs=["t", "u", "end", "v", "fin", "t", "end2"])
    compute_advantages(data, scheme=credit.make("graphgpo"))
    order = np.array([1, 0, 2, 3, 4, 5, 6])
    for part in (data.batch, data.non_tensor_batch):
        for name in part:
            part[name] = part[name][order]
    with pytest.raises(TrajectoryError, match=r"rows were shuffled or left out\. Pass step"):
        compute_advantages(data, scheme=credit.make("graphgpo"))


def test_two_different_rows_of_one_step_are_rejected() -> None:
    data = data_of(PATHS, WON, step=[0, 1, 1, 0, 1, 0, 1])
    with pytest.raises(TrajectoryError, match="two different rows of step 1"):
        compute_advantages(data, scheme=credit.make("gigpo"))


@pytest.mark.parametrize("steps", [[0, 2, 3, 0, 1, 0, 1], [1, 2, 3, 0, 1, 0, 1], [-1, 0, 1, 0, 1, 0, 1]])
def test_missing_steps_are_rejected(steps: list[int]) -> None:
    with pytest.raises(TrajectoryError, match="counted from 0 without gaps"):
        compute_advantages(data_of(PATHS, WON, step=steps), scheme=credit.make("gigpo"))


@pytest.mark.parametrize(
    ("column", "other"),
    [("anchor_obs", "z"), ("next_obs", "z"), ("rewards", 1.0), ("is_action_valid", False), ("text_actions", "z")],
)
def test_copies_of_a_row_that_differ_are_rejected(column: str, other: Any) -> None:
    data = data_of(
        PATHS, WON, step=[0, 1, 2, 0, 1, 0, 1], next_obs=["t", "u", "end", "v", "fin", "t", "end2"],
        is_action_valid=[True] * 7, text_actions=["go"] * 7,
    )  # fmt: skip
    order = np.array([*range(7), 3])
    for part in (data.batch, data.non_tensor_batch):
        for name in part:
            part[name] = part[name][order]
    compute_advantages(data, scheme=credit.make("gigpo"))
    data.non_tensor_batch[column][7] = other
    with pytest.raises(TrajectoryError, match="two different rows of step 0: "):
        compute_advantages(data, scheme=credit.make("gigpo"))


def test_a_trajectory_in_two_groups_is_rejected() -> None:
    data = data_of({"g": {"a": "s"}, "h": {"a": "s"}}, {"a": 0.0})
    with pytest.raises(TrajectoryError, match="in the groups 'g' and 'h'"):
        compute_advantages(data, scheme=credit.make("grpo"))


def test_rewards_that_are_not_the_episodes_are_rejected() -> None:
    data = data_of(PATHS, WON, step=[0, 1, 2, 0, 1, 0, 1])
    data.batch["token_level_rewards"][4, 1] -= (
        0.1  # as by a KL penalty, or by an invalid step that the scheme does not penalise
    )
    with pytest.raises(TrajectoryError, match=r"row 4: .*use_kl_in_reward.*invalid_action_penalty_coef"):
        compute_advantages(data, scheme=credit.make("gigpo"))
    valid = [True, True, True, True, False, True, True]
    data.non_tensor_batch["is_action_valid"] = np.array(valid, object)
    compute_advantages(data, scheme=credit.make("gigpo", invalid_penalty=0.1))
    data.batch["token_level_rewards"][4, 1] += 0.1  # a fork without a penalty, under a scheme with one
    with pytest.raises(TrajectoryError, match=r"row 4: .*an invalid step loses 0\.1"):
        compute_advantages(data, scheme=credit.make("gigpo", invalid_penalty=0.1))


STEPS = [0, 1, 2, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "options"),
    [("graphgpo", {}), ("rewardflow", {}), ("grouptd", {}), ("grpo", {"outcome": "success"}),
     ("gigpo", {"outcome": "success"}), ("0.5*grpo + 0.5*graphgpo", {}), ("grpo + rloo", {"outcome": "success"}),
     ("stateless", {"outcome": "success"})],
)  # fmt: skip
def test_graded_rewards_are_not_taken_for_success(name: str, options: dict[str, Any]) -> None:
    scheme = credit.make(name, **options)
    data = data_of(PATHS, {"a": 1.0, "b": 0.3, "c": 0.0}, step=STEPS)
    with pytest.raises(TrajectoryError, match=r"between 0.3 and 1 do not determine it; write .*'success'"):
        compute_advantages(data, scheme=scheme)
    data.non_tensor_batch["success"] = np.array([True] * 3 + [False] * 4, object)
    compute_advantages(data, scheme=scheme)
    compute_advantages(
        data_of(PATHS, {"a": 10.0, "b": -0.3, "c": 0.0}, step=STEPS), scheme=scheme
    )  # these determine success


@pytest.mark.parametrize("won", [float("nan"), None, "False", 0.5, 2])
def test_success_is_true_or_false(won: Any) -> None:
    data = data_of(PATHS, {"a": 1.0, "b": 0.0, "c": 0.0}, step=STEPS)
    data.non_tensor_batch["success"] = np.array([won] * len(data.non_tensor_batch["uid"]), object)
    with pytest.raises(TrajectoryError, match=r"success must contain True and False|expected an array of numbers"):
        compute_advantages(data, scheme=credit.make("graphgpo"))


@pytest.mark.parametrize(
    "text", ["0.5*grpo + 0.5*gigpo", "grpo + turn_loo", "stateless + mt_grpo", "step_to_go + 0.1*rloo"]
)
def test_a_sum_over_rewards_is_the_sum_of_its_schemes_rows(text: str) -> None:
    def scored(scheme: credit.Scheme) -> Any:
        return compute_advantages(data_of(PATHS, {"a": 1.0, "b": 0.3, "c": 0.0}, step=STEPS), scheme=scheme)[0]

    scheme = credit.make(text)
    assert isinstance(scheme, credit.Sum)
    np.testing.assert_allclose(scored(scheme), sum(weight * scored(each) for weight, each in scheme.terms), atol=1e-12)


def test_the_score_without_success_is_the_reward_if_it_lies_in_the_unit_interval() -> None:
    scheme = credit.make("grpo", outcome="score", outcome_scale="none")
    graded, _ = compute_advantages(data_of(PATHS, {"a": 1.0, "b": 0.5, "c": 0.0}), scheme=scheme)
    np.testing.assert_allclose(graded[[0, 3, 5], 0], [0.5, 0.0, -0.5])
    with pytest.raises(TrajectoryError, match="between 2 and 3 do not determine it"):
        compute_advantages(data_of(PATHS, {"a": 3.0, "b": 2.0, "c": 0.0}), scheme=scheme)


def test_a_missing_column_and_a_column_of_another_length_are_named() -> None:
    data = data_of(PATHS, WON, step=[0, 1])
    with pytest.raises(TrajectoryError, match="step has 2 rows, uid has 7"):
        compute_advantages(data, scheme=credit.make("grpo"))
    del data.non_tensor_batch["traj_uid"]
    with pytest.raises(TrajectoryError, match="the batch has no traj_uid"):
        compute_advantages(data, scheme=credit.make("grpo"))


def test_schemes_over_annotations_are_rejected() -> None:
    with pytest.raises(ConfigError, match="does not carry"):
        compute_advantages(data_of(PATHS, WON), scheme=credit.make("prm"))


def test_a_wrong_mode_is_rejected() -> None:
    with pytest.raises(ConfigError, match="mean_std_norm"):
        compute_gigpo_outcome_advantage(
            np.zeros((1, 1)), np.zeros(1), np.ones((1, 1)), ["s"], ["g"], ["t"], mode="mean"
        )


anchors = st.recursive(
    st.text(max_size=4) | st.integers(-9, 9) | st.sampled_from(["1", "value int:1", "value text 1", "[1,0]"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(anchors, anchors)
def test_equal_anchors_and_no_others_have_equal_keys(one: Any, other: Any) -> None:
    assert (state_text(one) == state_text(other)) == (one == other)
    assert state_text(tuple(one) if isinstance(one, list) else one) == state_text(one)


def test_images_are_distinguished_by_content_and_shape() -> None:
    image = np.arange(12, dtype=np.uint8)
    different = [image, image.reshape(3, 4), image + 1]
    assert len({state_text(one) for one in different}) == 3
    assert state_text(image.astype(np.int16)) == state_text(image)
    assert state_text(image.reshape(3, 4).T.T) == state_text(image.reshape(3, 4))
    with pytest.raises(TrajectoryError, match="a text, an array or plain lists"):
        state_text(object())


@pytest.mark.parametrize("column", ["rewards", "step", "active"])
@pytest.mark.parametrize("cell", [[1.0], {}, "x", None, float("nan"), 1j, 10**400, 0.5])
def test_an_odd_cell_is_read_as_a_number_or_rejected_with_the_name_of_its_column(column: str, cell: Any) -> None:
    columns: dict[str, list[Any]] = {"rewards": [0.0, 1.0], "step": [0, 1], "active": [True, True]}
    columns[column] = [columns[column][0], cell]
    rows = _columns(uid=["g", "g"], traj_uid=["a", "a"], anchor_obs=["s", "t"], next_obs=["t", "u"], **columns)
    try:
        rows.grouped()
    except TrajectoryError as error:
        assert column in str(error) or "reward" in str(error)
