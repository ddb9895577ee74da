"""Agent Lightning: its own batch of completed rollouts, and verl's own ``compute_advantage``, carry any scheme's credit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.contract import CASES, ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme

pytestmark = [pytest.mark.agent_lightning, pytest.mark.filterwarnings("ignore")]  # verl's, on import
pytest.importorskip(
    "agentlightning",
    reason="no Agent Lightning: for Python 3.12; AGENT_LIGHTNING_SOURCE names a checkout of github.com/microsoft/agent-lightning (c632d8d)",
)


def rollouts(case: ContractCase) -> list[Any]:
    """Completed rollouts, in its type."""
    from agentlightning.verl.agl_rollout_manager import CompletedRollout, Triplet

    completed = []
    for i, episode in enumerate(case.episodes):
        triplets = [
            Triplet(
                prompt={"token_ids": list(range(shown))}, reward=turn.reward, metadata={"state_key": turn.state_key},
                response={"token_ids": list(range(sampled)), "log_probs": [-1.0] * sampled},
            )
            for turn, (shown, sampled) in zip(episode.turns, case.counts(episode), strict=True)
        ]  # fmt: skip
        completed.append(
            CompletedRollout.model_construct(
                data_id=episode.group_id, rollout_id=episode.trajectory_id, step=0, sample_idx_in_step=i,
                triplets=triplets, final_reward=float(episode.success),
            )
        )  # fmt: skip
    return completed


def adapter(scheme: Scheme, level: str = "transition") -> Any:
    import torch
    from agentlightning.verl.rollout_adapter import RolloutAdapter

    from creditflow.train.adapters.agent_lightning import credited

    made = credited(RolloutAdapter, scheme)
    sizes = {"max_prompt_length": 8, "max_response_length": 8}
    return made(**sizes, device=torch.device("cpu"), pad_token_id=0, trace_aggregator_level=level)


def end(case: ContractCase, scheme: Scheme) -> OnTokens:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est
    from verl.trainer.ppo.ray_trainer import compute_advantage, compute_response_mask

    from creditflow.train.adapters.agent_lightning import ESTIMATOR, row_advantages

    if ESTIMATOR not in ADV_ESTIMATOR_REGISTRY:
        register_adv_est(ESTIMATOR)(row_advantages)
    batch, metrics = adapter(scheme).get_train_data_batch(rollouts(case), global_steps=0)
    assert metrics["training/credit_groups"] == len(case.groups) * case.complete
    batch.batch["token_level_rewards"] = batch.batch["token_level_scores"]
    batch.batch["response_mask"] = compute_response_mask(batch)
    batch.non_tensor_batch["uid"] = batch.non_tensor_batch["data_id_list"]
    config = SimpleNamespace(get=lambda _, default=None: default)
    batch = compute_advantage(batch, adv_estimator=ESTIMATOR, gamma=1.0, lam=1.0, num_repeat=1, config=config)
    mask, table = batch.batch["response_mask"].bool(), batch.batch["advantages"]
    assert not table[~mask].any()
    return case.by_episode([row[chosen].tolist() for row, chosen in zip(table, mask, strict=True)])


def test_the_end_passes_the_contract() -> None:
    check_end(end, schemes=("grpo", "gigpo"))


def test_rows_of_whole_trajectories_are_refused() -> None:
    with pytest.raises(ConfigError, match="a row per turn"):
        adapter(credit.make("gigpo"), "trajectory").get_train_data_batch(rollouts(CASES[0]))
    with pytest.raises(ConfigError, match="annotators write"):
        adapter(credit.make("prm"))
