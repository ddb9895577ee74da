"""Token losses against their definitions, written out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from creditflow.envs.errors import ConfigError
from creditflow.train.policy.losses import KLKind, LossConfig, clipped_surrogate, kl_estimate, token_losses


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_dual_clip_bounds_negative_advantages_only() -> None:
    config = LossConfig(dual_clip=3.0)
    loss, _ = clipped_surrogate(t(10.0, 10.0).log(), t(-2.0, 2.0), config)
    assert loss.tolist() == pytest.approx([6.0, -2.4])


def test_gradient_at_ratio_one_is_the_policy_gradient() -> None:
    logprob = t(-1.0, -2.0).requires_grad_()
    loss, _ = clipped_surrogate(logprob - logprob.detach(), t(0.7, -0.3), LossConfig())
    loss.sum().backward()
    assert logprob.grad is not None
    assert logprob.grad.tolist() == pytest.approx([-0.7, 0.3])


def test_kl_estimators_agree_on_average_and_k3_is_never_negative() -> None:
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    exact = (p * (p / q).log()).sum()
    for kind in ("k1", "k3"):
        assert math.isclose((p * kl_estimate(p.log(), q.log(), kind)).sum(), exact, rel_tol=1e-9)
    assert (kl_estimate(p.log(), q.log(), "k3") >= 0).all()


def test_importance_weights_are_truncated() -> None:
    config = LossConfig(importance_cap=2.0, dual_clip=0.0)
    old = t(0.0, 0.0)
    losses = token_losses(old, old, old, t(1.0, 1.0), config, sampler_logprob=t(math.log(0.8), math.log(0.1)))
    assert losses["loss"].tolist() == pytest.approx([-1.25, -2.0])


def test_without_a_cap_the_samplers_log_probabilities_change_nothing() -> None:
    config = LossConfig(importance_cap=0.0)
    old, advantage = t(-1.0, -2.0), t(1.0, -0.5)
    plain = token_losses(old, old, old, advantage, config)["loss"]
    assert plain.tolist() == [-1.0, 0.5]
    assert token_losses(old, old, old, advantage, config, sampler_logprob=t(-3.0, -0.1))["loss"].equal(plain)


def test_ratios_of_any_size_give_finite_losses_and_gradients() -> None:
    config = LossConfig(clip_low=0.2, clip_high=0.2, dual_clip=0.0, importance_cap=2.0)
    logprob = t(1000.0, -1000.0, 1000.0, -1000.0).requires_grad_()
    losses = token_losses(
        logprob, t(0.0), t(0.0), t(1.0, 1.0, -1.0, -1.0), config, sampler_logprob=t(-1000.0, 0.0, 1000.0, -1000.0)
    )["loss"]
    # the ratio is at most e^20 and at least e^-20; the weights of truncated importance sampling are 2, 1, e^-20 and 2
    expected = [-2 * 1.2, -math.exp(-20.0), math.exp(20.0) * math.exp(-20.0), 2 * 0.8]
    assert losses.tolist() == pytest.approx(expected)
    losses.sum().backward()
    assert logprob.grad is not None
    assert logprob.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("kind", "above", "below"),  # log π_ref − log π of 1000 and of −1000 counts as 10 and −10
    [
        ("k1", -10.0, 10.0),
        ("k2", 50.0, 50.0),
        ("k3", math.exp(10.0) - 11.0, math.exp(-10.0) + 9.0),
        ("abs", 10.0, 10.0),
    ],
)
def test_estimates_of_the_divergence_are_bounded(kind: KLKind, above: float, below: float) -> None:
    assert kl_estimate(t(-1000.0, 0.0), t(0.0, -1000.0), kind).tolist() == pytest.approx([above, below])


def test_entropy_and_kl_enter_with_their_weights() -> None:
    config = LossConfig(entropy_weight=0.1, kl_weight=0.5, kl_kind="k1", importance_cap=0.0)
    losses = token_losses(t(-1.0), t(2.0), t(-1.0), t(0.0), config, reference_logprob=t(-3.0))
    assert losses["loss"].tolist() == pytest.approx([0.5 * 2.0 - 0.1 * 2.0])


@pytest.mark.parametrize("wrong", [{"clip_low": 0.0}, {"clip_low": 1.0}, {"dual_clip": 0.5}, {"kl_weight": -1.0}])
def test_invalid_bounds_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        LossConfig(**wrong)  # type: ignore[arg-type]  # the point
