"""``check_batch`` names the fault of every public thread on a small batch, and finds no error in a clean one."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.cli import main
from creditflow.train.commands.check_batch import ARRAYS, read_arrays
from creditflow.wrappers.credit.bridge import TurnColumns, advantages
from creditflow.wrappers.credit.check_batch import TEXTS
from creditflow.wrappers.credit.random_group import random_group

EOS = 9


def blocks(lengths: list[list[int]], observed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Masks and turns (B, T) of rows whose turns are so many sampled tokens, each after ``observed`` of the environment."""
    width = max(sum(row) + observed * len(row) for row in lengths) + 1
    mask, turns = np.zeros((len(lengths), width), bool), np.full((len(lengths), width), -1)
    for i, row in enumerate(lengths):
        start = 0
        for turn, length in enumerate(row):
            mask[i, start + observed : start + observed + length] = True
            turns[i, start : start + observed + length] = turn
            start += observed + length
    return mask, turns


def on(mask: np.ndarray, per_row: Any) -> np.ndarray:
    return np.where(mask, np.asarray(per_row, float)[:, None], 0.0)


def clean() -> dict[str, Any]:
    """Two groups of four episodes of two turns, with the credit of grpo."""
    mask, turns = blocks([[3, 4]] * 8)
    groups = np.repeat(["a", "b"], 4)
    rewards = np.array([1, 0, 0, 1, 0, 0, 0, 1.0])
    per_group = rewards.reshape(2, 4)
    scores = (per_group - per_group.mean(1, keepdims=True)) / per_group.std(1, ddof=1, keepdims=True)
    ids = np.tile(np.arange(10, 10 + mask.shape[1]), (8, 1))
    ids[:4, :2], ids[4:, :2] = 1, 2
    return {
        "advantages": on(mask, scores.ravel()), "mask": mask, "turns": turns, "groups": groups, "rewards": rewards,
        "ids": ids, "trajectories": np.tile(np.arange(4), 2),
    }  # fmt: skip


def steps(rows: list[int], per_episode: list[float]) -> dict[str, Any]:
    """Rows of one turn each: so many of each episode of one group, whose sampled tokens stand at different places."""
    episodes = np.repeat(np.arange(len(rows)), rows)
    index = np.concatenate([np.arange(count) for count in rows])
    mask = np.zeros((len(episodes), 4 * max(rows) + 1), bool)
    for row, at in enumerate(index):
        mask[row, 4 * at + 1 : 4 * at + 4] = True
    turns = np.where(mask, index[:, None], -1)
    return {
        "advantages": on(mask, np.array(per_episode)[episodes]), "mask": mask, "turns": turns,
        "groups": np.zeros(len(episodes), int), "trajectories": episodes,
    }  # fmt: skip


def copied_from_the_last_step() -> dict[str, Any]:
    """SkyRL 1492, 1507: the advantages of the last step, with its mask applied, on every step of the trajectory."""
    batch = steps([3, 3], [1.0, -1.0])
    batch["advantages"] = batch["advantages"][np.repeat([2, 5], 3)]
    return batch


def masked_again() -> dict[str, Any]:
    """The same, after each row's own mask was applied too."""
    batch = copied_from_the_last_step()
    batch["advantages"] = batch["advantages"] * batch["mask"]
    return batch


def groups_of_one() -> dict[str, Any]:
    """ROLL 397: every trajectory a group of its own, mean subtracted."""
    mask, _ = blocks([[3, 2]] * 4)
    return {"advantages": on(mask, [0] * 4), "mask": mask, "groups": np.arange(4), "rewards": [1, 0, 0.5, 0]}


def final_turn_everywhere() -> dict[str, Any]:
    """AReaL 1674: each turn had its own reward; all carry the final turn's normalised one."""
    batch = steps([3, 3, 3], [1.0, 0.0, -1.0])
    return batch | {"turn_rewards": [0, 0.1, 1, 0.9, 0.9, 0.5, 0.2, 0.7, 0]}


def nan_outside() -> dict[str, Any]:
    """AReaL 1347."""
    batch = clean()
    batch["advantages"][:, -1] = np.nan
    return batch


def unfinished_counted() -> dict[str, Any]:
    """AReaL 1351: a row without an end is not trained, and its reward of 0 is in the mean."""
    mask, _ = blocks([[3]] * 4)
    ids = np.full(mask.shape, 5)
    ids[:3, 4] = EOS
    rewards = np.array([1, 0, 0.5, 0])
    scores = rewards - rewards.mean()
    scores[3] = 0
    return {"advantages": on(mask, scores), "mask": mask, "groups": [0] * 4, "rewards": rewards, "ids": ids, "eos": EOS}


def mean_over_rows() -> dict[str, Any]:
    """agent-lightning 444, 445, 462, 489: rewards 1 and 0 of episodes of one and three rows, mean over the four rows."""
    return steps([1, 3], [0.75, -0.25])


def per_turn_index() -> dict[str, Any]:
    """verl 7244: returns 3, 1 at the first turn and 2, 1 at the second, which only two of three reach, centred by index."""
    mask, turns = blocks([[2, 2], [2, 2], [2]])
    numbers = np.select([turns == 0, turns == 1], [np.array([[2.0], [-1.0], [-1.0]]), np.array([[0.5], [-0.5], [0.0]])])
    return {"advantages": np.where(mask, numbers, 0), "mask": mask, "turns": turns, "groups": [0] * 3}


def environment_tokens() -> dict[str, Any]:
    batch = clean()
    batch["advantages"] = np.where(batch["turns"] >= 0, batch["advantages"].sum(1, keepdims=True), 0)
    return batch


def shifted(by: int) -> dict[str, Any]:
    batch = clean()
    batch["advantages"] = np.roll(batch["advantages"], by, axis=1)
    return batch


def shifted_and_masked() -> dict[str, Any]:
    batch = shifted(1)
    batch["advantages"] = batch["advantages"] * batch["mask"]
    return batch


def boundary() -> dict[str, Any]:
    """The first token of the second turn has the first turn's number."""
    mask, turns = blocks([[3, 4], [2, 3]], observed=0)
    numbers = np.select([turns == 0, turns == 1], [np.array([[1.0], [-2.0]]), np.array([[0.5], [-1.0]])])
    numbers[0, 3], numbers[1, 2] = 1.0, -2.0
    return {"advantages": np.where(mask, numbers, 0), "mask": mask, "turns": turns}


def mixed() -> dict[str, Any]:
    batch = clean()
    batch["ids"] = np.roll(batch["ids"], 1, axis=0)
    return batch


def whitened() -> dict[str, Any]:
    """grpo, then minus the mean over tokens."""
    batch = clean()
    rewards = np.array([1, 0, 0, 0, 0, 0, 0, 0.0])
    scores = rewards - np.repeat(rewards.reshape(2, 4).mean(1), 4)
    scores[:4] /= rewards[:4].std()
    mask, _ = blocks([[4], [2], [2], [2], [3], [3], [3], [3]])
    weights = mask.sum(1)
    mean = (scores * weights).sum() / weights.sum()
    return {"advantages": on(mask, scores - mean), "mask": mask, "groups": batch["groups"], "rewards": rewards}


def stop_left_out() -> dict[str, Any]:
    batch = clean()
    rows, columns = np.nonzero(batch["mask"][:, :-1] & ~batch["mask"][:, 1:])
    batch["ids"][rows, columns + 1] = EOS
    return batch | {"eos": EOS, "attention": np.ones_like(batch["mask"])}


def statistics_of_the_first_rollout() -> dict[str, Any]:
    """PipelineRL 54: one group has another baseline than its mean."""
    batch = clean()
    mask, _ = blocks([[3]] * 12)
    rewards = np.array([1, 0, 0, 1] * 3) + np.arange(12) / 100
    scores = rewards - np.repeat(rewards.reshape(3, 4).mean(1), 4)
    scores[8:] = rewards[8:] - rewards[8]
    return batch | {
        "advantages": on(mask, scores), "mask": mask, "rewards": rewards, "groups": np.repeat([0, 1, 2], 4), "turns": None,
        "ids": None, "trajectories": None,
    }  # fmt: skip


def reversed_sign() -> dict[str, Any]:
    batch = clean()
    return batch | {"advantages": -batch["advantages"]}


def clipped_away() -> dict[str, Any]:
    batch = clean()
    old = np.zeros(batch["mask"].shape)
    return batch | {"old_logprobs": old, "logprobs": np.where(batch["advantages"] > 0, 0.5, 0.0), "clip": (0.2, 0.28)}


def unequal_lengths() -> dict[str, Any]:
    mask, _ = blocks([[2], [8]])
    return {"advantages": on(mask, [1, -1]), "mask": mask}


def equal_rewards() -> dict[str, Any]:
    batch = clean()
    batch["rewards"][:4] = 0
    batch["advantages"][:4] = 0
    return batch


FAULTS = [  # the batch, the finding, its severity, the first row, the share
    (copied_from_the_last_step(), "carries_another_rows_mask", "error", 0, 2 / 3),
    (copied_from_the_last_step(), "zeros_on_sampled_tokens", "error", 0, 2 / 3),
    (masked_again(), "zeros_on_sampled_tokens", "warning", 0, 2 / 3),
    (groups_of_one(), "groups_of_one", "error", 0, 1),
    (groups_of_one(), "all_zero", "error", 0, 1),
    (final_turn_everywhere(), "turns_share_one_number", "error", 0, 1),
    (nan_outside(), "not_finite_outside_mask", "error", 0, None),
    (unfinished_counted(), "unfinished_rows_shift_mean", "warning", 0, 1),
    (mean_over_rows(), "long_episodes_count_more", "warning", 0, 1),
    (per_turn_index(), "centred_per_turn_index", "warning", 0, 1),
    (environment_tokens(), "mass_outside_mask", "error", 0, 4 / 11),
    (shifted(1), "shifted_mask", "error", 0, 1),
    (shifted(-2), "shifted_mask", "error", 0, 1),
    (shifted_and_masked(), "shifted_mask", "error", 0, 1),
    (boundary(), "turn_boundary_shifted", "error", 0, 1 / 2),
    (mixed(), "groups_mixed", "error", 0, 1),
    (whitened(), "whitened_constant_groups", "warning", 4, 1 / 2),
    (stop_left_out(), "stop_not_trained", "warning", 0, 1),
    (statistics_of_the_first_rollout(), "departs_from", "warning", 8, 1 / 3),
    (reversed_sign(), "wrong_sign", "error", 0, 1),
    (clipped_away(), "clipped", "warning", 0, 3 / 8),
    (unequal_lengths(), "weight_by_length", "info", 1, 1 / 2),
    (equal_rewards(), "constant_groups", "info", 0, 1 / 2),
    (clean() | {"mask": np.zeros((8, 12), bool), "turns": None}, "empty_mask", "error", 0, 1),
    (clean() | {"advantages": np.full((8, 12), np.inf), "turns": None}, "not_finite", "error", 0, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "name", "severity", "row", "share"), FAULTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_fault_is_named_with_its_severity_its_first_row_and_its_share(batch, name, severity, row, share):
    [found] = [each for each in credit.check_batch(**batch).findings if each.name == name]
    assert (found.severity, found.rows[0]) == (severity, row)
    assert share is None or found.share == pytest.approx(share)
    assert found.meaning.endswith(".")
    assert found.remedy.endswith(".")


def test_every_finding_has_a_batch_that_shows_it() -> None:
    assert {name for _, name, *_ in FAULTS} == set(TEXTS)


def test_a_clean_batch_has_no_finding_and_equals_its_scheme() -> None:
    report = credit.check_batch(**clean())
    assert (report.findings, report.scheme, report.rows, report.tokens, report.groups) == ((), "grpo", 8, 56, 2)
    assert report.factor == pytest.approx(1)


@pytest.mark.parametrize(
    ("scheme", "scores"),
    [
        ("grpo without std", [0.5, -0.5, 0.25, -0.25]), ("grpo", [0.7, -0.7, 0.7, -0.7]),
        ("centring over the batch", [0.625, -0.375, 0.125, -0.375]),
    ],
)  # fmt: skip
def test_the_scheme_is_known_up_to_one_factor(scheme, scores):
    mask, _ = blocks([[2]] * 4)
    report = credit.check_batch(3 * np.array(scores), mask, groups=[0, 0, 1, 1], rewards=[1, 0, 0.5, 0])
    assert report.scheme == scheme


def test_rloo_is_told_from_centring_where_groups_have_different_sizes() -> None:
    mask, _ = blocks([[2]] * 5)
    scores = [1, -1, 1, -0.5, -0.5]
    assert credit.check_batch(scores, mask, groups=[0, 0, 1, 1, 1], rewards=[1, 0, 1, 0, 0]).scheme == "rloo"


def test_a_meant_outcome_is_no_error_though_turns_have_rewards() -> None:
    batch = steps([2, 2], [1.0, -1.0]) | {"turn_rewards": [0.1, 1, 0.2, 0.3]}
    [found] = [each for each in credit.check_batch(**batch).findings if each.name == "turns_share_one_number"]
    assert found.severity == "warning"


def test_a_number_per_row_that_is_broadcast_over_all_tokens_is_only_a_warning() -> None:
    mask, _ = blocks([[3]] * 2)
    report = credit.check_batch(np.ones(mask.shape) * [[1], [-1]], mask)
    assert not report.errors
    assert report.findings[0].name == "mass_outside_mask"


@given(st.integers(0, 2**32 - 1), st.sampled_from(["grpo", "rloo", "gigpo", "graphgpo", "grouptd"]), st.booleans())
def test_a_clean_random_batch_has_no_error_and_the_order_of_rows_only_changes_their_numbers(seed, scheme, by_turn):
    rng = np.random.default_rng(seed)
    played = [random_group(rng, size=int(rng.integers(2, 6))) for _ in range(int(rng.integers(1, 4)))]
    groups = [
        type(group)(tuple(_named(member, f"g{i}", f"t{j}") for j, member in enumerate(group.trajectories)), group.task)
        for i, group in enumerate(played)
    ]
    episodes = [member for group in groups for member in group.trajectories]
    if by_turn:
        rows = [(episode, t) for episode in episodes for t in range(len(episode.turns))]
        lengths = rng.integers(1, 5, len(rows))
        mask = np.arange(5) < lengths[:, None]
        mask = np.roll(mask, 1, axis=1)
        spans = None
        turns = np.where(mask, np.array([t for _, t in rows])[:, None], -1)
        owners = [episode for episode, _ in rows]
    else:
        mask, turns = blocks([rng.integers(1, 4, len(episode.turns)).tolist() for episode in episodes])
        spans = []
        for row, episode in enumerate(episodes):
            for t in range(len(episode.turns)):
                places = np.flatnonzero(turns[row] == t)
                spans.append((row, places[0], places[-1] + 1))
        owners = episodes
    table = advantages(scheme, TurnColumns.of(groups), mask=mask, spans=spans).per_token
    batch: dict[str, Any] = {
        "advantages": table, "mask": mask, "turns": turns, "groups": np.array([owner.group_id for owner in owners]),
        "trajectories": np.array([owner.trajectory_id for owner in owners]),
        "rewards": np.array([owner.episode_return for owner in owners]),
    }  # fmt: skip
    report = credit.check_batch(**batch)
    assert report.errors == (), report
    order = rng.permutation(len(mask))
    moved = credit.check_batch(**{name: values[order] for name, values in batch.items()})
    assert facts(moved) == facts(report)
    assert moved.factor == pytest.approx(report.factor)


def _named(member: Any, group: str, name: str) -> Any:
    return replace(member, group_id=group, task_id=group, trajectory_id=name)


def facts(report: credit.BatchReport) -> Any:
    """A report without numbers of rows."""
    found = [
        (each.name, each.severity, each.share, each.unit, len(each.rows), each.meaning) for each in report.findings
    ]
    return found, report.rows, report.tokens, report.groups, report.scheme


@pytest.mark.parametrize("batch", [batch for batch, *_ in FAULTS], ids=[name for _, name, *_ in FAULTS])
def test_the_order_of_rows_only_changes_their_numbers(batch):
    order = np.random.default_rng(1).permutation(len(batch["mask"]))
    moved: dict[str, Any] = {
        name: values if values is None or np.ndim(values) == 0 or name == "clip" else np.asarray(values)[order]
        for name, values in batch.items()
    }
    assert facts(credit.check_batch(**moved)) == facts(credit.check_batch(**batch))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"advantages": np.ones((8, 3))}, "advantages: expected the shape of the mask"),
        ({"mask": np.full((8, 12), 2)}, "mask: expected true and false"),
        ({"mask": np.ones((0, 3))}, "not empty"),
        ({"groups": [0]}, "groups: expected the shape"),
        ({"rewards": [np.nan] * 8}, "rewards: expected finite"),
        ({"turns": np.full((8, 12), 0.5)}, "turns: expected integers"),
        ({"clip": 0.2}, "clip: expected two numbers"),
        ({"trajectories": [0] * 8}, "rewards: the rows of the episode of row 0 have different ones"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_what_was_expected(change, message):
    with pytest.raises(DataError, match=message):
        credit.check_batch(**clean() | change)


def test_an_unknown_average_of_the_loss_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'token'"):
        credit.check_batch(**clean() | {"loss": "tokens"})


def test_the_command_prints_the_report_and_its_exit_code_says_whether_there_is_an_error(tmp_path, capsys):
    good, bad = str(tmp_path / "good.npz"), str(tmp_path / "bad.npz")
    np.savez(good, **clean(), loss="sequence", eos=EOS, clip=(0.2, 0.28))
    np.savez_compressed(bad, **copied_from_the_last_step())
    assert main(["check-batch", good]) == 0
    assert capsys.readouterr().out.startswith(
        "no error, 0 warnings, 0 info\n8 rows, 56 trained tokens, 2 groups; equals grpo"
    )
    assert main(["check-batch", bad, "--json"]) == 1
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["findings"]]
    assert names[0] == "carries_another_rows_mask"


def damaged(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def header(shape: str, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (117 - len(text)) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"advantage.npy": b""}, "unknown array 'advantage'; did you mean 'advantages'"),
        ({"mask.npy": header("(1000000, 1000000)")}, "the file is damaged"),
        ({"mask.npy": header("(2, 2)", "|O") + b"0" * 64}, "expected numbers, flags or texts"),
        ({"mask.npy": header("(1, 1, 1)") + b"0" * 8}, "expected rows and tokens"),
        ({"mask.npy": b"nothing"}, "cannot be read"),
        ({"mask.npy": header("(2,)") + b"0" * 16}, "advantages missing"),
        ({f"x{i}.npy": b"" for i in range(40)}, "unknown array"),
    ],
)
def test_a_file_that_is_damaged_hostile_or_of_other_arrays_is_refused(content, message, tmp_path):
    with pytest.raises((DataError, ConfigError), match=message):
        read_arrays(damaged(tmp_path / "x.npz", content))


def test_a_file_that_unpacks_to_more_than_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    from creditflow.train.commands import check_batch

    monkeypatch.setattr(check_batch, "MAX_BYTES", 1000)
    np.savez_compressed(tmp_path / "x.npz", mask=np.zeros((1000, 1000)))
    with pytest.raises(DataError, match="at most 1,000 bytes"):
        read_arrays(tmp_path / "x.npz")


def test_the_file_has_the_names_of_the_functions_arguments() -> None:
    from inspect import signature

    assert set(ARRAYS) == set(signature(credit.check_batch).parameters)
