"""The advantages that TRL's trainers compute, as the benchmark sees them."""

from __future__ import annotations

import pytest

from creditflow.train.bench.estimators.conformance import RandomBatches, candidates, compare
from creditflow.train.bench.estimators.loading import load_estimator

pytestmark = pytest.mark.trl

POOL, RANDOM = candidates(), RandomBatches(seed=1, count=3)


@pytest.mark.parametrize(
    ("name", "computes", "verdict"),
    [
        ("grpo", "grpo (paper)", "equal up to a small number"),
        ("dr_grpo", "grpo (outcome_scale=none)", "equal"),
        ("rloo", "rloo (paper)", "equal"),
    ],
)
def test_each_trainer_computes_the_papers_advantages(name: str, computes: str, verdict: str, forgotten: None) -> None:
    one = load_estimator(f"creditflow.train.adapters.estimators.trl:{name}")
    found = {each.candidate: each for each in compare(one.name, one.scheme.function, POOL, RANDOM)}
    assert found[computes].identified
    assert found[computes].verdicts["unequal lengths"] == verdict
    assert "groups of one size of at least 2" in found[computes].verdicts["groups of one"]
    assert one.released["trl.trainer.grpo_trainer"].startswith("trl 1.")
