"""An iteration in which no model token was sampled: every prompt was too long, or every environment failed at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from helpers.models.training_runs import Make, metrics, same, weights

from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

SETTINGS = {
    "plain": (),
    "kl in the loss": ("update.loss.kl_weight=0.1",),
    "kl in the reward": ("update.loss.kl_weight=0.1", "update.loss.kl_in=reward"),
    "the sampler's old policy": (
        "update.old_logprobs=sampler",
        "update.loss.kl_weight=0.1",
        "update.loss.kl_in=reward",
    ),
    "epochs and truncated sampling": ("update.epochs=2", "rollout.top_p=0.9", "update.loss.kl_weight=0.1"),
    "a shared critic": ("credit.scheme=mt_ppo", "critic.kind=shared"),
    "a separate critic": ("credit.scheme=ppo_gae", "critic.kind=separate"),
    "sequences": ("update.loss.ratio=sequence", "update.minibatch_size=3"),
    "a row per turn": ("update.row_layout=turn", "update.loss.aggregation=constant", "update.loss.normaliser=9"),
    "long responses": ("credit.overlong.max_tokens=4", "credit.overlong.margin=2"),
}


def without_turns(one: Trajectory) -> Trajectory:
    return replace(one, turns=(), tokens=None, stop_reason="token_limit", final_state_key=one.turns[0].state_key)


def without_model_tokens(one: Trajectory) -> Trajectory:
    assert one.tokens is not None
    return replace(one, tokens=replace(one.tokens, mask=np.zeros_like(one.tokens.mask)))


@pytest.mark.parametrize("change", [without_turns, without_model_tokens])
@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_is_trained(
    name: str, change: Callable[[Trajectory], Trajectory], trainer_of: Make, config: dict[str, Any]
) -> None:
    run = trainer_of(config, *SETTINGS[name], "sft.episodes=0", "update.iterations=1")
    sample, before = run.sample, weights(run)

    def emptied(iteration: int) -> Any:
        sampled = sample(iteration)
        sampled.groups = [Group(tuple(map(change, group.trajectories)), group.task) for group in sampled.groups]
        return sampled

    with patch.object(run, "sample", emptied):
        run.run()
    assert same(weights(run), before)
    [record] = [one for one in metrics(run) if one["kind"] == "iteration"]
    assert not record.get("steps")
