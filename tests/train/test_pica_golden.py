"""The released reward-model losses, and the policy loss and KL estimates of the same trainers: every golden case."""

from __future__ import annotations

import json

import pytest
import torch
from shared_data import shared_file, shared_files

from creditflow.train.annotate.success_loss import hazard_loss
from creditflow.train.losses import LossConfig, kl_estimate, surrogate

shared_files("conformance/search_credit/*.json")
KL_KINDS = {"kl": "k1", "abs": "abs", "mse": "k2", "low_var_kl": "k3"}


def every(family, *kinds):
    data = json.loads(shared_file(f"conformance/search_credit/{family}.json").read_text())
    chosen = [case for case in data["cases"] if case["kind"] in kinds]
    assert chosen, f"{family} holds none of {kinds}"
    cases = [pytest.param(case["input"], case["expected"], data["tolerance"], id=case["id"]) for case in chosen]
    return pytest.mark.parametrize(("given", "expected", "tolerance"), cases)


def near(got, expected, tolerance):
    torch.testing.assert_close(torch.as_tensor(got).double(), torch.as_tensor(expected).double(), rtol=0, atol=tolerance)


def numbers(rows):
    return torch.tensor(rows, dtype=torch.float64)


@every("pica_rm_loss", "CRMLoss", "TACRMLoss")
def test_hazard_losses_are_the_released_ones(given, expected, tolerance):
    ids, labels = torch.tensor(given["input_ids"]), torch.tensor(given["labels"])
    got = hazard_loss(
        numbers(given["values"]), ids == given["placeholder_id"], labels == given["neg_id"],
        negative_weight=given["neg_weight"], monotone_weight=given["mono_weight"] or 0.0,
    )  # fmt: skip
    for name, value in expected.items():
        near(getattr(got, name), value, tolerance)


@every("advantages", "clipped_policy_loss")
def test_the_clipped_surrogate_is_theirs(given, expected, tolerance):
    config = LossConfig(clip_low=given["clip_low"], clip_high=given["clip_high"], dual_clip=0.0)
    log_ratio, mask = numbers(given["logp"]) - numbers(given["old_logp"]), torch.tensor(given["mask"]).bool()
    loss, clipped = surrogate(log_ratio, numbers(given["advantages"]), config)
    near(loss[mask].mean(), expected["pg_loss"], tolerance)
    near(clipped[mask].double().mean(), expected["clipfrac"], tolerance)
    near(-log_ratio[mask].mean(), expected["approx_kl"], tolerance)


@every("advantages", "kl_penalty")
def test_kl_estimates_are_theirs(given, expected, tolerance):
    near(kl_estimate(numbers(given["logp"]), numbers(given["ref_logp"]), KL_KINDS[given["type"]]), expected, tolerance)
