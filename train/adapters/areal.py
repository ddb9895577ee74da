"""AReaL: a workflow around a workflow that plays a task several times and writes credit as each interaction's reward.

AReaL compares a group nowhere but in its own normalisation of rewards, so the group is played here. Use it with ``group_size: 1``
(this workflow has its own), interactions exported one by one, and settings under which a reward reaches its tokens unchanged
(``check_actor``). Read and tested at release 1.0.4, ``PPOActor.compute_advantages`` included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from areal.api import RolloutWorkflow

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import TurnColumns, advantages, require_plain

__all__ = ["CreditWorkflow", "check_actor"]

NEUTRAL = {"reward_norm": None, "adv_norm": None, "reward_bias": 0.0, "reward_scaling": 1.0, "kl_ctl": 0.0}
NEUTRAL |= {"discount": 1.0, "gae_lambda": 1.0, "overlong_reward_penalty": False, "mask_no_eos_with_zero": False}


def check_actor(actor: Any) -> None:
    """Raise ConfigError for a ``PPOActorConfig`` under which a reward would not reach its tokens as it is."""
    for name, value in NEUTRAL.items():
        if (current := getattr(actor, name, value)) != value:
            raise ConfigError(f"actor.{name} changes credit: expected {value!r}, got {short_repr(current)}")


class CreditWorkflow(RolloutWorkflow):
    """Plays each task several times; a state is the messages shown since the last completion, ``inner`` sets rewards of turns.

    Args:
        inner: plays one episode; returns interactions by id. A positive sum of their rewards is a success.
        scheme, size: any without annotations; number of episodes in a group.
    """

    def __init__(self, inner: Any, scheme: Scheme, *, size: int) -> None:
        require_plain(scheme)
        self.inner, self.scheme, self.size = inner, scheme, size

    async def arun_episode(self, engine: Any, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """The interactions of the group with advantages as rewards; None if fewer than two episodes were played."""
        plays = (self.inner.arun_episode(engine, data) for _ in range(self.size))
        episodes = [episode for episode in await asyncio.gather(*plays) if episode]
        if len(episodes) < 2:
            return None
        calls = {name: call for episode in episodes for name, call in episode.items()}
        turns = TurnColumns(
            group=["task"] * len(calls),
            trajectory=[i for i, episode in enumerate(episodes) for _ in episode],
            state=[_shown(call) for call in calls.values()],
            reward=[float(call.reward or 0.0) for call in calls.values()],
            action=[str(call.output_message_list) for call in calls.values()],
        )
        for call, number in zip(calls.values(), advantages(self.scheme, turns).per_turn.tolist(), strict=True):
            call.reward = number
        return calls


def _shown(call: Any) -> str:
    return "\n\n".join(str(message["content"]) for message in call.remaining_messages)
