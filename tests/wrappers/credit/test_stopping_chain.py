"""The expected gradient of schemes on a stop-or-continue chain, exactly: every group of 8 that can come, with its probability.

At each of H turns the policy continues with probability ½ and otherwise stops, in one parameter: the logit of continuing. A
turn's credit times the derivative of its log-probability, summed over the turns of a rollout, is its part of the gradient.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import walk
from helpers.episodes.per_turn_number import PerTurnNumber

from creditflow import credit
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory

SIZE, HORIZON = 8, 4
P = 0.5  # of continuing; rollouts that reach turn t: P**t of all


def rollout(continued: int, pay: str, name: str) -> Trajectory:
    """``continued`` turns that continue, then, before the end of the chain, one that stops.

    With "prize" the chain's end pays 1, with "wages" every turn that continues pays 1.
    """
    turns = min(continued + 1, HORIZON)
    rewards = [float(pay == "wages" and t < continued) for t in range(turns)]
    if pay == "prize" and continued == HORIZON:
        rewards[-1] = 1.0
    end: StopReason = "success" if sum(rewards) == 1.0 and pay == "prize" else "failed"
    return walk([f"{t}" for t in range(turns + 1)], end, rewards=rewards, name=name)


def chance(continued: int) -> float:
    return float(P**continued * (1.0 if continued == HORIZON else 1.0 - P))


def score(continued: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of each turn the derivative of its log-probability by the logit: 1 − p of continuing, −p of stopping."""
    return np.array([1.0 - P] * continued + [-P] * (continued < HORIZON))


def true_gradient(pay: str) -> float:
    returns = [float(continued if pay == "wages" else continued == HORIZON) for continued in range(HORIZON + 1)]
    return float(sum(chance(n) * score(n).sum() * returns[n] for n in range(HORIZON + 1)))


def share(name: str, pay: str, **options: Any) -> float:
    """Which share of the true gradient the scheme's credit has in expectation."""
    return share_of(credit.make(name, **options), pay)


def share_of(scheme: Scheme, pay: str) -> float:
    """Which share of the true gradient the scheme's credit has in expectation."""
    expected, total = 0.0, 0.0
    for lengths in itertools.combinations_with_replacement(range(HORIZON + 1), SIZE):
        counts = np.bincount(lengths)
        orders = math.factorial(SIZE) / math.prod(math.factorial(n) for n in counts.tolist())
        weight = orders * math.prod(map(chance, lengths))
        played = Group(tuple(rollout(n, pay, f"r{i}") for i, n in enumerate(lengths)))
        parts = [a @ score(n) for a, n in zip(scheme.assign(played).advantages, lengths, strict=True)]
        expected, total = expected + weight * float(np.mean(parts)), total + weight
    assert total == pytest.approx(1.0)
    return float(expected / true_gradient(pay))


def kept(survival: float) -> float:
    """1 − E[1/n] for n = 1 + a binomial number of the other rollouts: what centring with one's own return leaves."""
    return 1.0 - (1.0 - (1.0 - survival) ** SIZE) / (SIZE * survival)


def test_a_leave_one_out_baseline_at_each_turn_number_has_the_true_gradient() -> None:
    for pay in ("prize", "wages"):
        assert share("turn_loo", pay) == pytest.approx(1.0)
        assert share("mt_grpo", pay, form="unbiased") == pytest.approx(1.0)
        assert share("rloo", pay) == pytest.approx(1.0)


def test_centring_at_each_turn_number_keeps_one_minus_the_mean_of_one_over_n() -> None:
    # the prize is worth p^(H − 1 − t) of continuing at turn t, which p^t of the rollouts reach: every turn has the same part
    expected = np.mean([kept(P**t) for t in range(HORIZON)])
    found = share("step_to_go", "prize", centre_over="turn")
    assert found == pytest.approx(expected)
    assert found == pytest.approx(0.630, abs=5e-4)


def of_summed_rewards(horizon: int) -> float:
    """Of the credit 1 + V(t + 1) of continuing at turn t with wages, centred rewards keep the 1, times what centring leaves.

    The later rewards of a rollout that continues are those of the others at the same turns in expectation, and cancel.
    """
    value, found, true = 0.0, 0.0, 0.0
    for t in reversed(range(horizon)):
        found, true = found + P**t * kept(P**t), true + P**t * (1.0 + value)
        value = P * (1.0 + value)
    return found / true


def test_rewards_centred_at_each_turn_number_and_summed_keep_less_than_half_of_what_continuing_pays() -> None:
    found = share_of(PerTurnNumber(), "wages")
    assert found == pytest.approx(of_summed_rewards(HORIZON))
    assert found == pytest.approx(0.440, abs=5e-4)
    assert share_of(PerTurnNumber(), "prize") == pytest.approx(0.086, abs=5e-4)
    shares = {h: round(of_summed_rewards(h), 2) for h in (2, 3, 4, 5, 6, 8, 12, 40)}
    assert shares == {2: 0.63, 3: 0.5, 4: 0.44, 5: 0.41, 6: 0.39, 8: 0.37, 12: 0.36, 40: 0.36}


def test_the_share_falls_with_the_length_of_the_chain() -> None:
    shares = {h: round(float(np.mean([kept(P**t) for t in range(h)])), 2) for h in (2, 4, 6, 7, 8, 10)}
    assert shares == {2: 0.81, 4: 0.63, 6: 0.47, 7: 0.41, 8: 0.36, 10: 0.29}


@pytest.mark.parametrize(
    ("name", "options", "prize", "wages"),
    [
        ("grpo", {"outcome_scale": "none"}, 0.875, 0.875),  # 1 − 1/8 at every turn
        ("step_to_go", {}, 0.793, 0.901),
        ("step_to_go", {"centre_over": "turn"}, 0.630, 0.784),
        ("stateless", {}, 0.682, 0.0),  # it reads no rewards of turns
    ],
)
def test_the_shares_of_other_baselines(name: str, options: dict[str, Any], prize: float, wages: float) -> None:
    assert share(name, "prize", **options) == pytest.approx(prize, abs=5e-4)
    assert share(name, "wages", **options) == pytest.approx(wages, abs=5e-4)
