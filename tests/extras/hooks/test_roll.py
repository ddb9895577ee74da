"""ROLL: our function in the place of its response-level rewards, through its own token rewards and advantages, in its own batch."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.contract import CASES, ContractCase, OnTokens, check_end
from creditflow.train.adapters.roll import install, response_level_rewards
from creditflow.wrappers.credit.base import Scheme

pytestmark = pytest.mark.roll
PLAIN = SimpleNamespace(
    gamma=1.0, whiten_advantages=False, whiten_rewards=False, reward_clip=None, add_token_level_kl=False
)
pytest.importorskip(
    "roll", reason="no ROLL: not on PyPI; ROLL_SOURCE names a checkout of github.com/alibaba/ROLL (8eb27cc)"
)


def batch_of(case: ContractCase) -> Any:
    """ROLL's batch: a row per turn, prompt and response in one sequence."""
    import torch
    from roll.distributed.scheduler.protocol import DataProto

    rows = [(episode, t) for episode in case.episodes for t in range(len(episode.turns))]
    counts = [case.counts(episode)[t] for episode, t in rows]
    mask = np.zeros((len(rows), 2 + max(map(sum, counts)) + case.padding), np.int64)
    for i, (shown, sampled) in enumerate(counts):
        mask[i, 1 + shown : 1 + shown + sampled] = 1  # the first token of a sequence is never sampled
    columns = {
        "traj_group_id": [episode.group_id for episode, _ in rows],
        "traj_id": [episode.trajectory_id for episode, _ in rows],
        "step": [t for _, t in rows],
        "state_hash": [episode.turns[t].state_key for episode, t in rows],
        "step_scores": [episode.turns[t].reward for episode, t in rows],
    }
    response = torch.from_numpy(mask)
    attention = (torch.arange(mask.shape[1])[None] < torch.tensor([1 + sum(count) for count in counts])[:, None]).long()
    batch = DataProto.from_dict(
        {
            "response_mask": response, "scores": torch.zeros(response.shape), "attention_mask": attention,
            "position_ids": attention.cumsum(-1) - 1,
        }
    )  # fmt: skip
    batch.non_tensor_batch = {name: np.array(column, object) for name, column in columns.items()}
    return batch


def end(case: ContractCase, scheme: Scheme) -> OnTokens:
    from roll.utils.functionals import compute_advantage, expand_to_token_level

    batch, _ = response_level_rewards(scheme.name)(batch_of(case), PLAIN)
    mask = batch.batch["response_mask"][:, 1:]
    batch.batch["token_level_rewards"] = expand_to_token_level(batch) * mask
    batch = compute_advantage(batch, gamma=1.0, lambd=1.0, adv_estimator="step_reinforce", response_mask=mask)
    table = batch.batch["advantages"]
    assert not table[mask == 0].any()
    return case.by_episode([row[chosen == 1].tolist() for row, chosen in zip(table, mask, strict=True)])


def test_the_end_passes_the_contract() -> None:
    check_end(end, schemes=("grpo", "gigpo"))


def test_settings_that_change_credit_are_refused_and_install_replaces_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="gamma: 1"):
        response_level_rewards("gigpo")(batch_of(CASES[0]), SimpleNamespace(**{**vars(PLAIN), "gamma": 0.9}))
    with pytest.raises(ConfigError, match="annotators write"):
        response_level_rewards("prm")
    pipeline = ModuleType("roll.pipeline.agentic.agentic_pipeline")  # theirs imports engines
    monkeypatch.setitem(sys.modules, pipeline.__name__, pipeline)
    monkeypatch.setattr(import_module("roll.pipeline.agentic"), "agentic_pipeline", pipeline, raising=False)
    install("gigpo")
    assert pipeline.compute_response_level_rewards(batch_of(CASES[0]), PLAIN)[1] == {"critic/credit_groups": 1.0}
