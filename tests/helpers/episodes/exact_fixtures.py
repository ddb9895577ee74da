"""Tiny tasks whose exact values can be worked out on paper."""

from typing import Any

import numpy as np
from helpers.worlds.gridworlds import register_grids
from numpy.typing import NDArray

import creditflow
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.values import softmax
from creditflow.train.bench.learning.policy import Features, LinearPolicy
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups

register_grids()

LOGITS = np.random.default_rng(7).normal(size=(3, 2))


def simulate(mdp: FiniteMDP, policies: NDArray[np.float64], size: int, rng: np.random.Generator) -> list[ArrayGroup]:
    """One group of ``size`` rollouts for each policy (P, S, A) on one task, with common random numbers."""
    return [group for (group,) in sample_groups(StackedTasks([mdp]), policies, size, rng)]


def chain(horizon=3, slip=0.0):
    """a -0-> b -0-> goal; action 1 leads into an absorbing trap."""
    intended = np.array([[1, 2], [3, 2], [2, 2]], np.int32)
    if slip:
        next_states = np.stack([intended, intended[:, ::-1]], axis=2)
        transition_probs = np.broadcast_to([1.0 - slip, slip], next_states.shape).copy()
    else:
        next_states, transition_probs = intended[:, :, None], np.ones((3, 2, 1))
    return FiniteMDP(
        name="chain",
        keys=("a", "b", "trap", "goal"),
        text_keys=("a", "b", "trap", "goal"),
        actions=("go", "fall"),
        next_states=next_states,
        transition_probs=transition_probs,
        terminal_score=np.ones(1),
        terminal_success=np.ones(1, np.bool_),
        limit_score=np.zeros(3),
        start=0,
        horizon=horizon,
    )


def policy():
    return softmax(LOGITS)


def table_policy(logits: NDArray[np.float64]) -> LinearPolicy:
    """The policy softmax(logits), float64 (S, A), on a single task: every state is its own feature."""
    features = Features([np.arange(len(logits))[:, None]], len(logits))
    return LinearPolicy(np.concatenate([logits, np.zeros((1, logits.shape[1]))]), features)


def bare(name: str, **settings: Any) -> Any:
    """An environment without Gymnasium's wrappers."""
    return creditflow.make(name, **settings).unwrapped
