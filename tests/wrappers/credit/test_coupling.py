"""``couples_groups``: a scheme that says no scores the groups of a batch as if each were alone; one that says yes does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.outcomes.grpo import GRPO
from creditflow.wrappers.credit.properties import sample_group
from creditflow.wrappers.records.group import Group

COUPLED = ("blend", "mt_ppo", "ppo_gae")  # by default


class OfTheBatch(GRPO):
    """A custom scheme that overrides ``assign_batch`` and says nothing."""

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        return [self.assign(group) for group in reversed(groups)]


def scored_alike(scheme: Scheme, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    groups = [group for group in (sample_group(scheme, rng) for _ in range(4)) if not scheme.undefined_on(group)]
    together, alone = scheme.assign_batch(groups), [scheme.assign(group) for group in groups]
    return all(np.array_equal(a.flat_advantages, b.flat_advantages) for a, b in zip(together, alone, strict=True))


@pytest.mark.parametrize("name", credit.names())
def test_only_schemes_that_say_so_couple_groups(name: str) -> None:
    scheme = credit.make(name)
    assert scheme.couples_groups == (name in COUPLED)
    assert scheme.couples_groups or all(scored_alike(scheme, seed) for seed in range(5))


@pytest.mark.parametrize(
    ("name", "options"), [("mt_ppo", {}), ("ppo_gae", {}), ("rewardflow", {"propagation": "first_seen_rewards"})]
)
def test_schemes_that_say_so_score_a_group_by_its_batch(name: str, options: dict[str, Any]) -> None:
    scheme = credit.make(name, **options)
    assert scheme.couples_groups
    assert not all(scored_alike(scheme, seed) for seed in range(10))


def test_parameters_decide() -> None:
    assert not credit.make("mt_ppo", whitening=False).couples_groups
    assert all(scored_alike(credit.make("mt_ppo", whitening=False), seed) for seed in range(5))


def test_a_scheme_that_overrides_assign_batch_and_says_nothing_is_taken_to_couple() -> None:
    assert OfTheBatch().couples_groups
