"""PPO with a critic as credit schemes: GAE over tokens (``ppo_gae``) and over turns (``mt_ppo``).

The critic is an annotator: it has written ``value.critic`` before these functions see the group. So they are pure, and
the same log can be scored with another critic. The critic's targets are returned in ``value_targets``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.gae import gae_ragged, mean_and_std
from creditflow.wrappers.credit.annotations.values import token_values, turn_values
from creditflow.wrappers.credit.base import Aggregation, Credit, ValueTargets
from creditflow.wrappers.credit.outcome import PenaltyScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["MTPPO", "PPOGAE", "ActorCritic", "Estimate"]

CRITIC = "value.critic"


class Estimate(NamedTuple):
    """Advantages and value targets of one group before whitening, for M steps (tokens or turns).

    Attributes:
        advantages: float64 (M,).
        targets: value targets of the critic.
        sizes: int (M,), number of model tokens of each step.
        offsets: int64 (G+1,). Trajectory i has steps ``offsets[i]:offsets[i+1]``.
        turn: int (M,), the turn (of N) that each step belongs to.
        from_model: bool (M,), steps of the model. Other steps only propagate values.
    """

    advantages: NDArray[np.float64]
    targets: ValueTargets
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    turn: NDArray[np.int64]
    from_model: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class ActorCritic(PenaltyScheme):
    """Parameters of both schemes.

    Attributes:
        discount: γ, per step.
        gae_lambda: λ of GAE. With 1 the estimate uses the return to the end of the episode.
        whitening: scale the advantages of a batch to mean 0 and variance 1 over its model tokens.
        std_eps: added to the variance (inside the root).
    """

    aggregation: ClassVar[Aggregation] = "token_mean"
    ranges = {"discount": "[0, 1]", "gae_lambda": "[0, 1]", "std_eps": "[0, inf)"}

    discount: float = 1.0
    gae_lambda: float = 1.0
    whitening: bool = True
    std_eps: float = 0.0

    @abstractmethod
    def estimate(self, group: Group) -> Estimate:
        """Estimate the advantages and value targets of one group, before whitening."""

    def whitening_weights(self, estimate: Estimate) -> NDArray[np.int64]:
        """int (M,): how often each step counts in the mean and variance of the batch (by its tokens unless overridden)."""
        return estimate.sizes

    def rewards(self, group: Group) -> NDArray[np.float64]:
        """float64 (N,): reward of each turn, less the penalty of an invalid one."""
        return group.arrays.reward - self.penalties(group)

    @property
    def couples_groups(self) -> bool:
        """Whitening uses the mean and variance of the batch."""
        return self.whitening

    def assign(self, group: Group) -> Credit:
        """Score one group, whitened alone."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups, whitened together."""
        estimates = [self.estimate(group) for group in groups]
        mean, std = 0.0, 1.0
        if self.whitening and estimates:
            samples = [
                np.repeat(
                    estimate.advantages[estimate.from_model], self.whitening_weights(estimate)[estimate.from_model]
                )
                for estimate in estimates
            ]
            mean, std = mean_and_std(np.concatenate(samples), self.std_eps)
        return [self._credit(group, estimate, mean, std) for group, estimate in zip(groups, estimates, strict=True)]

    def _credit(self, group: Group, estimate: Estimate, mean: float, std: float) -> Credit:
        advantages = (estimate.advantages - mean) / std if std > 0.0 else np.zeros_like(estimate.advantages)
        weights = np.where(estimate.from_model, 1.0, 0.0)
        n = len(group.arrays.trajectory)
        counts = np.bincount(estimate.turn, weights, minlength=n)
        step = np.bincount(estimate.turn, advantages * weights, minlength=n) / np.maximum(counts, 1.0)
        extra: dict[str, Any] = {}
        if estimate.targets.level == "token":
            spans = zip(estimate.offsets[:-1].tolist(), estimate.offsets[1:].tolist(), strict=True)
            extra["token_advantages"] = tuple(advantages[a:b][estimate.from_model[a:b]] for a, b in spans)
        return Credit.of(
            group,
            step={
                "generalised advantage, whitened over the batch" if self.whitening else "generalised advantage": step
            },
            aggregation=self.aggregation,
            value_targets=estimate.targets,
            **extra,
        )


@register
@dataclass(frozen=True, kw_only=True)
class MTPPO(ActorCritic):
    """A_t = Σ_l (γλ)^l δ_{t+l}, δ_t = R_t + γ V(s_{t+1}) − V(s_t), over turns, with one number for all tokens of a turn.

    The tokens of a turn are one decision, so a long completion is not discounted for its length, and V is only needed
    before the first token of each completion.
    """

    name = "mt_ppo"
    source = "Schulman et al. 2016 (arXiv 1506.02438) eq. 16 over turns, as in PiCA (arXiv 2605.09287) section 4"
    verification = "the paper"
    limitations = (
        "Its credit is only as good as its critic. Whitening shifts the credit of a batch by its mean, so equal "
        "trajectories get non-zero credit."
    )
    presets = {"paper": {}}
    requires: ClassVar[tuple[str, ...]] = (CRITIC,)
    properties = frozenset({"branches", "permutation"})

    def estimate(self, group: Group) -> Estimate:
        """Estimate the advantages and value targets of one group, before whitening."""
        arrays = group.arrays
        values = turn_values(group, CRITIC, scheme=self.name)
        advantages = gae_ragged(
            self.rewards(group), values, arrays.offsets, discount=self.discount, gae_lambda=self.gae_lambda
        )
        targets = ValueTargets(CRITIC, "turn", tuple(arrays.split(advantages + values)), tuple(arrays.split(values)))
        n = len(values)
        return Estimate(advantages, targets, group.token_counts, arrays.offsets, np.arange(n), np.ones(n, np.bool_))


@register
@dataclass(frozen=True, kw_only=True)
class PPOGAE(ActorCritic):
    """Â_i = Σ_l (γλ)^l δ_{i+l}, δ_i = r_i + γ V(h_{i+1}) − V(h_i), over tokens, with a turn's reward on its last token.

    Attributes:
        steps: which tokens are steps: "model" tokens only (the value after a turn's last token is the one before the
            next turn's first), or "all" tokens from the first model token on, including observation tokens (released
            code: values of observation tokens then propagate credit between turns).
    """

    steps: Literal["model", "all"] = "model"

    name = "ppo_gae"
    source = (
        "Schulman et al. 2016 and 2017. Released code: core_algos of Search-R1 and PiCA, GAE over all response tokens"
    )
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "Its credit is only as good as its critic, which must estimate the value before every token. With γ or λ "
        "below 1, a long completion is discounted for its length. Whitening shifts the credit of a batch by its "
        "mean."
    )
    presets = {"paper": {}, "release": {"steps": "all", "std_eps": 1e-8}}
    requires: ClassVar[tuple[str, ...]] = (CRITIC,)
    requires_tokens = (CRITIC,)
    properties = frozenset({"branches", "permutation"})

    def estimate(self, group: Group) -> Estimate:
        """Estimate the advantages and value targets of one group, before whitening."""
        arrays = group.arrays
        rewards = arrays.split(self.rewards(group))
        positions, turns, from_model, step_rewards, step_values = [], [], [], [], []
        for i, values in enumerate(token_values(group, CRITIC, scheme=self.name)):
            tokens = group.trajectories[i].tokens
            at, owner = _step_positions(tokens, self.steps)
            positions.append(at)
            turns.append(owner + arrays.offsets[i])
            from_model.append(tokens.mask[at] if tokens is not None else np.zeros(0, np.bool_))
            step_rewards.append(_on_last_token(rewards[i], at, owner, tokens))
            step_values.append(values[at])
        offsets = np.concatenate([[0], np.cumsum([len(at) for at in positions])]).astype(np.int64)
        values, model_steps = np.concatenate(step_values), np.concatenate(from_model)
        advantages = gae_ragged(
            np.concatenate(step_rewards), values, offsets, discount=self.discount, gae_lambda=self.gae_lambda
        )
        returns = np.split(advantages + values, offsets[1:-1])
        return Estimate(
            advantages,
            ValueTargets(
                CRITIC,
                "token",
                tuple(values[model] for values, model in zip(returns, from_model, strict=True)),
                tuple(values[model] for values, model in zip(step_values, from_model, strict=True)),
            ),
            np.ones(len(advantages), np.int64),
            offsets,
            np.concatenate(turns),
            model_steps,
        )


def _step_positions(
    tokens: Tokens | None, steps: Literal["model", "all"]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the steps, ascending, and the turn of each."""
    if tokens is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = tokens.turn_offsets
    owner = np.full(len(tokens.ids), -1, np.int64)
    owner[offsets[0] : offsets[-1]] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    model = np.flatnonzero(tokens.mask & (owner >= 0))
    if steps == "all" and len(model):
        model = np.arange(model[0], model[-1] + 1)
    return model, owner[model]


def _on_last_token(
    rewards: NDArray[np.float64], positions: NDArray[np.int64], owner: NDArray[np.int64], tokens: Tokens | None
) -> NDArray[np.float64]:
    """Put rewards of turns (T,) on steps (M,): each on the last model token at or before the end of its turn.

    Rewards before the first model token are dropped.
    """
    out = np.zeros(len(positions))
    if tokens is None:
        return out
    model = np.flatnonzero(tokens.mask[positions])
    at = np.searchsorted(owner[model], np.arange(len(rewards)), side="right") - 1
    np.add.at(out, model[at[at >= 0]], rewards[at >= 0])
    return out
