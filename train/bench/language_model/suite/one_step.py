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

from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.language_model.suite.learning import prompt_features
from creditflow.train.bench.language_model.suite.setting import Setting
from creditflow.train.bench.language_model.suite.work import LearningWork, OneStepWork
from creditflow.train.bench.learning.batch import Draw, Sampling, sample_batches
from creditflow.train.bench.learning.one_step import OneStep, Start
from creditflow.train.bench.learning.steps import Search
from creditflow.train.settings.update import LossConfig

__all__ = ["measure_one_step"]

Floats = NDArray[np.float64]
SEARCH = Search(tolerance=0.01, trials=25, first=0.01)


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
    tasks, held_out = range(work.tasks), range(len(setting.pool), len(setting.pool) + len(setting.held_out))
    policy, mdps = setting.policy, [task.mdp for task in (*setting.pool, *setting.held_out)]
    steps = {"sgd": _as_it_is, "adam": _first_of_adam}
    start = Start(policy, mdps, tasks, held_out, kls=(work.kl,), steps=steps, search=SEARCH)
    measured = {name: OneStep(start, work.steps) for name in names}
    sources = {
        name: open_annotation_source(name, mdps[0].horizon, "state", prompt_features(setting.pool)) for name in names
    }  # fitted to the batches before
    # credit has unit scale, as in learning
    sampling = Sampling(work.tasks, learning.size, LossConfig(aggregation=learning.aggregation), together=False)
    for number in range(work.batches):
        rng = np.random.default_rng([seed, 31, number])
        draw = Draw.of(tasks, rng, f"{number}", (seed, 32, number))
        (batch,) = sample_batches(mdps, draw, [policy], sampling)
        for name in names:
            credits_ = batch.credit(name, sources[name], draw.corruption, sampling.key)
            for group in batch.groups:
                sources[name].update(group)
            measured[name].add(batch, credits_, sampling, unit=True)
    results: dict[str, Any] = {"gradient": {kind: start.exact_gains(kind, work.kl).tolist() for kind in steps}}
    for name, one_step in measured.items():
        moments = one_step.moments()
        results[name] = {
            **moments,
            "variance": moments["variance"] if np.isfinite(moments["variance"]) else None,
            **{kind: start.gains(one_step.steps(kind, work.kl)).tolist() for kind in steps},
        }
    return results


def _as_it_is(gradient: Floats) -> Floats:
    return gradient


def _first_of_adam(gradient: Floats) -> Floats:
    """The direction of the first step of a new Adam."""
    return gradient / (np.abs(gradient) + 1e-8)
