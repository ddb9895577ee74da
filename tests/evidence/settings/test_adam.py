"""Adam, clipping, centring and scale as the studies use them."""

import numpy as np
import pytest
from evidence.adam import AdamUpdate
from evidence.settings.cells import StudySampling

from creditflow import credit
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.learning.batch import Sampling
from creditflow.train.bench.learning.policy import make_features, policy_with_success
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.shared.cells import learn_shared
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.train.settings.update import LossConfig

TASKS = viewed_tasks("pits", 0, 0, 10)
MDPS = [task.mdp for task in TASKS]
POLICY = policy_with_success(StackedTasks(MDPS), make_features("local", [task.parts for task in TASKS]), range(8), 0.3)
GROUPS = [
    simulate(mdp, np.full((1, mdp.size, 4), 0.25), 6, np.random.default_rng(i))[0] for i, mdp in enumerate(MDPS[:3])
]


def learned(names, update, loss=None, updates=8):
    sampling, rng = Sampling(4, 4, loss or LossConfig()), np.random.default_rng(0)
    return learn_shared(
        POLICY, MDPS, range(8), [8, 9], names, rng, sampling=sampling, update=update, updates=updates, every=4
    )


def test_a_curve_does_not_depend_on_the_other_methods():
    update = AdamUpdate(0.05, epochs=2, minibatches=3)
    alone = learned(["grouptd"], update).curves["grouptd"]
    together = learned(["grpo", "shuffled(grouptd)", "grouptd"], update).curves["grouptd"]
    np.testing.assert_array_equal(alone.train, together.train)
    np.testing.assert_array_equal(alone.held_out, together.held_out)


def test_adam_learns_too():
    curve = learned(["oracle_adv"], AdamUpdate(0.05), updates=12).curves["oracle_adv"]
    assert curve.train[-1] > curve.train[0] + 0.1


def test_clipping_keeps_the_policy_near_the_old_one():
    far = AdamUpdate(0.3, epochs=20)
    free = learned(["oracle_adv"], far, LossConfig(clip_low=0.99, clip_high=1e6, dual_clip=0.0), updates=1)
    near = learned(["oracle_adv"], far, LossConfig(clip_low=0.05, clip_high=0.05), updates=1)
    assert free.curves["oracle_adv"].train[-1] != near.curves["oracle_adv"].train[-1]


def sampling(**options):
    return StudySampling(3, 6, LossConfig(), **options)


def test_centring_and_scale_are_those_of_each_groups_turns_in_the_loss():
    masks = [np.arange(len(group.number)) % 4 > 0 for group in GROUPS]
    rng = np.random.default_rng(0)
    credits_ = [
        credit.Credit.of(group, outcome=np.zeros(len(group)), step=3.0 + rng.standard_normal(len(mask)), loss_mask=mask)
        for group, mask in zip(GROUPS, masks, strict=True)
    ]
    lengths = [int(mask.sum()) for mask in masks]
    plain, centred, both = (
        np.split(sampling(**options).loss_turns(GROUPS, credits_).advantage, np.cumsum(lengths)[:-1])
        for options in ({}, {"centring": "group"}, {"centring": "group", "scale": "group"})
    )
    for given, mean_zero, unit in zip(plain, centred, both, strict=True):
        np.testing.assert_allclose(mean_zero, given - given.mean(), atol=1e-15)
        np.testing.assert_allclose(unit, mean_zero / np.sqrt(np.mean(mean_zero**2)), atol=1e-14)


def test_a_group_without_credit_stays_without_credit():
    nothing = [credit.Credit.of(group, outcome=np.full(len(group), 0.1)) for group in GROUPS]
    turns = sampling(centring="group", scale="group").loss_turns(GROUPS, nothing)
    assert pytest.approx(0.0, abs=1e-12) == np.abs(turns.advantage).max()
