"""The released reward-model losses: every golden case."""

from __future__ import annotations

import json

import pytest
import torch
from helpers.shared_data import shared_file, shared_files

from creditflow.train.annotate.success.training import hazard_loss

shared_files("conformance/search_credit/*.json")


def every(family, *kinds):
    data = json.loads(shared_file(f"conformance/search_credit/{family}.json").read_text())
    chosen = [case for case in data["cases"] if case["kind"] in kinds]
    assert chosen, f"{family} holds none of {kinds}"
    cases = [pytest.param(case["input"], case["expected"], data["tolerance"], id=case["id"]) for case in chosen]
    return pytest.mark.parametrize(("given", "expected", "tolerance"), cases)


def near(got, expected, tolerance):
    torch.testing.assert_close(
        torch.as_tensor(got).double(), torch.as_tensor(expected).double(), rtol=0, atol=tolerance
    )


def numbers(rows):
    return torch.tensor(rows, dtype=torch.float64)


@every("pica_rm_loss", "CRMLoss", "TACRMLoss")
def test_hazard_losses_are_the_released_ones(given, expected, tolerance):
    ids, labels = torch.tensor(given["input_ids"]), torch.tensor(given["labels"])
    got = hazard_loss(
        numbers(given["values"]), ids == given["placeholder_id"], labels == given["neg_id"],
        negative_weight=given["neg_weight"], monotonicity_weight=given["mono_weight"] or 0.0,
    )  # fmt: skip
    for name, value in expected.items():
        near(getattr(got, name), value, tolerance)
