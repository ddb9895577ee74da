"""ROLL's agentic pipeline: any scheme in the place of its response-level rewards, from the columns that its rows carry.

Its estimators' names are a closed list, so one function is replaced, in the driver, before the pipeline runs::

    from creditflow.train.adapters.roll import install
    install("graphgpo")

with ``adv_estimator: step_reinforce``, ``gamma: 1``, rows per step (``StepEnvManager``) and neither ``whiten_advantages`` nor
``whiten_rewards``. Read and tested at commit 8eb27cc (release 0.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.bridge import TurnColumns, advantages, require_plain
from creditflow.wrappers.credit.registry import make

__all__ = ["install", "response_level_rewards"]

COLUMNS = {
    "group": "traj_group_id",
    "trajectory": "traj_id",
    "turn": "step",
    "state": "state_hash",
    "reward": "step_scores",
}


def response_level_rewards(scheme: str, **parameters: Any) -> Callable[..., tuple[Any, dict[str, float]]]:
    """A function in the form of ROLL's ``compute_response_level_rewards``.

    It writes ``response_level_rewards``, (B,), which ROLL's "reinforce" return puts on every token of a row. ROLL's rows do
    not say how an episode ended: a positive sum of rewards is a success.
    """
    chosen = make(scheme, **parameters)
    require_plain(chosen)

    def compute(batch: Any, pipeline_config: Any) -> tuple[Any, dict[str, float]]:
        changing = ("whiten_advantages", "whiten_rewards", "reward_clip", "add_token_level_kl")
        if pipeline_config.gamma != 1.0 or any(getattr(pipeline_config, name) for name in changing):
            raise ConfigError(f"credit reaches the loss unchanged with gamma: 1 and without {', '.join(changing)}")
        columns: dict[str, Any] = {ours: batch.non_tensor_batch[theirs] for ours, theirs in COLUMNS.items()}
        result = advantages(chosen, TurnColumns(**columns, called=COLUMNS), incomplete="zero")
        scores = batch.batch["scores"]
        batch.batch["response_level_rewards"] = scores.new_tensor(result.per_turn)
        return batch, {"critic/credit_groups": float(len(result.groups))}

    return compute


def install(scheme: str, **parameters: Any) -> None:
    """Replace ROLL's function in this process."""
    from roll.pipeline.agentic import agentic_pipeline

    agentic_pipeline.compute_response_level_rewards = response_level_rewards(scheme, **parameters)
