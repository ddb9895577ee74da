"""Canonicalisation in the papers' code: greedy text similarity, and the state texts that it compares.

A canonicalisation assigns each of K state keys the index of the key that represents it; the state graph and the
comparison of turns take it as ``labels``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["greedy_similarity", "rewardflow_alfworld_state"]


def greedy_similarity(keys: Sequence[str], order: Iterable[int], threshold: float) -> NDArray[np.int32]:
    """Greedy clusters by ``difflib`` ratio, as the released GiGPO and GraphGPO compute them.

    Keys are visited in ``order``; each joins the first cluster whose *first member* is similar enough, else starts a new
    one. The result depends on the order, and time is quadratic in the number of clusters: this is here for parity.

    Args:
        keys: K texts.
        order: indices of keys in the order of visits (repeats are ignored).
        threshold: minimum ratio, in (0, 1).

    Returns:
        int32 (K,): the representative of each key; keys not in ``order`` represent themselves.

    Raises:
        ConfigError: the threshold is outside (0, 1).
    """
    if not 0.0 < threshold < 1.0:
        raise ConfigError(f"a similarity threshold must lie in (0, 1), got {short_repr(threshold)}")
    labels = np.arange(len(keys), dtype=np.int32)
    first_members: dict[int, SequenceMatcher[str]] = {}
    for i in dict.fromkeys(order):
        for first, matcher in first_members.items():
            matcher.set_seq1(keys[i])
            # the quick ratios are upper bounds: they never miss a match
            ratios = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
            if all(ratio() >= threshold for ratio in ratios):
                labels[i] = first
                break
        else:
            first_members[i] = SequenceMatcher(None, "", keys[i])
    return labels


_TRANSFORMED = re.compile(r"^You (clean|heat|cool) the (.+?) using the ")


def rewardflow_alfworld_state(observation: str, inventory: str) -> str:
    """Return the state text of RewardFlow's released ALFWorld manager: observation, then inventory.

    If the observation is the cleaning, heating or cooling of the object in hand, the inventory becomes that object with
    the property; the tag lasts for that turn only (as released; according to the paper it persists).

    >>> rewardflow_alfworld_state("You heat the egg 1 using the microwave 1.", "You are carrying: a egg 1.")
    'You heat the egg 1 using the microwave 1. You are carrying: egg 1 (heated).'
    """
    match = _TRANSFORMED.match(observation)
    if match and match[2] in inventory:
        inventory = f"You are carrying: {match[2]} ({match[1]}ed)."
    return f"{observation} {inventory}"
