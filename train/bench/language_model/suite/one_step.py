"""M1, M2 and M3 of credit for a language model, in its own parameter space, at the start of learning.

Every batch has the same training tasks, so that rollouts (and the credit computed from them) are the only noise; g is the
gradient of the trainer's loss, g* = ∇J of the mean exact success on these tasks. M2 takes a step of a given KL divergence
along g, and one along the first step of a new Adam, and evaluates the moved model on the batch's tasks and on held-out ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.exact.metrics import bias_variance, direction
from creditflow.train.bench.exact.values import policy_gradient, state_occupancy, success
from creditflow.train.bench.language_model.suite.learning import prompt_features, sample_groups
from creditflow.train.bench.language_model.suite.model_policy import ModelPolicy
from creditflow.train.bench.language_model.suite.setting import Setting
from creditflow.train.bench.language_model.suite.updates import merged_weights
from creditflow.train.bench.language_model.suite.work import LearningWork, OneStepWork
from creditflow.train.bench.shared.credits import batch_credit
from creditflow.train.bench.shared.steps import search_step

__all__ = ["measure_one_step"]

Floats = NDArray[np.float64]
KL_TOLERANCE = 0.01  # relative to the target
MAX_TRIALS = 25
STEPPERS = ("sgd", "adam")


def measure_one_step(
    setting: Setting, names: Sequence[str], work: OneStepWork, learning: LearningWork, seed: int
) -> dict[str, Any]:
    """M1, M2 and M3 of every method.

    Args:
        setting: a family with the warm-up's model.
        names: names of the methods.
        work: sizes.
        learning: group size and loss aggregation.
        seed: seed of the rollouts, the same for all methods.

    Returns:
        By method ``cos_mean``, ``cos_batch`` (M1), ``bias2``, ``variance`` (M3), and ``sgd`` and ``adam``, the gains of exact
        success on training and held-out tasks (M2, means over batches); the exact gradient's gains as "gradient".
    """
    policy, tasks = setting.policy, list(range(work.tasks))
    tables = policy.probabilities(tasks)
    exact = [policy_gradient(policy.tasks[i].mdp, table) / len(tasks) for i, table in zip(tasks, tables, strict=True)]
    target = policy.gradient(tasks, exact)
    stepper = _Stepper(setting, tasks, tables, work.kl)
    gradients: dict[str, list[Floats]] = {name: [] for name in names}
    horizon, features = policy.tasks[0].mdp.horizon, prompt_features(policy.tasks)
    sources = {
        name: open_annotation_source(name, horizon, "state", features) for name in names
    }  # fitted to the batches before
    for batch in range(work.batches):
        rng = np.random.default_rng([seed, 31, batch])
        groups = sample_groups(policy, tasks, tables, learning.size, rng)
        for name in names:
            credits_ = batch_credit(name, groups, tables, sources[name], [seed, 32, batch])
            for group in groups:
                sources[name].update(group)
            gradients[name].append(policy.gradient(tasks, merged_weights(groups, credits_, learning.aggregation)))
    found: dict[str, Any] = {"gradient": {kind: stepper.gain(target, kind) for kind in STEPPERS}}
    for name, sampled in gradients.items():
        stacked = np.stack(sampled)
        m1, m3 = direction(stacked, target), bias_variance(stacked, target)
        gains = {kind: [stepper.gain(one, kind) for one in sampled[: work.steps]] for kind in STEPPERS}
        found[name] = {
            "cos_mean": m1.of_mean,
            "cos_batch": m1.one_batch,
            "bias2": m3.bias2,
            "variance": m3.variance if np.isfinite(m3.variance) else None,
            **{kind: np.mean(gain, axis=0).tolist() for kind, gain in gains.items()},
        }
    return found


class _Stepper:
    """Steps of a fixed KL divergence from one policy, and their gains of exact success."""

    def __init__(self, setting: Setting, tasks: Sequence[int], tables: Sequence[Floats], kl: float) -> None:
        self.policy, self.tasks, self.tables, self.kl = setting.policy, tasks, tables, kl
        self.evaluated = setting.evaluated_policies()["held_out"]
        turns = [state_occupancy(self.policy.tasks[i].mdp, t).sum(axis=0) for i, t in zip(tasks, tables, strict=True)]
        total = sum_in_order(float(one.sum()) for one in turns)
        self.visits = [one / total for one in turns]
        self.before = _success(self.policy, tasks, tables), self._held_out(self.policy)

    def gain(self, gradient: Floats, kind: str) -> tuple[float, float]:
        """Gain of exact success on the tasks of the batch and on the held-out ones; 0 for a gradient of 0."""
        step = gradient if kind == "sgd" else gradient / (np.abs(gradient) + 1e-8)
        scale = float(np.abs(step).max(initial=0.0))
        if not scale > 0.0:
            return 0.0, 0.0

        def attempt(size: float) -> tuple[tuple[ModelPolicy, list[Floats]], float]:
            moved = self.policy.moved(step, size)
            tables = moved.probabilities(self.tasks)
            return (moved, tables), self._divergence(tables)

        (moved, tables), _ = search_step(attempt, self.kl, 0.01 / scale, tolerance=KL_TOLERANCE, trials=MAX_TRIALS)
        return _success(moved, self.tasks, tables) - self.before[0], self._held_out(moved) - self.before[1]

    def _divergence(self, tables: Sequence[Floats]) -> float:
        """Visit-weighted KL(old ‖ new) in nats per turn."""
        return sum_in_order(
            float(visits @ (old * np.log(np.maximum(old, 1e-30) / np.maximum(new, 1e-30))).sum(axis=1))
            for visits, old, new in zip(self.visits, self.tables, tables, strict=True)
        )

    def _held_out(self, policy: ModelPolicy) -> float:
        evaluated = ModelPolicy(policy.model, self.evaluated.tasks, self.evaluated.action_tokens)
        tasks = range(len(evaluated.tasks))
        return _success(evaluated, tasks, evaluated.probabilities(tasks))


def _success(policy: ModelPolicy, tasks: Sequence[int], tables: Sequence[Floats]) -> float:
    """Mean exact success over a policy's tasks of the action probabilities in ``tables``."""
    return float(np.mean([float(success(policy.tasks[i].mdp, t)) for i, t in zip(tasks, tables, strict=True)]))
