"""Agent Lightning: credit in its batch of one row per turn, which verl's estimator then passes on.

Its trainer compares whole rollouts by default and raises where turns of one differ; with
``algorithm.enable_rollout_level_advantage=false`` verl's own ``compute_advantage`` runs, with an estimator of this module::

    from agentlightning.verl import trainer
    from creditflow.train.adapters.agent_lightning import credited
    trainer.RolloutAdapter = credited(trainer.RolloutAdapter, credit.make("graphgpo"))

and ``algorithm.adv_estimator=creditflow_rows``, ``trace_aggregator_level: transition``. An agent writes what identifies the state
before a turn, and the turn's reward, into its triplet (``metadata["state_key"]``, ``reward``). Read and tested at commit c632d8d (1.0.0).
"""

from __future__ import annotations

import math
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.envs.sums import ROUNDING
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import TurnColumns, advantages, require_plain

__all__ = ["ESTIMATOR", "credited", "row_advantages"]

ESTIMATOR = "creditflow_rows"


def credited(adapter: type[Any], scheme: Scheme) -> type[Any]:
    """A subclass of Agent Lightning's ``RolloutAdapter`` whose scores are advantages of turns."""
    require_plain(scheme)

    class CreditAdapter(adapter):
        def get_train_data_batch(self, completed_rollouts: list[Any], **others: Any) -> tuple[Any, dict[str, Any]]:
            if self.trace_aggregator_level != "transition":
                raise ConfigError("credit needs a row per turn: trace_aggregator_level: transition")
            turns = [(rollout, t) for rollout in completed_rollouts for t in range(len(rollout.triplets or ()))]
            rewards = [reward for rollout in completed_rollouts for reward in _rewards(rollout)]
            columns = TurnColumns(
                group=[rollout.data_id for rollout, _ in turns],
                trajectory=[rollout.rollout_id for rollout, _ in turns],
                turn=[t for _, t in turns],
                state=[(rollout.triplets[t].metadata or {}).get("state_key") for rollout, t in turns],
                reward=rewards,
                ended=[
                    (rollout.final_reward or 0.0) > ROUNDING * max(map(abs, _rewards(rollout))) for rollout, _ in turns
                ],
            )
            result = advantages(scheme, columns, incomplete="zero")
            keys = [(rollout.rollout_id, t) for rollout, t in turns]
            number = dict(zip(keys, result.per_turn.tolist(), strict=True))
            batch, metrics = super().get_train_data_batch(completed_rollouts, **others)
            ids, index = batch.non_tensor_batch["rollout_id_list"], batch.non_tensor_batch["turn_index_list"]
            rows = [number[str(name), int(t)] for name, t in zip(ids, index, strict=True)]
            scores = batch.batch["token_level_scores"].float().zero_()  # theirs are bfloat16
            scores[:, 0] = scores.new_tensor(rows)
            batch.batch["token_level_scores"] = scores
            return batch, {**metrics, "training/credit_groups": len(result.groups)}

    return CreditAdapter


def _rewards(rollout: Any) -> list[float]:
    """A reward for each turn; an outcome that no triplet has, or that is NaN, is the last turn's."""
    rewards, outcome = [triplet.reward or 0.0 for triplet in rollout.triplets or ()], rollout.final_reward or 0.0
    return [*rewards[:-1], outcome] if rewards and (not any(rewards) or math.isnan(outcome)) else rewards


def row_advantages(token_level_rewards: Any, response_mask: Any, **_: Any) -> tuple[Any, Any]:
    """verl's form of an estimator: a row's one number on each of its response tokens, twice (B, T)."""
    advantages_ = token_level_rewards.sum(-1, keepdim=True) * response_mask
    return advantages_, advantages_.clone()
