"""Token losses against the released code that computed the golden vectors."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from helpers.shared_data import shared_file

from creditflow.train.policy.losses import KLKind, LossConfig, clipped_surrogate, kl_estimate

DATA = json.loads(shared_file("conformance/search_credit/advantages.json").read_text())
ATOL = DATA["tolerance"]
KINDS: dict[str, KLKind] = {"kl": "k1", "abs": "abs", "mse": "k2", "low_var_kl": "k3"}


def cases(kind: str) -> list[Any]:
    found = [pytest.param(case, id=case["id"]) for case in DATA["cases"] if case["kind"] == kind]
    assert found
    return found


def tensors(case: dict[str, Any], *names: str) -> list[torch.Tensor]:
    return [torch.tensor(case["input"][name], dtype=torch.float64) for name in names]


@pytest.mark.parametrize("case", cases("clipped_policy_loss"))
def test_the_clipped_surrogate_matches_the_released_code(case: dict[str, Any]) -> None:
    old, logprob, advantages, mask = tensors(case, "old_logp", "logp", "advantages", "mask")
    config = LossConfig(clip_low=case["input"]["clip_low"], clip_high=case["input"]["clip_high"], dual_clip=0.0)
    loss, clipped = clipped_surrogate(logprob - old, advantages, config)

    def mean(x: torch.Tensor) -> float:
        return float((x * mask).sum() / mask.sum())

    expected = case["expected"]
    assert mean(loss) == pytest.approx(expected["pg_loss"], abs=ATOL)
    assert mean(clipped.double()) == pytest.approx(expected["clipfrac"], abs=ATOL)
    assert mean(kl_estimate(old, logprob, "k1")) == pytest.approx(expected["approx_kl"], abs=ATOL)


@pytest.mark.parametrize("case", cases("kl_penalty"))
def test_kl_estimates_match_the_released_code(case: dict[str, Any]) -> None:
    logprob, reference = tensors(case, "logp", "ref_logp")
    got = kl_estimate(logprob, reference, KINDS[case["input"]["type"]])
    torch.testing.assert_close(got, torch.tensor(case["expected"], dtype=torch.float64), rtol=0, atol=ATOL)
