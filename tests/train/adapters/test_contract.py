"""The older ends pass the bridge's contract: verl, verl-agent, Search-R1's loop, GEM, SkyRL, TRL (what of them is NumPy alone)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from helpers.shared_data import ROOT

from creditflow.train.adapters.contract import SCHEMES, ContractCase, OnTokens, check_end
from creditflow.train.adapters.gem.credit import assign_infos
from creditflow.train.adapters.skyrl.credit import credit_output
from creditflow.train.adapters.trl.batch import make_columns
from creditflow.train.adapters.verl.credit import credit_batch
from creditflow.train.adapters.verl.record import EpisodeRecord
from creditflow.train.adapters.verl_agent import compute_advantages
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import sampled_runs
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens


def through_verl(case: ContractCase, scheme: Scheme) -> OnTokens:
    mask, spans = case.rows()
    records = []
    for row, episode in enumerate(case.episodes):
        offsets = [0, *(stop for owner, _, stop in spans.tolist() if owner == row)]
        record = EpisodeRecord(episode, np.array(offsets, np.int32), {})
        records.append(EpisodeRecord.decode(record.encode()))
    size = max(2, *(len(group) for group in case.groups))
    batch = credit_batch(scheme, [one.group_id for one in case.episodes], records, mask, size=size)
    assert (batch.mask == mask).all()
    return case.split(batch.advantages)


def through_verl_agent(case: ContractCase, scheme: Scheme) -> OnTokens:
    """A row per turn, shuffled, one of them copied, as its trainer leaves them."""
    turns = [(episode, t) for episode in case.episodes for t in range(len(episode.turns))]
    counts = [case.counts(episode)[t] for episode, t in turns]
    order = [*np.random.default_rng(0).permutation(len(turns)).tolist(), 0]
    width = max(sampled for _, sampled in counts) + case.padding
    mask = np.array([[int(i < counts[row][1]) for i in range(width)] for row in order])
    columns = {
        "uid": [turns[row][0].group_id for row in order],
        "traj_uid": [turns[row][0].trajectory_id for row in order],
        "anchor_obs": [turns[row][0].turns[turns[row][1]].state_key for row in order],
        "next_obs": [turns[row][0].turns[turns[row][1]].next_state_key for row in order],
        "rewards": [turns[row][0].turns[turns[row][1]].reward for row in order],
        "step": [turns[row][1] for row in order],
        "success": [turns[row][0].success for row in order],
    }
    scores = np.zeros(mask.shape)
    scores[:, 0] = [turns[row][0].episode_return for row in order]
    batch = {"token_level_rewards": scores, "response_mask": mask}
    table, _ = compute_advantages(SimpleNamespace(batch=batch, non_tensor_batch=columns), scheme=scheme)
    assert not table[mask == 0].any()
    rows = {row: table[i][mask[i] == 1].tolist() for i, row in enumerate(order)}
    return case.by_episode([rows[row] for row in range(len(turns))])


def through_gem(case: ContractCase, scheme: Scheme) -> OnTokens:
    infos = [{"creditflow": case.record(episode)} for episode in case.episodes]
    per_turn = assign_infos(infos, scheme, [episode.group_id for episode in case.episodes])
    return [_spread(case, row, numbers.tolist()) for row, numbers in enumerate(per_turn)]


def through_skyrl(case: ContractCase, scheme: Scheme) -> OnTokens:
    masks = [row.astype(int).tolist() for row in case.rows()[0]]
    output = {
        "trajectory_ids": [
            SimpleNamespace(instance_id=one.group_id, to_string=lambda name=one.trajectory_id: name)
            for one in case.episodes
        ],
        "env_metrics": [{"creditflow": case.record(one)} for one in case.episodes],
        "loss_masks": masks,
    }
    rewards = credit_output(output, scheme)["rewards"]
    # the estimator copies the number on a turn's last token over the turn (tests/extras/train/adapters/test_skyrl_estimator.py)
    table = [[0.0] * len(mask) for mask in masks]
    for row, mask in enumerate(masks):
        for start, stop in sampled_runs(mask):
            table[row][start:stop] = [rewards[row][stop - 1]] * (stop - start)
    return case.split(table)


def through_skyrl_steps(case: ContractCase, scheme: Scheme) -> OnTokens:
    """A row per step, which stands alone in its group afterwards."""
    steps = [(one, t, sampled) for one in case.episodes for t, (_, sampled) in enumerate(case.counts(one))]
    ends = [t == len(case.counts(one)) - 1 for one, t, _ in steps]
    output = {
        "trajectory_ids": [
            SimpleNamespace(instance_id=one.group_id, to_string=lambda name=f"{one.group_id}/{one.trajectory_id}": name)
            for one, _, _ in steps
        ],
        "is_last_step": ends,
        "env_metrics": [
            {"creditflow": case.record(one)} if end else {} for (one, _, _), end in zip(steps, ends, strict=True)
        ],
        "loss_masks": [[1] * sampled + [0, 0] for _, _, sampled in steps],
    }
    rewards = credit_output(output, scheme)["rewards"]
    return case.by_episode([[sum(row)] * sampled for row, (_, _, sampled) in zip(rewards, steps, strict=True)])


def through_trl(case: ContractCase, scheme: Scheme) -> OnTokens:
    """TRL plays whole groups itself: an incomplete one is refused by its size."""
    mask, spans = case.rows()
    row, groups = 0, []
    for group in case.groups:
        members = []
        for member in group.trajectories:
            offsets = np.array([0, *(stop for owner, _, stop in spans.tolist() if owner == row)], np.int32)
            n = int(offsets[-1])
            tokens = Tokens(np.arange(n, dtype=np.int32), mask[row, :n], np.zeros(n, np.float32), offsets)
            members.append(replace(member, tokens=tokens))
            row += 1
        groups.append(Group(tuple(members)))
    credits_ = scheme.assign_batch(groups)
    size = 1 + max(len(group) for group in groups) if not case.complete else len(groups[0])
    names = [group.task_id for group in groups]
    table = np.zeros(mask.shape)
    for i, [columns] in enumerate(make_columns(groups, credits_, names, size=size, filler=0)):
        first = len(columns.prompt_ids)
        table[i, first : first + len(columns.advantages)] = columns.advantages
    return case.split(table)


def _spread(case: ContractCase, row: int, per_turn: Sequence[float]) -> list[list[float]]:
    """Numbers per turn, which a loop of GEM's puts on its tokens itself."""
    counts = case.counts(case.episodes[row])
    return [[float(number)] * sampled for number, (_, sampled) in zip(per_turn, counts, strict=True)]


ENDS: dict[str, Any] = {
    "verl": through_verl, "verl_agent": through_verl_agent, "gem": through_gem,
    "skyrl": through_skyrl, "skyrl, a row per step": through_skyrl_steps, "trl": through_trl,
}  # fmt: skip


def pytest_generate_tests(metafunc: Any) -> None:
    if "end" in metafunc.fixturenames:
        metafunc.parametrize("end", ENDS.values(), ids=ENDS)


def test_the_end_passes_the_contract(end: Any) -> None:
    # rows of a fork of verl-agent say success or not, so every other end counts as a limit, which graphgpo would read
    check_end(end, schemes=("grpo", "gigpo") if end is through_verl_agent else SCHEMES)


def test_every_end_has_a_contract_test_or_a_reason_why_not() -> None:
    without = {
        "logs": "logs in",
        "openenv": "rewards per step travel, no advantages", "sb3": "rewards per step travel, no advantages",
        "nemo_gym": "rewards per step travel, no advantages",
    }  # fmt: skip
    shared = {"__init__", "contract", "releases", "text_episode"}
    folder = ROOT / "train" / "adapters"
    ends = {path.parent.name for path in folder.glob("*/__init__.py")} | {path.stem for path in folder.glob("*.py")}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    contracts = [text for text in texts if "check_end(" in text]
    tested = {name for name in ends - shared if any(f"adapters.{name}" in text for text in contracts)}
    assert ends - shared == tested | set(without)
