"""Metrics of all methods at one shared policy, on the same newly sampled batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from creditflow.train.bench.annotation_sources import HELD_OUT, open_annotation_source, reads_earlier
from creditflow.train.bench.critics import StateFeatures
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.learning.batch import Sampling, draws, sample_batches
from creditflow.train.bench.learning.one_step import OneStep, Start
from creditflow.train.bench.learning.policy import Policy
from creditflow.wrappers.credit import Credit, CreditError

__all__ = ["SharedMeasured", "SharedMeasures", "measure_shared"]


@dataclass(frozen=True, slots=True)
class SharedMeasures:
    """Metrics of one method at one policy.

    Attributes:
        cos_mean, cos_batch: M1, cos(E g, g*), and the mean over batches of cos(g, g*).
        gain_small, gain: M2 on the training tasks at KL .001 and .01, relative to the gain of g* at the same KL.
        held_out_gain_small, held_out_gain: the gain on the held-out tasks, relative to the same gains; nan if there are none.
        bias2, variance: M3, squared bias and variance relative to ‖g*‖².
        coverage: fraction of turns with credit.
        dead_groups: fraction of groups without any credit.
    """

    cos_mean: float
    cos_batch: float
    gain_small: float
    gain: float
    held_out_gain_small: float
    held_out_gain: float
    bias2: float
    variance: float
    coverage: float
    dead_groups: float


class SharedMeasured(NamedTuple):
    """The metrics of all methods at one policy.

    Attributes:
        methods: measures by method.
        undefined: the reason by method, if one is missing.
    """

    methods: Mapping[str, SharedMeasures]
    undefined: Mapping[str, str]


def measure_shared(
    policy: Policy,
    mdps: Sequence[FiniteMDP],
    train: Sequence[int],
    held_out: Sequence[int],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    sampling: Sampling,
    batches: int,
    features: StateFeatures | None = None,
) -> SharedMeasured:
    """Measure all methods on the same ``batches`` newly sampled batches.

    As in the exact suites, ``X[fitted]``, ``X[linear]`` and ``X[network]`` see ``HELD_OUT`` additional groups of the same task
    for each measured one.

    Args:
        policy: the policy that is sampled.
        mdps: all tasks.
        train, held_out: indices of the tasks.
        names: names of the methods.
        rng: source of randomness of tasks, rollouts and shuffling.
        sampling: tasks and rollouts of a batch, and the loss.
        batches: number of batches.
        features: what fitted critics see of a state.
    """
    (fitting_rng,) = rng.spawn(1)  # annotations do not change the other random numbers
    start = Start(policy, mdps, train, held_out)
    measured = {name: OneStep(start) for name in names}
    undefined: dict[str, str] = {}
    for draw in islice(draws(train, sampling.batch, rng), batches):
        (batch,) = sample_batches(mdps, draw, [policy], sampling)
        earlier: list[ArrayGroup] = []
        if any(map(reads_earlier, names)):
            before = draw._replace(rng=fitting_rng, name=f"{draw.name}-earlier")
            earlier = sample_batches(mdps, before, [policy], sampling, size=HELD_OUT * sampling.size)[0].groups
        cache: dict[str, list[Credit]] = {}  # of this batch
        for name in list(measured):
            source = open_annotation_source(name, mdps[0].horizon, sampling.key, features)
            for group in earlier:
                source.update(group)
            try:
                credits_ = batch.credit(name, source, draw.corruption, sampling.key, cache)
            except CreditError as error:
                if "oracle" in name:  # an oracle without credit is a defect
                    raise
                undefined[name] = str(error)
                del measured[name]
            else:
                measured[name].add(batch, credits_, sampling)
    return SharedMeasured(
        {name: SharedMeasures(**one_step.measures()) for name, one_step in measured.items()}, undefined
    )
