"""Tiny tasks whose exact numbers can be worked out on paper."""

from typing import Any

import numpy as np

import creditflow
import creditflow.train.bench
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.policies import softmax

LOGITS = np.random.default_rng(7).normal(size=(3, 2))


def chain(horizon=3, slip=0.0):
    """a -0-> b -0-> goal; action 1 falls into a trap from which nothing leads."""
    intended = np.array([[1, 2], [3, 2], [2, 2]], np.int32)
    if slip:
        successor = np.stack([intended, intended[:, ::-1]], axis=2)
        chance = np.broadcast_to([1.0 - slip, slip], successor.shape).copy()
    else:
        successor, chance = intended[:, :, None], np.ones((3, 2, 1))
    return FiniteMDP(
        name="chain",
        keys=("a", "b", "trap", "goal"),
        text_keys=("a", "b", "trap", "goal"),
        actions=("go", "fall"),
        successor=successor,
        chance=chance,
        end_score=np.ones(1),
        end_success=np.ones(1, np.bool_),
        limit_score=np.zeros(3),
        start=0,
        horizon=horizon,
    )


def policy():
    return softmax(LOGITS)


def bare(name: str, **settings: Any) -> Any:
    """An environment without Gymnasium's wrappers."""
    return creditflow.make(name, **settings).unwrapped
