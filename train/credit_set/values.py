"""Values of actions under the continuation policy: exact where the states fit a table, else from forked continuations.

Q^π(s, a) is the probability of success if ``NoisyExpert(noise)`` acts after action a, with the turns that are then left; V^π(s)
is that of acting from s on; A^π = Q^π − V^π.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from creditflow.envs.errors import OracleLimitError
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.tasks import Task
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.policies import noisy_expert
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.credit_set.continuation import LazyStateGraph, Outcomes, State
from creditflow.train.statistics import wilson_interval

__all__ = ["Estimate", "ExactValues", "ForkedValues", "exact_values"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability of success.

    Attributes:
        mean: the value, or the fraction of continuations that succeeded.
        standard_error: standard error; 0.0 if the value is exact.
        low, high: 95 % interval (Wilson); both equal the value if it is exact.
        halves: fractions in the first and in the second half of the continuations.
        score: mean score.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    halves: tuple[float, float]
    score: float

    @staticmethod
    def exact(value: float) -> Estimate:
        """An exact value."""
        value = min(max(round(value, 9), 0.0), 1.0)
        return Estimate(value, 0.0, value, value, (value, value), value)

    @staticmethod
    def forked(outcomes: Outcomes) -> Estimate:
        """The estimate from K continuations, K even.

        The standard error is that of (successes + 2) / (K + 4), so that it is not 0 where all continuations agree.
        """
        success = outcomes.success
        total, half = len(success), len(success) // 2
        won = int(success.sum())
        smoothed = (won + 2) / (total + 4)
        low, high = wilson_interval(won, total)
        return Estimate(
            won / total, math.sqrt(smoothed * (1 - smoothed) / (total + 4)), low, high,
            (float(success[:half].mean()), float(success[half:].mean())), float(outcomes.score.mean()),
        )  # fmt: skip


class ForkedValues:
    """Estimates from continuations.

    Args:
        graph: the state graph of the task.
        noise: noise of the continuation policy.
        forks: K, number of continuations per estimate.
    """

    kind = "forked"

    def __init__(self, graph: LazyStateGraph, noise: float, forks: int) -> None:
        self._graph, self._noise, self.forks = graph, noise, forks

    def state(self, state: State, left: int, rng: np.random.Generator) -> Estimate:
        """V with ``left`` turns left."""
        return Estimate.forked(self._graph.continuations(state, left, self._noise, self.forks, rng))

    def action(self, state: State, action: str, left: int, rng: np.random.Generator) -> Estimate:
        """Q with ``left`` turns left, that of the action included."""
        return self.state(self._graph.step(state, action), left - 1, rng)


class ExactValues:
    """Values by dynamic programming; a rejected action leaves the state unchanged.

    Args:
        mdp: the task as tables; its horizon is the turn limit.
        noise: noise of the continuation policy.
    """

    kind = "exact"
    forks = 0

    def __init__(self, mdp: FiniteMDP, noise: float) -> None:
        self._mdp, self._values = mdp, evaluate(mdp, noisy_expert(mdp, noise))

    def state(self, state: State, left: int, rng: np.random.Generator) -> Estimate:  # noqa: ARG002 - the interface of both
        """V with ``left`` turns left."""
        return Estimate.exact(float(self._values.value[left, self._mdp.index[state.key]]))

    def action(self, state: State, action: str, left: int, rng: np.random.Generator) -> Estimate:
        """Q with ``left`` turns left, that of the action included."""
        if action not in self._mdp.actions:
            return self.state(state, left - 1, rng)
        index = self._mdp.actions.index(action)
        return Estimate.exact(float(self._values.action_value[left, self._mdp.index[state.key], index]))


def exact_values(env: str, task: Task, max_steps: int, noise: float) -> ExactValues | None:
    """Exact values of a task; None if its states do not fit a table."""
    if env != "sokoban":
        return None
    try:
        mdp = sokoban_mdp(parse_level(str(task.content["xsb"])), max_steps)
    except OracleLimitError:  # the record says that its values are forked
        return None
    return ExactValues(mdp, noise)
