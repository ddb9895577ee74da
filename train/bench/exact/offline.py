"""All columns on the same simulated groups of one task: metrics M1 to M5."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.columns import make_columns, plain_name
from creditflow.train.bench.controls import Judge, Located
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.metrics import (
    Concordance,
    bias_variance,
    centred_within_states,
    concordance,
    coverage,
    direction,
    gains,
    hidden_value,
    sampled_gradient,
)
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.exact.values import optimal_action_values
from creditflow.train.bench.feeds import HELD_OUT, open_feed
from creditflow.wrappers.credit import Credit, CreditError
from creditflow.wrappers.records.group import Group

__all__ = ["KLS", "Measured", "Measures", "measure"]

KLS = (0.001, 0.01)
EFFICIENCY_DISCOUNT = 0.95
CONCORDANCE_GROUPS = 12  # pairs grow with the square of a group


@dataclass(frozen=True, slots=True)
class Measures:
    """One column on one task.

    Attributes:
        cos_mean, cos_batch: M1, cos(E g, g*) and the one-batch mean of cos(g, g*).
        gain_small, gain: M2, efficiency (gain of J relative to ∇J's own at the same KL) at KL .001 and .01.
        bias2, variance: M3.
        agree, agree_efficiency: M4 against Q^π and against Q*_γ.
        failed, succeeded: M5, AUROC of centred credit.
        failed_raw, succeeded_raw: the same of raw credit.
        coverage: share of turns with credit.
        dead_groups: share of groups without any credit.
    """

    cos_mean: float
    cos_batch: float
    gain_small: float
    gain: float
    bias2: float
    variance: float
    agree: float
    agree_efficiency: float
    failed: float
    succeeded: float
    failed_raw: float
    succeeded_raw: float
    coverage: float
    dead_groups: float


class Measured(NamedTuple):
    """All columns on one task.

    Attributes:
        columns: measures by column.
        natural: how much more the natural gradient gains than ∇J at each of ``KLS`` (the true ceiling of M2).
        base: share of good turns among good and bad ones in failed and in successful rollouts (M5's base rates).
        undefined: why a column is missing, by name.
    """

    columns: Mapping[str, Measures]
    natural: tuple[float, float]
    base: tuple[float, float]
    undefined: Mapping[str, str]


def measure(
    mdp: FiniteMDP,
    logits: NDArray[np.float64],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    size: int,
    groups: int,
    key: Literal["state", "text"] = "state",
) -> Measured:
    """Measure columns on ``groups`` fresh groups of ``size`` rollouts.

    Each of these groups comes with ``HELD_OUT`` more, from which columns that are fed fitted numbers learn them: so
    what a scheme suffers from wrong numbers is in its variance, not hidden in one lucky fit.
    """
    policy = softmax(logits)
    judge = Judge(mdp, policy)
    (apart,) = rng.spawn(1)  # what is held out changes no draw of the rest
    played = [simulate(mdp, policy[None], size, rng, name=f"g{i}")[0] for i in range(groups)]
    where = [judge.locate(group) for group in played]
    held = [
        simulate(mdp, policy[None], HELD_OUT * size, apart)[0] for _ in played if any("[fitted]" in n for n in names)
    ]

    @cache
    def fed(name: str) -> list[Group]:
        found = list[Group]()
        for number, group in enumerate(played):
            feed = open_feed(name, mdp.horizon, key)
            if held:
                feed.learn(held[number])
            found.append(feed.fed(group, judge))
        return found

    scored, undefined = _score(make_columns(names, judge, rng, key=key), lambda name: fed(plain_name(name)))
    gradients = {
        name: np.stack(
            [sampled_gradient(judge, group, c, at) for group, c, at in zip(played, given, where, strict=True)]
        )
        for name, given in scored.items()
    }
    everything = np.concatenate([judge.gradient[None], judge.natural[None], *gradients.values()])
    gained = {kl: gains(judge, logits, everything, kl) for kl in KLS}
    agree = _concordances(scored, where, judge.exact.action_value)
    efficient = _concordances(scored, where, optimal_action_values(mdp, EFFICIENCY_DISCOUNT))
    advantage = np.concatenate([judge.advantage[at.left, at.state, at.action] for at in where])
    won = np.concatenate([group.arrays.success[group.arrays.trajectory] for group in played])
    result = {}
    base = (float("nan"), float("nan"))
    for number, (name, given) in enumerate(scored.items()):
        rows = slice(2 + number * groups, 2 + (number + 1) * groups)
        raw = np.concatenate([c.flat_advantages for c in given])
        centred = np.concatenate(
            [centred_within_states(c.flat_advantages, at.state) for c, at in zip(given, where, strict=True)]
        )
        hidden = hidden_value(advantage, centred, raw, won)
        base = hidden.failed_base, hidden.succeeded_base
        pointing = direction(gradients[name], judge.gradient)
        spread = bias_variance(gradients[name], judge.gradient)
        small, large = (float(gained[kl][rows].mean() / gained[kl][0]) for kl in KLS)
        dead = float(np.mean([not c.flat_advantages.any() for c in given]))
        result[name] = Measures(
            pointing.of_mean, pointing.one_batch, small, large, spread.bias2, spread.variance, agree[name],
            efficient[name], hidden.failed, hidden.succeeded, hidden.failed_raw, hidden.succeeded_raw,
            coverage(given), dead,
        )  # fmt: skip
    small, large = (float(gained[kl][1] / gained[kl][0]) for kl in KLS)
    return Measured(result, (small, large), base, undefined)


def _score(
    columns: Mapping[str, Callable[[Group], Credit]], played: Callable[[str], Sequence[Group]]
) -> tuple[dict[str, list[Credit]], dict[str, str]]:
    """Credit of every column, and why a scheme has none; an oracle that cannot score is a defect and raises."""
    scored, undefined = dict[str, list[Credit]](), dict[str, str]()
    for name, column in columns.items():
        try:
            scored[name] = [column(group) for group in played(name)]
        except CreditError as error:
            if "oracle" in name:
                raise
            undefined[name] = str(error)
    return scored, undefined


def _concordances(
    scored: Mapping[str, Sequence[Credit]], where: Sequence[Located], values: NDArray[np.float64]
) -> dict[str, float]:
    """M4 of every column over the first groups."""
    sums = {name: Concordance(0.0, 0.0) for name in scored}
    for number, at in enumerate(where[:CONCORDANCE_GROUPS]):
        together = np.stack([given[number].flat_advantages for given in scored.values()])
        for name, one in zip(scored, concordance(at, together, values), strict=True):
            sums[name] = Concordance(sums[name].agreed + one.agreed, sums[name].total + one.total)
    return {name: total.share for name, total in sums.items()}
