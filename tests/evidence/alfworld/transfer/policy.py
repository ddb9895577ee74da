"""A linear softmax policy over the features of commands: imitation by maximum likelihood, and policy gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from evidence.alfworld.transfer.features import Row, is_prior
from evidence.alfworld.transfer.play import Decision, Demonstration
from numpy.typing import NDArray

__all__ = ["Adam", "Greedy", "Policy", "Sampled", "imitate", "log_gradient", "uniform", "with_prior_of"]

Policy = Mapping[str, float]  # weights by feature; a feature that was never seen weighs 0
Floats = NDArray[np.float64]
STEPS = 300  # of the fit
RATE = 0.3
PENALTY = 0.1  # weights have a normal prior of precision 0.1, fixed beforehand, as for all training sets
SLOTS = 4  # most features of a command


def scores(policy: Policy, rows: Sequence[Row]) -> Floats:
    known: dict[Row, float] = {}
    for row in rows:
        if row not in known:
            known[row] = sum(policy.get(name, 0.0) for name in row)
    return np.array([known[row] for row in rows])


def probabilities(policy: Policy, rows: Sequence[Row]) -> Floats:
    powers = scores(policy, rows)
    powers = np.exp(powers - powers.max())
    found: Floats = powers / powers.sum()
    return found


@dataclass(frozen=True)
class Greedy:
    """Takes a command of the highest score, ties in random order."""

    policy: Policy

    def __call__(self, rows: Sequence[Row], rng: np.random.Generator) -> int:
        """Return the number of the command."""
        found = scores(self.policy, rows)
        best = np.flatnonzero(found >= found.max() - 1e-9)
        return int(best[rng.integers(len(best))])


@dataclass(frozen=True)
class Sampled:
    """Samples a command at temperature 1."""

    policy: Policy

    def __call__(self, rows: Sequence[Row], rng: np.random.Generator) -> int:
        """Return the number of the command."""
        return min(int(np.searchsorted(probabilities(self.policy, rows).cumsum(), rng.random())), len(rows) - 1)


def uniform(rows: Sequence[Row], rng: np.random.Generator) -> int:
    """Take any command."""
    return int(rng.integers(len(rows)))


# -- imitation --------------------------------------------------------------------------------------------------------
def imitate(states: Sequence[Demonstration], *, keep: Callable[[str], bool] = lambda _name: True) -> dict[str, float]:
    """Return the weights of the greatest penalised likelihood of the oracle's commands, equal ones counting in equal parts.

    Args:
        states: what to imitate.
        keep: which features the policy has.
    """
    names: dict[str, int] = {"": 0}
    slots: list[list[int]] = []
    sizes, targets, starts = [], [], []
    for rows, best in states:
        wanted = Counter(rows[number] for number in best)
        starts.append(len(slots))
        for row, number in Counter(rows).items():  # commands with equal features are one entry
            ids = [names.setdefault(name, len(names)) for name in row if keep(name)]
            slots.append(ids + [0] * (SLOTS - len(ids)))
            sizes.append(number)
            targets.append(wanted[row] / len(best))
    at, target, start = np.array(slots), np.array(targets), np.array(starts)
    size, state = np.log(np.array(sizes)), np.repeat(np.arange(len(start)), np.diff([*starts, len(slots)]))
    weights, adam = np.zeros(len(names)), Adam()
    for step in range(STEPS):
        logits = weights[at].sum(axis=1) + size
        powers = np.exp(logits - np.maximum.reduceat(logits, start)[state])
        residual = target - powers / np.add.reduceat(powers, start)[state]
        gradient = np.bincount(at.ravel(), np.repeat(residual, SLOTS), minlength=len(names)) - PENALTY * weights
        gradient[0] = 0.0
        weights += adam.step(gradient / len(start), RATE * (1.0 - step / STEPS))
    return {name: float(weights[number]) for name, number in names.items() if number}


def with_prior_of(policy: Policy, other: Policy) -> dict[str, float]:
    """Return a policy with the search prior of another."""
    return {name: w for name, w in policy.items() if not is_prior(name)} | {
        name: w for name, w in other.items() if is_prior(name)
    }


# -- policy gradients ---------------------------------------------------------------------------------------------------
def log_gradient(policy: Policy, decisions: Iterable[Decision], advantages: Iterable[float]) -> dict[str, float]:
    """Return Σ advantage · ∇ log π(choice), by feature."""
    gradient: dict[str, float] = {}
    for (rows, choice), advantage in zip(decisions, advantages, strict=True):
        if not advantage:
            continue
        expected: dict[Row, float] = {}
        for row, p in zip(rows, probabilities(policy, rows).tolist(), strict=True):
            expected[row] = expected.get(row, 0.0) - p
        expected[rows[choice]] += 1.0
        for row, weight in expected.items():
            for name in row:
                gradient[name] = gradient.get(name, 0.0) + advantage * weight
    return gradient


@dataclass
class Adam:
    """Adam (Kingma and Ba, 2015); gradients may grow in length, for features that are met later."""

    betas: tuple[float, float] = (0.9, 0.99)
    moments: list[Floats] = field(default_factory=lambda: [np.zeros(0), np.zeros(0)])
    steps: int = 0

    def step(self, gradient: Floats, rate: float) -> Floats:
        """Return the step of ascent."""
        self.steps += 1
        for i, value in enumerate((gradient, gradient**2)):
            old = np.pad(self.moments[i], (0, len(gradient) - len(self.moments[i])))
            self.moments[i] = self.betas[i] * old + (1.0 - self.betas[i]) * value
        mean, square = (
            moment / (1.0 - beta**self.steps) for moment, beta in zip(self.moments, self.betas, strict=True)
        )
        change: Floats = rate * mean / (np.sqrt(square) + 1e-8)
        return change
