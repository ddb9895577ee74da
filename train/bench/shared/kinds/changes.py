"""Changes that tasks of any kind can have: state keys merged at random, partial scores, slips, another turn limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import numpy as np

from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = ["UNCHANGED", "Changes"]

PARTIAL: Final = 0.5  # largest score of an episode that reaches the turn limit
MERGED: Final = 0.5  # share of the states whose text key another state has too


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different from a kind's tasks.

    Attributes:
        merged: whether half of the states share their text key with one other state, chosen at random.
        graded: whether an episode that reaches the turn limit is scored by the share of the way to success that it has
            gone: 0.5 · max(0, 1 − d / d₀), with d turns to success at its end and d₀ at its start.
        slip: probability that an action is replaced by a uniformly random one.
        horizon: the turn limit; 0 for that of the kind.
    """

    merged: bool = False
    graded: bool = False
    slip: float = 0.0
    horizon: int = 0

    def of(self, mdp: FiniteMDP) -> FiniteMDP:
        """The changed task."""
        if self.horizon:
            mdp = replace(mdp, horizon=self.horizon)
        if self.graded:
            mdp = _graded(mdp)
        if self.merged:
            mdp = replace(mdp, text_keys=_merged_keys(mdp))
        return _slippery(mdp, self.slip) if self.slip else mdp


UNCHANGED: Final = Changes()


def _graded(mdp: FiniteMDP) -> FiniteMDP:
    distance = mdp.distance[: mdp.size]
    gone = 1.0 - distance / distance[mdp.start]
    return replace(mdp, limit_score=np.where(np.isfinite(distance), PARTIAL * np.maximum(gone, 0.0), 0.0))


def _merged_keys(mdp: FiniteMDP) -> tuple[str, ...]:
    """Text keys in which random pairs of acting states have one key; the pairs depend on the task's name alone."""
    seed = int.from_bytes(blake2b(mdp.name.encode(), digest_size=8).digest(), "big")
    order = np.random.default_rng([seed, 61]).permutation(mdp.size)
    pairs = order[: 2 * int(MERGED * mdp.size / 2)].reshape(-1, 2)
    keys = list(mdp.keys)
    for first, second in pairs.tolist():
        keys[second] = keys[first]
    return tuple(keys)


def _slippery(mdp: FiniteMDP, slip: float) -> FiniteMDP:
    """The task in which each valid action has the result of a random valid one with this probability."""
    size, actions, branches = mdp.next_states.shape
    valid = [action for action in range(actions) if action != mdp.invalid]
    results = mdp.next_states[:, valid].reshape(size, 1, -1)
    random = mdp.transition_probs[:, valid].reshape(size, 1, -1) * (slip / len(valid))
    next_states = np.concatenate([mdp.next_states, np.broadcast_to(results, (size, actions, results.shape[2]))], axis=2)
    probabilities = np.concatenate(
        [mdp.transition_probs * (1.0 - slip), np.broadcast_to(random, (size, actions, random.shape[2]))], axis=2
    )
    if mdp.invalid is not None:  # a completion without an action changes nothing
        probabilities[:, mdp.invalid, branches:] = 0.0
        probabilities[:, mdp.invalid, :branches] = mdp.transition_probs[:, mdp.invalid]
    return replace(mdp, next_states=next_states.astype(np.int32), transition_probs=probabilities)
