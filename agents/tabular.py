"""A softmax table over state keys: the smallest policy that learns from any credit scheme, without torch.

The policy gradient of one group is g = (1/G) Σ_i Σ_t m_it c_it ∇ log π(a_it | s_it), with c the scheme's advantages
and m its loss mask. Schemes give advantages of different size, so equal learning rates are not equal steps; a step is
therefore matched in KL divergence (the new policy differs from the old one by a given amount, averaged over the
states visited), or is Adam's (Kingma & Ba 2015, algorithm 1), which divides every coordinate by its own scale.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Decision, View
from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group

__all__ = ["TabularAgent"]

BISECTIONS = 30
MAX_STEP = 1e6  # larger steps mean that the gradient is negligible
BETAS = (0.9, 0.999)  # of Adam
EPSILON = 1e-8


class TabularAgent:
    """π(a | s) ∝ exp θ(s, a), one row per state key, added when the state is first visited.

    Args:
        optimal_prob: probability in [0, 1) that a new row gives to the oracle's optimal actions together; 0 (default)
            starts uniform and does not need the oracle.
        step: "kl" or "adam": the meaning of ``step_size``. Adam counts the updates of each row by itself.
        step_size: KL per update (nats, averaged over visited turns), or learning rate.
    """

    name = "tabular"

    def __init__(
        self, *, optimal_prob: float = 0.0, step: Literal["kl", "adam"] = "kl", step_size: float = 0.01
    ) -> None:
        if step not in ("kl", "adam"):
            raise unknown_name_error("step matching", str(step), ["kl", "adam"])
        if not 0.0 <= optimal_prob < 1.0:
            raise ConfigError(f"optimal_prob is a probability in [0, 1), got {short_repr(optimal_prob)}")
        if not step_size > 0.0:
            raise ConfigError(f"step_size must be positive, got {short_repr(step_size)}")
        self.optimal_prob, self.step, self.step_size = optimal_prob, step, step_size
        self._actions: dict[str, tuple[str, ...]] = {}
        self._logits: dict[str, NDArray[np.float64]] = {}
        self._cumulative: dict[str, list[float]] = {}
        # of Adam, by state key: number of updates, mean and mean square of the gradient
        self._moments: dict[str, tuple[int, NDArray[np.float64], NDArray[np.float64]]] = {}

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        decisions = []
        for view in views:
            key = view.info["state_key"]
            cumulative = self._cumulative.get(key)
            if cumulative is None:
                cumulative = self._cumulative[key] = self._row(view, key)
            index = min(bisect_right(cumulative, view.rng.random()), len(cumulative) - 1)
            decisions.append(Decision(view.env.action_from_text(self._actions[key][index])))
        return decisions

    def probabilities(self, state_key: str) -> dict[str, float]:
        """π(· | s) of a visited state.

        Raises:
            ConfigError: the state was never visited.
        """
        if state_key not in self._logits:
            raise ConfigError(f"state {state_key!r} was never visited")
        probs = _softmax(self._logits[state_key][None])[0]
        return dict(zip(self._actions[state_key], probs.tolist(), strict=True))

    def update(self, groups: Sequence[Group], credits_: Sequence[Credit]) -> float:
        """Take one policy-gradient step on all groups; returns its KL divergence (0.0 if there is no gradient).

        Turns whose action is not in the state's row (invalid actions) have no gradient.
        """
        rows: dict[str, int] = {}
        indices: list[tuple[int, int]] = []
        weights: list[float] = []
        for group, credit in zip(groups, credits_, strict=True):
            masked = np.where(credit.flat_loss_mask, credit.flat_advantages, 0.0) / len(group)
            for turn, weight in zip(group.turns, masked.tolist(), strict=True):
                if turn.action in self._actions.get(turn.state_key, ()):
                    row = rows.setdefault(turn.state_key, len(rows))
                    indices.append((row, self._actions[turn.state_key].index(turn.action)))
                    weights.append(weight)
        if not rows or not any(weights):
            return 0.0
        keys = list(rows)
        width = max(len(self._actions[key]) for key in keys)
        logits = np.full((len(keys), width), -np.inf)
        for key, row in rows.items():
            logits[row, : len(self._logits[key])] = self._logits[key]
        probs = _softmax(logits)
        state, action = np.array(indices).T
        weight = np.array(weights)
        gradient = np.zeros_like(probs)
        np.add.at(gradient, (state, action), weight)
        gradient -= np.bincount(state, weight, minlength=len(keys))[:, None] * probs
        visits = np.bincount(state, minlength=len(keys)) / len(state)
        if self.step == "adam":
            new = logits + self._adam(rows, gradient)
        else:
            new = logits + _step_size_for_kl(logits, probs, gradient, visits, self.step_size) * gradient
        for key, row in rows.items():
            updated = new[row, : len(self._logits[key])]
            self._logits[key] = updated - updated.max()
            self._cumulative[key] = list(accumulate(_softmax(self._logits[key][None])[0].tolist()))
        return _divergence(probs, _softmax(new), visits)

    def _adam(self, rows: Mapping[str, int], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows, A), the change of the logits; the moments of these rows are updated."""
        change = np.zeros_like(gradient)
        for key, row in rows.items():
            count = len(self._actions[key])
            updates, mean, square = self._moments.get(key, (0, np.zeros(count), np.zeros(count)))
            updates += 1
            mean = BETAS[0] * mean + (1.0 - BETAS[0]) * gradient[row, :count]
            square = BETAS[1] * square + (1.0 - BETAS[1]) * gradient[row, :count] ** 2
            self._moments[key] = updates, mean, square
            unbiased, scale = mean / (1.0 - BETAS[0] ** updates), np.sqrt(square / (1.0 - BETAS[1] ** updates))
            change[row, :count] = self.step_size * unbiased / (scale + EPSILON)
        return change

    def _row(self, view: View, key: str) -> list[float]:
        """Add the row of a new state; returns its cumulative probabilities."""
        actions = self._actions[key] = view.info["admissible_actions"]
        if not actions:
            raise ConfigError(
                f"a table needs the actions of every state, and the environment lists none in state {short_repr(key, 80)}: "
                "have reset and step return them as info['admissible_actions'], or choose another agent than tabular"
            )
        logits = np.zeros(len(actions))
        if self.optimal_prob:
            best = np.isin(actions, view.oracle.optimal_actions(view.snapshot))
            if best.any() and not best.all():
                logits[best] = np.log(self.optimal_prob / best.sum())
                logits[~best] = np.log((1.0 - self.optimal_prob) / (~best).sum())
        self._logits[key] = logits
        return list(accumulate(_softmax(logits[None])[0].tolist()))


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row-wise softmax; −∞ marks actions that a state does not have."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return probs


def _divergence(old: NDArray[np.float64], new: NDArray[np.float64], visits: NDArray[np.float64]) -> float:
    """Σ_s visits(s) KL(old(s) ‖ new(s)), in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(old > 0.0, old * (np.log(old) - np.log(np.maximum(new, 1e-300))), 0.0)
    return float(visits @ terms.sum(axis=1))


def _step_size_for_kl(
    logits: NDArray[np.float64],
    probs: NDArray[np.float64],
    gradient: NDArray[np.float64],
    visits: NDArray[np.float64],
    target: float,
) -> float:
    """The step size whose KL divergence is ``target``, by doubling and bisection; 0.0 if the gradient vanishes."""
    scale = float(np.abs(gradient).max())
    if scale < 1e-12:
        return 0.0
    low, high = 0.0, 1.0 / scale

    def kl(size: float) -> float:
        return _divergence(probs, _softmax(logits + size * gradient), visits)

    while kl(high) < target and high * scale < MAX_STEP:
        low, high = high, 2.0 * high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if kl(middle) < target else (low, middle)
    return high
