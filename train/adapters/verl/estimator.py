"""verl's advantage estimator "creditflow": ``algorithm.adv_estimator=creditflow``.

Where our advantage step runs (``trainer.py``), it replaces this function. Elsewhere verl calls it with the arguments of
every estimator: rewards and mask per token, the group of each row, and its settings. They suffice for schemes that
compare outcomes (grpo, rloo), with any agent loop; schemes over states are rejected with the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.sums import settled_sum
from creditflow.train.adapters.verl.credit import NAME, VERL, credit_settings
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import TurnColumns, advantages, numbers
from creditflow.wrappers.credit.combined import schemes_of
from creditflow.wrappers.credit.outcome import OutcomeScheme
from creditflow.wrappers.credit.states.keys import StateScheme

VERL.require()

from verl.trainer.ppo.core_algos import register_adv_est

__all__ = ["estimate"]


@register_adv_est(NAME)  # type: ignore[untyped-decorator]  # verl is not typed
def estimate(
    token_level_rewards: Any, response_mask: Any, index: Any = None, config: Any = None, **_: Any
) -> tuple[Any, Any]:
    """Advantages and returns (B, T) of a scheme that needs no states.

    Args:
        token_level_rewards, response_mask: (B, T) tensors.
        index: (B,), the group of each row (``uid``).
        config: ``algorithm`` of verl's config.

    Raises:
        ConfigError: the scheme reads states, tasks, annotations, success or validity.
        TrajectoryError: verl did not pass groups, or they are of unequal size.
    """
    settings = credit_settings(config)
    scheme = settings.make()
    _refuse_states(scheme)
    if index is None:
        raise TrajectoryError("verl passed no uid of rows to the estimator: this trainer does not form groups")
    sizes = set(np.unique([str(uid) for uid in index], return_counts=True)[1].tolist())
    if len(sizes) > 1:
        raise TrajectoryError(
            f"groups have {sorted(sizes)} episodes in this batch: credit needs whole groups; were they split over workers?"
        )
    # a row is an episode of one turn, from a state of its own
    rows, totals = range(len(index)), [settled_sum(row) for row in numbers(token_level_rewards).tolist()]
    turns = TurnColumns(
        group=[str(uid) for uid in index], trajectory=rows, state=rows, reward=totals, ended=[total > 0.0 for total in totals]
    )  # fmt: skip
    scored = advantages(scheme, turns, mask=response_mask, incomplete="keep")
    per_token = token_level_rewards.new_tensor(scored.per_token)
    return per_token, per_token.clone()


def _refuse_states(scheme: Scheme) -> None:
    for each in schemes_of(scheme):
        if not isinstance(each, OutcomeScheme) or isinstance(each, StateScheme) or each.task_fields:
            raise ConfigError(
                f"scheme {each.name!r} reads turns, states or tasks, and verl passes none of them to an estimator. They reach credit "
                "through creditflow's trainer step: v1 trainer (trainer.use_v1=true), agent loop "
                "actor_rollout_ref.rollout.agent.default_agent_loop=creditflow, and VERL_USE_EXTERNAL_PLUGINS not set to none"
            )
        for name, needed in (("outcome", "return"), ("invalid_penalty", 0.0)):
            if (value := getattr(each, name)) != needed:
                raise ConfigError(
                    f"scheme {each.name!r} with {name}={value!r} reads success flags or invalid turns, and verl "
                    f"passes neither to an estimator: set algorithm.creditflow.parameters.{name} to {needed!r}, or play "
                    "with creditflow's agent loop and trainer step"
                )
