"""Settings that would change the advantages are rejected, and verl's policy loss has the loss and gradient of our own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS, SIZE

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.policy.samples import make_rows, token_weights

pytestmark = pytest.mark.verl


# settings that would change the loss
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.use_kl_in_reward=true", "use_kl_loss=true"),
        ("critic.enable=true", "needs no critic"),
        ("actor_rollout_ref.rollout.top_p=0.9", "less than the whole distribution"),
        ("actor_rollout_ref.rollout.top_k=50", "less than the whole distribution"),
        *(
            (f"actor_rollout_ref.actor.policy_loss.loss_mode={name}", f"loss_mode={name} .* that turn's advantage")
            for name in (
                "geo_mean",
                "gspo",
                "sapo",
                "gpg",
                "clip_cov",
                "kl_cov",
                "cispo",
                "dppo_tv",
                "dro",
                "bypass_mode",
            )
        ),
    ],
)
def test_settings_that_change_the_loss_are_rejected(override: str, message: str, config_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.credit import check_config

    check_config(config_of())
    with pytest.raises(ConfigError, match=message):
        check_config(config_of(override))


def test_another_release_is_rejected() -> None:
    from creditflow.train.adapters.verl.credit import VERL

    for version in ("0.9.0", "0.9.2", "0.10.0", "1.0", "unknown"):
        with pytest.raises(ConfigError, match="was tested with"):
            VERL.check(version)


def test_a_misspelt_setting_is_answered_with_the_nearest_one() -> None:
    from creditflow.train.adapters.verl.credit import read_settings

    with pytest.raises(ConfigError, match="did you mean 'scheme'"):
        read_settings({"schem": "grpo"})


# the loss
@pytest.mark.parametrize(
    ("mode", "averages"), [("token-mean", "token_mean"), ("seq-mean-token-mean", "trajectory_mean")]
)
def test_verls_policy_loss_gives_our_loss_and_our_gradient(
    mode: str, averages: Any, batch_of: Callable[..., Any], config_of: Callable[..., Any]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.utils.config import omega_conf_to_dataclass

    from creditflow.train.adapters.verl.trainer import assign_advantages
    from creditflow.train.policy.batching import batches_of
    from creditflow.train.policy.logprobs import token_logprobs
    from creditflow.train.policy.losses import LossConfig, token_losses

    groups, made = [GROUPS["unequal turn counts"], GROUPS["one turn"]], credit.make("gigpo")
    credits_ = [made.assign(group) for group in groups]
    data = batch_of(groups)
    assign_advantages(data, made, size=SIZE)
    config = config_of(f"actor_rollout_ref.actor.loss_agg_mode={mode}", "actor_rollout_ref.actor.use_dynamic_bsz=true")
    model = AutoModelForCausalLM.from_pretrained(config.actor_rollout_ref.model.path)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)

    ids, width = data.batch["input_ids"], data.batch["responses"].shape[1]
    logits = model(ids, attention_mask=data.batch["attention_mask"], position_ids=data.batch["position_ids"]).logits
    scores = torch.log_softmax(logits[:, -width - 1 : -1].float(), -1)
    logprob = scores.gather(-1, ids[:, -width:, None])[..., 0]
    old = logprob.detach() + 0.3 * torch.sin(ids[:, -width:].float())  # ratios on both sides of the clip
    loss, _ = get_policy_loss_fn("vanilla")(
        old_log_prob=old, log_prob=logprob, advantages=data.batch["advantages"],
        response_mask=data.batch["response_mask"], loss_agg_mode=mode, config=actor,
    )  # fmt: skip
    loss.backward()
    theirs = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()

    rows = make_rows(groups, credits_)
    [batch] = batches_of(rows, 100_000, "cpu")
    found = token_logprobs(model, batch)
    order = [rows[i] for i in batch.rows]
    weights = token_weights(rows, averages)
    advantage, weight = (
        torch.tensor(np.concatenate(parts), dtype=torch.float32)
        for parts in ([row.advantage for row in order], [weights[i] for i in batch.rows])
    )
    target = batch.target.float()
    before = found.logprob.detach() + 0.3 * torch.sin(target)
    ours = token_losses(found.logprob, found.entropy, before, advantage, LossConfig(importance_cap=0.0))["loss"]
    (weight * ours).sum().backward()
    assert float(loss.detach()) == pytest.approx(float((weight * ours).sum().detach()), rel=1e-4)
    largest = max(float(p.grad.abs().max()) for p in model.parameters())
    assert largest > 1e-3
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(theirs[name], parameter.grad, rtol=1e-3, atol=1e-5 * max(1.0, largest), msg=name)


def test_a_scheme_with_another_aggregation_than_verls_is_rejected() -> None:
    from creditflow.train.adapters.verl.credit import check_averaging

    check_averaging("token_mean", "token-mean")
    check_averaging("trajectory_mean", "seq-mean-token-mean")
    with pytest.raises(ConfigError, match="'token-mean' fits"):
        check_averaging("token_mean", "seq-mean-token-mean")
    with pytest.raises(ConfigError, match="verl has none that fits"):
        check_averaging("turn_mean", "token-mean")


# verl-agent's tensors
def test_the_verl_agent_drop_in_takes_tensors_and_returns_tensors() -> None:
    import torch

    from creditflow.train.adapters.verl_agent import compute_advantages

    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
    rewards = torch.zeros(3, 3).scatter(1, mask.sum(1, keepdim=True) - 1, torch.tensor([[1.0], [1.0], [0.0]]))
    columns = {
        "uid": ["g"] * 3, "traj_uid": ["a", "a", "b"], "anchor_obs": ["s", "t", "s"], "rewards": [0.0, 1.0, 0.0],
    }  # fmt: skip
    data = SimpleNamespace(
        batch={"token_level_rewards": rewards, "response_mask": mask},
        non_tensor_batch={name: np.array(values, object) for name, values in columns.items()},
    )
    advantages, returns = compute_advantages(data, scheme=credit.make("grpo"))
    assert torch.equal(advantages, returns)
    assert advantages.dtype == torch.float32
    torch.testing.assert_close(advantages, torch.tensor([[0.5], [0.5], [-0.5]]) * 2**0.5 * mask)
