"""ECPO: outcome advantage plus, at each repeated state, one gated and shrunk advantage per canonical action."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import OutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme, of_nodes
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["ECPO"]

Floats = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class ECPO(StateScheme, OutcomeScheme):
    """A = A_GRPO + ω ρ_s A_act(u), where A_act is the z-score in state s of μ̃_u = (n_u Ḡ_u + κ μ) / (n_u + κ).

    Ḡ_u is the mean discounted return of the n_u turns in s with canonical action u, μ that of all n_s turns in s. The gate
    ρ_s = tanh(n_s / τ) B / (B + W) compares the variance of returns between actions, B = Σ_u n_u (Ḡ_u − μ)² / n_s, with
    that within them, W. All turns with one action in one state get the same credit, whereas GiGPO uses each turn's own return.

    Canonical actions are the log's action keys, and each invalid turn counts as a distinct action.

    **With two actions in a state the z-score cancels the shrinkage**, because the z-scores of two values depend on
    their counts alone, for every κ. κ has an effect with three or more actions.

    The formula, κ, G and GiGPO's settings are from secondary sources that agree. No code was found. The following
    choices are ours: τ and ω (not published), whether the z-score weights turns or actions, the population
    deviation, the weights in B and W, and branches as full episodes.

    Attributes:
        discount: γ, as in GiGPO.
        shrinkage: κ ≥ 0, in turns.
        gate_turns: τ > 0 (ours, not published).
        step_weight: ω (ours, not published).
    """

    name = "ecpo"
    source = "ECPO (arXiv 2606.05885). The formula is from secondary sources, and τ and ω are ours"
    second_hand = True
    credit_needs = "repeated states"
    verification = "secondary sources (no code found, and τ and ω are ours)"
    limitations = (
        "With two actions in a state, the z-score cancels the shrinkage for every κ. If states are visited once, or "
        "if all visits take the same action, the scheme is grpo."
    )
    properties = frozenset({"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "ties_zero"})

    discount: float = 0.95
    shrinkage: float = 2.0
    gate_turns: float = 4.0
    step_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "discount", 0.0, 1.0)
        require_range(self, "shrinkage", 0.0, np.inf)
        require_range(self, "gate_turns", 0.0, np.inf, above=True)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group)
        episodes = group.episode_index
        states = self.states(group)
        state, n_states = states.state[episodes.stored], len(states.keys)
        rewards, penalties = group.arrays.reward[episodes.stored], self.penalties(group)[episodes.stored]
        returns = backward_sums(rewards, episodes.offsets, self.discount)
        magnitude = backward_sums(np.abs(rewards), episodes.offsets, self.discount) + penalties
        pair, first = self._actions(group, state)
        scores = returns - penalties
        # squares are taken in units of a power of two, which rounds nothing, so that those of tiny scores do not vanish
        unit = np.ldexp(1.0, int(np.frexp(np.abs(scores).max(initial=0.0))[1]) - 1) if scores.any() else 1.0
        n_s = np.bincount(state, minlength=n_states)
        mean = np.bincount(state, scores, minlength=n_states) / np.maximum(n_s, 1)
        n_u = np.bincount(pair)
        of_action = np.bincount(pair, scores) / np.maximum(n_u, 1)
        shrunk = ((n_u * of_action + self.shrinkage * mean[state[first]]) / (n_u + self.shrinkage))[pair]
        between = np.bincount(state, ((of_action[pair] - mean[state]) / unit) ** 2, minlength=n_states) / np.maximum(
            n_s, 1
        )
        within = np.bincount(state, ((scores - of_action[pair]) / unit) ** 2, minlength=n_states) / np.maximum(n_s, 1)
        variance = between + within
        gate = np.tanh(n_s / self.gate_turns) * np.divide(
            between, variance, out=np.zeros(n_states), where=variance > 0.0
        )
        compared = normalize(
            shrunk,
            state,
            n_states,
            std_kind="population",
            magnitude=magnitude,
            quantity="shrunk mean return of the action",
            rows=episodes.stored,
        )
        step = (self.step_weight * gate[state] * compared)[episodes.own]
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "action in the state, gated": step,
            },
            rewards=returns[episodes.own],
            diagnostics={
                "step_advantage": step,
                "action_advantage": compared[episodes.own],
                **of_nodes(states.keys, gate=gate),
            },
        )

    def _actions(self, group: Group, state: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The (state, action) pair of each turn of full episodes (M,), and the first turn of each pair."""
        arrays, stored = group.arrays, group.episode_index.stored
        # each invalid turn counts as a distinct action
        action = np.where(arrays.valid, arrays.action, len(arrays.actions) + np.arange(len(arrays.action)))[stored]
        width = len(arrays.actions) + len(arrays.action) + 1
        _, first, pair = np.unique(state.astype(np.int64) * width + action, return_index=True, return_inverse=True)
        return pair, first
