"""The metrics of a policy update, from those of its optimiser steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from creditflow.train.settings.update import UpdateConfig

__all__ = ["FIRST_STEP_MAXIMA", "TOKEN_MEANS", "UpdateSummary"]

POLICY_MEANS: Final = ("loss", "clip_fraction", "approx_kl", "entropy", "grad_norm")
# weighted means over the target tokens of a minibatch
TOKEN_MEANS: Final = ("clip_fraction", "approx_kl", "entropy", "kl_reference", "importance_truncated")
CRITIC_MEANS: Final = ("value_loss", "value_clip_fraction", "value_grad_norm")
# of the first optimiser step, when the policy is still the one that sampled
FIRST_STEP_MAXIMA: Final = ("first_step_ratio_deviation", "sampler_mismatch_max")


class _Means:
    """Means of named metrics over optimiser steps; nan without a step."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = dict.fromkeys(names, 0.0)
        self.steps = 0

    def add(self, metrics: Mapping[str, float]) -> None:
        """Count one step, which must have every metric."""
        self.steps += 1
        for name in self._sums:
            self._sums[name] += metrics[name]

    def means(self) -> dict[str, float]:
        return {name: value / self.steps if self.steps else float("nan") for name, value in self._sums.items()}


class UpdateSummary:
    """What ``update_policy`` returns, from the metrics of its optimiser steps.

    Args:
        config: settings of the update.
        has_reference, has_critic: whether there is a reference policy, a critic.
    """

    def __init__(self, config: UpdateConfig, *, has_reference: bool, has_critic: bool) -> None:
        loss = config.loss
        more = (
            ("kl_reference", has_reference and bool(loss.kl_weight) and loss.kl_in == "loss"),
            ("importance_truncated", bool(loss.importance_cap) and config.old_logprobs == "trainer"),
        )
        self._policy = _Means((*POLICY_MEANS, *(name for name, present in more if present)))
        self._critic = _Means(CRITIC_MEANS if has_critic else ())
        self._first_step = dict.fromkeys(FIRST_STEP_MAXIMA, 0.0)
        self._tokens = self._computed = 0.0

    @property
    def steps(self) -> int:
        """Optimiser steps of the policy so far."""
        return self._policy.steps

    def add_policy_step(self, metrics: Mapping[str, float], tokens: int) -> None:
        """Count one step of the policy over a number of tokens of rows."""
        if not self.steps:
            self._first_step = {name: max(0.0, metrics[name]) for name in FIRST_STEP_MAXIMA}
        self._policy.add(metrics)
        self._tokens += tokens
        self._computed += metrics["tokens_computed"]

    def add_critic_step(self, metrics: Mapping[str, float]) -> None:
        """Count one step of the critic."""
        self._critic.add(metrics)

    def metrics(self) -> dict[str, float]:
        """Means over steps, maxima of the first step, and sums."""
        means = self._policy.means() | self._critic.means()
        sums = {"steps": float(self.steps), "tokens": float(self._tokens), "tokens_computed": self._computed}
        return means | self._first_step | sums
