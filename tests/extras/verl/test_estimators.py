"""verl's released estimators as the benchmark sees them: what they compute, and where they part from the paper."""

from __future__ import annotations

import warnings

import pytest

from creditflow.train.bench.estimators.conformance import RandomBatches, candidates, compare
from creditflow.train.bench.estimators.loading import load_estimator

pytestmark = pytest.mark.verl

PLACE = "creditflow.train.adapters.estimators.verl"
POOL, RANDOM = candidates(), RandomBatches(seed=1, count=4)


@pytest.mark.parametrize(
    ("name", "computes"),
    [
        ("grpo", "grpo (singleton_outcome=raw)"), ("rloo", "rloo (singleton_outcome=raw)"),
        ("reinforce_plus_plus", "reinforce_plus_plus (paper)"),
        ("reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline (paper)"), ("released:opo", ""),
    ],
)  # fmt: skip
def test_each_estimator_is_the_scheme_that_its_numbers_say(name: str, computes: str, forgotten: None) -> None:
    with warnings.catch_warnings():  # verl warns of engines that are not installed
        warnings.simplefilter("ignore")
        one = load_estimator(f"{PLACE}:{name}")
        found = {each.candidate: each for each in compare(one.name, one.scheme.function, POOL, RANDOM)}
    assert [each for each in found if found[each].identified] == ([computes] if computes else [])
    assert one.released["verl.trainer.ppo.core_algos"].startswith("verl 0.9")
    if name in ("grpo", "rloo"):  # a group of one keeps its score, and all else is the paper's
        paper = found[f"{name} (paper)"]
        assert paper.verdicts.pop("groups of one") == "differs"
        assert all(verdict.startswith("equal") for verdict in paper.verdicts.values())
