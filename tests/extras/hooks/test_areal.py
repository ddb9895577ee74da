"""AReaL: its own interactions, their tensors and ``PPOActor._compute_advantages`` carry any scheme's credit to the tokens."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.contract import ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.trajectory import Trajectory

pytestmark = [pytest.mark.areal, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # theirs, on import
pytest.importorskip("areal", reason="AReaL is not installed: the tier areal installs it without its dependencies")


def interactions(case: ContractCase, episode: Trajectory) -> dict[str, Any]:
    """The completions of an episode in AReaL's type, each with its own prompt and tokens."""
    from areal.api import ModelResponse
    from areal.experimental.openai.types import InteractionWithTokenLogpReward

    calls: dict[str, Any] = {}
    parent = None
    messages: list[dict[str, str]] = []
    for t, (turn, (shown, sampled)) in enumerate(zip(episode.turns, case.counts(episode), strict=True)):
        messages = [*messages, {"role": "user", "content": turn.state_key}]
        reply = {"role": "assistant", "content": turn.action}
        response = ModelResponse(
            input_tokens=list(range(shown + 1)), output_tokens=list(range(sampled)), output_logprobs=[-1.0] * sampled,
            output_versions=[0] * sampled,
        )  # fmt: skip
        call = InteractionWithTokenLogpReward(
            model_response=response, reward=turn.reward, parent=parent, messages=messages, output_message_list=[reply]
        )
        call.interaction_id = f"{episode.trajectory_id}/{t}"
        calls[call.interaction_id] = parent = call
        messages = [*messages, reply]
    return calls


def advantages_of(call: Any) -> list[float]:
    """What AReaL's own actor computes from an interaction's tensors, on its sampled tokens."""
    import torch
    from areal.trainer.ppo.actor import PPOActor

    actor = SimpleNamespace(
        config=SimpleNamespace(overlong_reward_penalty=False, use_decoupled_loss=False, recompute_logprob=False),
        reward_bias=0.0, reward_scaling=1.0, reward_clip=1e6, reward_norm=None, adv_norm=None, kl_ctl=0.0,
        kl_estimator=lambda a, b: a - b, mask_no_eos_with_zero=False, discount=1.0, gae_lambda=1.0,
    )  # fmt: skip
    data = {name: value.clone() for name, value in call.to_tensor_dict().items()}
    pad = {name: torch.nn.functional.pad(value, (0, 2)) if value.ndim == 2 else value for name, value in data.items()}
    done = PPOActor._compute_advantages(actor, pad)
    return done["advantages"][0][done["loss_mask"][0] == 1].tolist()  # type: ignore[no-any-return]  # a tensor of AReaL's


def end(case: ContractCase, scheme: Scheme) -> OnTokens:
    from creditflow.train.adapters.areal import CreditWorkflow

    on_tokens: OnTokens = []
    for group in case.groups:
        episodes = [interactions(case, episode) for episode in group.trajectories]
        waiting = iter(episodes)

        async def play(*_: Any, waiting: Any = waiting) -> Any:
            return next(waiting)

        workflow = CreditWorkflow(SimpleNamespace(arun_episode=play), scheme, size=len(episodes))
        merged = asyncio.run(workflow.arun_episode(None, {}))
        if merged is None:  # AReaL drops the group
            on_tokens += [[[0.0] * n for _, n in case.counts(episode)] for episode in group.trajectories]
            continue
        on_tokens += [[advantages_of(merged[name]) for name in calls] for calls in episodes]
    return on_tokens


def test_the_end_passes_the_contract() -> None:
    # a completion without what follows it: the last state of an episode is its own, and ends are rewards'
    check_end(end, schemes=("grpo", "gigpo"), tolerance=1e-5)


def test_an_actor_that_would_change_credit_is_refused() -> None:
    from areal.api.cli_args import PPOActorConfig

    from creditflow.train.adapters.areal import CreditWorkflow, check_actor

    fields = {"reward_norm": None, "adv_norm": None, "kl_ctl": 0.0, "reward_scaling": 1.0, "reward_bias": 0.0}
    fields |= {"discount": 1.0, "gae_lambda": 1.0}
    check_actor(PPOActorConfig(**fields))
    with pytest.raises(ConfigError, match=r"actor\.discount changes credit"):
        check_actor(PPOActorConfig(**{**fields, "discount": 0.9}))
    empty = SimpleNamespace(arun_episode=lambda *_: asyncio.sleep(0))
    workflow = CreditWorkflow(empty, credit.make("grpo"), size=2)
    assert asyncio.run(workflow.arun_episode(None, {})) is None
